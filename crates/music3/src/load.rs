//! The modules of each stage, loaded from a checkpoint.

use std::ops::ControlFlow;

use burn::{module::Module, tensor::backend::Backend};
use music3_model::Vocoder;
use music3_nn::Width;
use music3_weights::{Component, WeightsError};

use crate::{
    autoregressive::AutoregressiveHalf,
    error::{SongError, Stage},
    flow::Flow,
    progress::{Listener, Progress},
    song::Music3,
};

impl<B: Backend> Music3<B> {
    /// Loads the language model and the depth decoder.
    ///
    /// # Errors
    /// Everything that is wrong with their files.
    pub fn load_autoregressive(&self, listener: &mut dyn Listener<B>) -> Result<AutoregressiveHalf<B>, SongError> {
        let width = self.options().precision.autoregressive();
        let mut loader = Loader { music: self, width, stage: Stage::Autoregressive, listener };
        let configs = self.configs();
        Ok(AutoregressiveHalf {
            language_model: loader
                .load(configs.language_model.init(width, self.device())?, Component::LanguageModel)?,
            rvq_depth_decoder: loader
                .load(configs.rvq_depth_decoder.init(width, self.device())?, Component::RvqDepthDecoder)?,
        })
    }

    /// Loads the condition encoder, in the autoregressive half's width, and the transformer.
    ///
    /// # Errors
    /// Everything that is wrong with their files.
    pub fn load_flow(&self, listener: &mut dyn Listener<B>) -> Result<Flow<B>, SongError> {
        let precision = self.options().precision;
        let configs = self.configs();
        let condition_encoder = configs.condition_encoder.init(precision.autoregressive(), self.device())?;
        let transformer = configs.transformer.init(precision.acoustic(), self.device())?;
        let mut loader = Loader { music: self, width: precision.autoregressive(), stage: Stage::Flow, listener };
        let condition_encoder = loader.load(condition_encoder, Component::ConditionEncoder)?;
        loader.width = precision.acoustic();
        let transformer = loader.load(transformer, Component::Transformer)?;
        Ok(Flow { condition_encoder, transformer })
    }

    /// Loads the vocoder.
    ///
    /// # Errors
    /// Everything that is wrong with its files.
    pub fn load_vocoder(&self, listener: &mut dyn Listener<B>) -> Result<Vocoder<B>, SongError> {
        let width = self.options().precision.acoustic();
        let mut loader = Loader { music: self, width, stage: Stage::Vocoder, listener };
        loader.load(self.configs().vocoder.init(width, self.device())?, Component::Vocoder)
    }
}

/// Loads the components of one stage.
struct Loader<'a, B: Backend> {
    music: &'a Music3<B>,
    width: Width,
    stage: Stage,
    listener: &'a mut dyn Listener<B>,
}

impl<B: Backend> Loader<'_, B> {
    fn load<M: Module<B>>(&mut self, module: M, component: Component) -> Result<M, SongError> {
        let mut report = |progress: music3_weights::Progress<'_>| -> ControlFlow<()> {
            self.listener.progress(Progress::Loading {
                component,
                bytes: progress.loaded_bytes,
                total_bytes: progress.total_bytes,
            })
        };
        let folder = self.music.checkpoint().component(component);
        folder.load::<B, M>(module, self.width, &mut report).map_err(|error| match error {
            WeightsError::Cancelled { .. } => SongError::Cancelled { stage: self.stage },
            error => error.into(),
        })
    }
}

//! The modules of each stage, loaded from a checkpoint: together or one by one.

use std::ops::ControlFlow;

use burn::{module::Module, tensor::backend::Backend};
use music3_model::{ConditionMix, DepthDecoder, Qwen3ForCausalLM, Transformer1DModel, Vocoder};
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
    /// Loads the language model and the depth decoder, which make frames together.
    ///
    /// # Errors
    /// Everything that is wrong with their files; the listener broke.
    pub fn load_autoregressive(&self, listener: &mut dyn Listener<B>) -> Result<AutoregressiveHalf<B>, SongError> {
        Ok(AutoregressiveHalf {
            language_model: self.load_language_model(listener)?,
            rvq_depth_decoder: self.load_rvq_depth_decoder(listener)?,
        })
    }

    /// Loads the condition encoder and the transformer, which make latents together.
    ///
    /// # Errors
    /// Everything that is wrong with their files; the listener broke.
    pub fn load_flow(&self, listener: &mut dyn Listener<B>) -> Result<Flow<B>, SongError> {
        Ok(Flow {
            condition_encoder: self.load_condition_encoder(listener)?,
            transformer: self.load_transformer(listener)?,
        })
    }

    /// Loads the language model by itself.
    ///
    /// # Errors
    /// Everything that is wrong with its files; the listener broke.
    pub fn load_language_model(&self, listener: &mut dyn Listener<B>) -> Result<Qwen3ForCausalLM<B>, SongError> {
        let width = self.options().precision.autoregressive();
        let module = self.configs().language_model.init(width, self.device())?;
        self.load(module, width, Component::LanguageModel, listener)
    }

    /// Loads the depth decoder by itself.
    ///
    /// # Errors
    /// Everything that is wrong with its files; the listener broke.
    pub fn load_rvq_depth_decoder(&self, listener: &mut dyn Listener<B>) -> Result<DepthDecoder<B>, SongError> {
        let width = self.options().precision.autoregressive();
        let module = self.configs().rvq_depth_decoder.init(width, self.device())?;
        self.load(module, width, Component::RvqDepthDecoder, listener)
    }

    /// Loads the condition encoder by itself; its width is the autoregressive half's.
    ///
    /// # Errors
    /// Everything that is wrong with its files; the listener broke.
    pub fn load_condition_encoder(&self, listener: &mut dyn Listener<B>) -> Result<ConditionMix<B>, SongError> {
        let width = self.options().precision.autoregressive();
        let module = self.configs().condition_encoder.init(width, self.device())?;
        self.load(module, width, Component::ConditionEncoder, listener)
    }

    /// Loads the transformer by itself.
    ///
    /// # Errors
    /// Everything that is wrong with its files; the listener broke.
    pub fn load_transformer(&self, listener: &mut dyn Listener<B>) -> Result<Transformer1DModel<B>, SongError> {
        let width = self.options().precision.acoustic();
        let module = self.configs().transformer.init(width, self.device())?;
        Ok(self.load(module, width, Component::Transformer, listener)?.with_joined_projections())
    }

    /// Loads the vocoder.
    ///
    /// # Errors
    /// Everything that is wrong with its files; the listener broke.
    pub fn load_vocoder(&self, listener: &mut dyn Listener<B>) -> Result<Vocoder<B>, SongError> {
        let width = self.options().precision.acoustic();
        let module = self.configs().vocoder.init(width, self.device())?;
        self.load(module, width, Component::Vocoder, listener)
    }

    fn load<M: Module<B>>(
        &self,
        module: M,
        width: Width,
        component: Component,
        listener: &mut dyn Listener<B>,
    ) -> Result<M, SongError> {
        let mut report = |progress: music3_weights::Progress<'_>| -> ControlFlow<()> {
            let (bytes, total_bytes) = (progress.loaded_bytes, progress.total_bytes);
            listener.progress(Progress::Loading { component, bytes, total_bytes })
        };
        let folder = self.checkpoint().component(component);
        folder.load::<B, M>(module, width, &mut report).map_err(|error| match error {
            WeightsError::Cancelled { .. } => SongError::Cancelled { stage: stage_of(component) },
            error => error.into(),
        })
    }
}

/// Returns the stage that a component belongs to.
fn stage_of(component: Component) -> Stage {
    match component {
        Component::LanguageModel | Component::RvqDepthDecoder => Stage::Autoregressive,
        Component::ConditionEncoder | Component::Transformer => Stage::Flow,
        Component::Vocoder => Stage::Vocoder,
    }
}

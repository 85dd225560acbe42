//! A song from end to end: stages are loaded, run and dropped in turn.

use std::{
    ops::ControlFlow,
    path::Path,
    time::{Duration, Instant},
};

use burn::{
    module::Module,
    tensor::{Tensor, backend::Backend},
};
use music3_audio::StereoAudio;
use music3_model::Vocoder;
use music3_nn::{ComputePath, Matmul, Width};
use music3_text::{PromptIds, PromptTokenizer};
use music3_weights::{Checkpoint, Component, WeightsError};

use crate::{
    autoregressive::{AutoregressiveHalf, CodeSource, FinishReason, Frames},
    configs::ModelConfigs,
    error::{SongError, Stage},
    estimate::{Bf16Storage, Estimate, RunSize},
    flow::{Flow, FlowOptions, NoiseSource},
    precision::Precision,
    progress::{Listener, Progress},
    request::SongRequest,
    rng::TorchGenerator,
    sampler::Sampler,
    vocode::vocode,
};

/// How a model is run, apart from what is asked of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Storage of each half.
    pub precision: Precision,
    /// How f32 products are computed on a device that has faster units for less exact operands.
    pub matmul: Matmul,
    /// Whether kernels are used where there are some, or plain tensor ops only.
    pub path: ComputePath,
    /// Memory that a run may use; a run that is estimated to need more is refused. `None` refuses nothing.
    pub memory_limit_bytes: Option<u64>,
}

/// A checkpoint that songs are made with, on one device.
#[derive(Debug)]
pub struct Music3<B: Backend> {
    checkpoint: Checkpoint,
    configs: ModelConfigs,
    tokenizer: PromptTokenizer,
    device: B::Device,
    options: Options,
}

/// A finished song.
#[derive(Clone, Debug, PartialEq)]
pub struct Song {
    /// The samples.
    pub audio: StereoAudio,
    /// The codes of each frame, c0 first.
    pub codes: Vec<Vec<u32>>,
    /// Why the song is as long as it is.
    pub finish: FinishReason,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// What each stage took.
    pub timings: Vec<StageTiming>,
}

/// The time a stage took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct StageTiming {
    /// The stage.
    pub stage: Stage,
    /// Reading its weights.
    pub load: Duration,
    /// Running it.
    pub run: Duration,
}

/// Codes and noise of one run, from a generator or from a recording.
pub trait SongSource: CodeSource + NoiseSource {}

impl<T: CodeSource + NoiseSource> SongSource for T {}

impl<B: Backend> Music3<B> {
    /// Opens a checkpoint folder: reads its configurations, headers and tokenizer, but no weights, and plans the load of
    /// every component, so that nothing is found missing halfway through a song.
    ///
    /// # Errors
    /// Everything that is wrong with the folder.
    pub fn open(folder: &Path, device: B::Device, options: Options) -> Result<Self, SongError> {
        let checkpoint = Checkpoint::open(folder)?;
        let configs = ModelConfigs::read(&checkpoint)?;
        checkpoint.plans()?;
        let tokenizer = PromptTokenizer::from_file(checkpoint.tokenizer().join("tokenizer.json"))?;
        Ok(Self { checkpoint, configs, tokenizer, device, options })
    }

    /// Returns the checkpoint.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Returns the components' configurations.
    pub fn configs(&self) -> &ModelConfigs {
        &self.configs
    }

    /// Returns how it is run.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the device.
    pub fn device(&self) -> &B::Device {
        &self.device
    }

    /// Returns the token ids of a request's prompt.
    ///
    /// # Errors
    /// A request that [`SongRequest::validate`] refuses, or a prompt that is too long.
    pub fn prompt(&self, request: &SongRequest) -> Result<PromptIds, SongError> {
        request.validate()?;
        Ok(self.tokenizer.encode(&request.caption, &request.lyrics, request.control_tokens)?)
    }

    /// Estimates what a request needs.
    ///
    /// # Errors
    /// As [`prompt`](Self::prompt).
    pub fn estimate(&self, request: &SongRequest) -> Result<Estimate, SongError> {
        let size = RunSize {
            prompt_tokens: self.prompt(request)?.conditional.len(),
            max_frames: request.validate()?,
            steps: request.steps,
        };
        let storage = Bf16Storage::of::<B>(&self.device);
        Ok(Estimate::new(&self.checkpoint, &self.configs, self.options.precision, size, storage))
    }

    /// Makes a song; its random numbers are torch's for the request's seed.
    ///
    /// # Errors
    /// See [`SongError`]. Nothing is loaded for a request that cannot be run.
    pub fn generate(&self, request: &SongRequest, listener: &mut dyn Listener<B>) -> Result<Song, SongError> {
        let generator = TorchGenerator::new(request.seed);
        let mut source = Sampler::new(generator, self.configs.language_model.vocab_size);
        self.generate_from(request, &mut source, listener)
    }

    /// Makes a song from given codes and noise.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    pub fn generate_from(
        &self,
        request: &SongRequest,
        source: &mut dyn SongSource,
        listener: &mut dyn Listener<B>,
    ) -> Result<Song, SongError> {
        self.scope(|| self.stages(request, source, listener))
    }

    /// Runs `work`, which calls the stages one by one, on the path and with the products that the options name.
    pub fn scope<T>(&self, work: impl FnOnce() -> T) -> T {
        self.options.path.scope(|| self.options.matmul.scope(work))
    }

    fn stages(
        &self,
        request: &SongRequest,
        source: &mut dyn SongSource,
        listener: &mut dyn Listener<B>,
    ) -> Result<Song, SongError> {
        let max_frames = request.validate()?;
        let prompt = self.prompt(request)?;
        self.refuse_what_cannot_fit(request)?;
        let mut timings = Vec::with_capacity(3);

        // 1. Frames. Each block drops its modules at its end, so that the peak is the largest stage.
        let frames: Frames<B> = {
            let mut timer = Timer::start(Stage::Autoregressive, &mut timings);
            let half = self.load_autoregressive(listener)?;
            timer.loaded();
            half.run(&prompt, max_frames, source, listener).and_then(on_device(Stage::Autoregressive))?
        };
        // 2. Latents.
        let latents: Vec<Tensor<B, 3>> = {
            let mut timer = Timer::start(Stage::Flow, &mut timings);
            let flow = self.load_flow(listener)?;
            timer.loaded();
            let options = FlowOptions { steps: request.steps, ..FlowOptions::default() };
            flow.run(frames.frame_hiddens, options, source, listener).and_then(on_device(Stage::Flow))?
        };
        // 3. Samples.
        let audio = {
            let mut timer = Timer::start(Stage::Vocoder, &mut timings);
            let vocoder = self.load_vocoder(listener)?;
            timer.loaded();
            vocode(&vocoder, latents, &self.configs.latent_rates(), listener).and_then(on_device(Stage::Vocoder))?
        };
        let codes = frames.codes.into_iter().skip(1).collect();
        Ok(Song { audio, codes, finish: frames.finish, prompt_tokens: prompt.conditional.len(), timings })
    }

    /// Refuses a request that is estimated to need more memory than [`Options::memory_limit_bytes`] allows.
    ///
    /// # Errors
    /// [`SongError::OutOfMemory`], or as [`prompt`](Self::prompt).
    pub fn refuse_what_cannot_fit(&self, request: &SongRequest) -> Result<(), SongError> {
        let (stage, needed_bytes) = self.estimate(request)?.peak();
        match self.options.memory_limit_bytes {
            Some(available_bytes) if available_bytes < needed_bytes => {
                Err(SongError::OutOfMemory { stage, needed_bytes, available_bytes })
            }
            _ => Ok(()),
        }
    }

    /// Loads the language model and the depth decoder.
    ///
    /// # Errors
    /// Everything that is wrong with their files.
    pub fn load_autoregressive(&self, listener: &mut dyn Listener<B>) -> Result<AutoregressiveHalf<B>, SongError> {
        let width = self.options.precision.autoregressive();
        let mut loader = Loader { music: self, width, stage: Stage::Autoregressive, listener };
        let configs = &self.configs;
        Ok(AutoregressiveHalf {
            language_model: loader.load(configs.language_model.init(width, &self.device)?, Component::LanguageModel)?,
            rvq_depth_decoder: loader
                .load(configs.rvq_depth_decoder.init(width, &self.device)?, Component::RvqDepthDecoder)?,
        })
    }

    /// Loads the condition encoder, in the autoregressive half's width, and the transformer.
    ///
    /// # Errors
    /// Everything that is wrong with their files.
    pub fn load_flow(&self, listener: &mut dyn Listener<B>) -> Result<Flow<B>, SongError> {
        let precision = self.options.precision;
        let configs = &self.configs;
        let condition_encoder = configs.condition_encoder.init(precision.autoregressive(), &self.device)?;
        let transformer = configs.transformer.init(precision.acoustic(), &self.device)?;
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
        let width = self.options.precision.acoustic();
        let mut loader = Loader { music: self, width, stage: Stage::Vocoder, listener };
        loader.load(self.configs.vocoder.init(width, &self.device)?, Component::Vocoder)
    }
}

/// Passes a stage's result on unless the device reports a failure, which enqueued work cannot return by itself.
fn on_device<T>(stage: Stage) -> impl FnOnce(T) -> Result<T, SongError> {
    move |result| match music3_nn::take_device_error() {
        Some(message) => Err(SongError::Device { stage, message }),
        None => Ok(result),
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
        let folder = self.music.checkpoint.component(component);
        folder.load::<B, M>(module, self.width, &mut report).map_err(|error| match error {
            WeightsError::Cancelled { .. } => SongError::Cancelled { stage: self.stage },
            error => error.into(),
        })
    }
}

/// Measures a stage; the measurement is kept when it is dropped.
struct Timer<'a> {
    stage: Stage,
    start: Instant,
    load: Duration,
    timings: &'a mut Vec<StageTiming>,
}

impl<'a> Timer<'a> {
    fn start(stage: Stage, timings: &'a mut Vec<StageTiming>) -> Self {
        Self { stage, start: Instant::now(), load: Duration::ZERO, timings }
    }

    fn loaded(&mut self) {
        self.load = self.start.elapsed();
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        let run = self.start.elapsed() - self.load;
        self.timings.push(StageTiming { stage: self.stage, load: self.load, run });
    }
}

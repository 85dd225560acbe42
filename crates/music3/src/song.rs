//! A song from end to end: stages are loaded, run and dropped in turn.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use burn::tensor::{Tensor, backend::Backend};
use music3_audio::StereoAudio;
use music3_nn::{ComputePath, Matmul};
use music3_text::{PromptIds, PromptTokenizer};
use music3_weights::Checkpoint;

use crate::{
    autoregressive::{CodeSource, FinishReason, Frames},
    configs::ModelConfigs,
    error::{SongError, Stage},
    estimate::{Bf16Storage, Estimate, RunSize, StageEstimate},
    fingerprint::fingerprint,
    flow::{FlowOptions, NoiseSource},
    precision::Precision,
    progress::Listener,
    request::SongRequest,
    rng::{Generator, Rng},
    sampler::Sampler,
    saved_frames::SavedFrames,
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
    /// Tokens of the prompt; none for a song that was rendered from frames.
    pub prompt_tokens: Option<usize>,
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

    /// Returns the device.
    pub fn device(&self) -> &B::Device {
        &self.device
    }

    /// Returns how the model is run.
    pub fn options(&self) -> Options {
        self.options
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
        Ok(self.estimated(RunSize {
            prompt_tokens: self.prompt(request)?.conditional.len(),
            max_frames: request.validate()?,
            steps: request.steps,
        }))
    }

    /// Estimates what rendering saved frames needs.
    pub fn estimate_rendering(&self, saved: &SavedFrames, steps: usize) -> Estimate {
        let size = RunSize { prompt_tokens: 0, max_frames: saved.count(), steps };
        self.estimated(size).of_rendering(saved.bytes())
    }

    fn estimated(&self, size: RunSize) -> Estimate {
        let storage = Bf16Storage::of::<B>(&self.device);
        Estimate::new(&self.checkpoint, &self.configs, self.options.precision, size, storage)
    }

    /// Makes a song; its random numbers are those of the request's seed.
    ///
    /// # Errors
    /// See [`SongError`]. Nothing is loaded for a request that cannot be run.
    pub fn generate(&self, request: &SongRequest, listener: &mut dyn Listener<B>) -> Result<Song, SongError> {
        self.generate_from(request, &mut self.sampler(request), listener)
    }

    /// Returns what draws a request's codes and noise.
    pub fn sampler(&self, request: &SongRequest) -> Sampler<Generator> {
        Sampler::new(Generator::new(request.rng, request.seed), self.configs.language_model.vocab_size)
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
        let prompt_tokens = self.prompt(request)?.conditional.len();
        self.refuse_what_cannot_fit(request)?;
        let (frames, timing) = self.frames(request, source, listener)?;
        let mut song = self.render(frames, request.steps, source, listener)?;
        song.prompt_tokens = Some(prompt_tokens);
        song.timings.insert(0, timing);
        Ok(song)
    }

    /// Runs `work`, which calls the stages one by one, on the path and with the products that the options name.
    pub fn scope<T>(&self, work: impl FnOnce() -> T) -> T {
        self.options.path.scope(|| self.options.matmul.scope(work))
    }

    /// Runs the autoregressive half: text to frames, which [`render`](Self::render) turns into a song.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    pub fn frames(
        &self,
        request: &SongRequest,
        codes: &mut dyn CodeSource,
        listener: &mut dyn Listener<B>,
    ) -> Result<(Frames<B>, StageTiming), SongError> {
        let max_frames = request.validate()?;
        let prompt = self.prompt(request)?;
        let mut timings = Vec::with_capacity(1);
        let size = RunSize { prompt_tokens: prompt.conditional.len(), max_frames, steps: request.steps };
        let [autoregressive, ..] = self.estimated(size).stages;
        // Each block drops its modules at its end, so that the peak is the largest stage.
        self.make_room(&autoregressive)?;
        let frames = {
            let mut timer = Timer::start(Stage::Autoregressive, &mut timings);
            let half = self.load_autoregressive(listener)?;
            timer.loaded();
            self.scope(|| half.run(&prompt, max_frames, codes, listener)).and_then(on_device(Stage::Autoregressive))?
        };
        Ok((frames, timings[0]))
    }

    /// Runs the acoustic half: frames to a song, in `steps` Euler steps per window.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    pub fn render(
        &self,
        frames: Frames<B>,
        steps: usize,
        noise: &mut dyn NoiseSource,
        listener: &mut dyn Listener<B>,
    ) -> Result<Song, SongError> {
        if steps == 0 {
            return Err(SongError::NoSteps);
        }
        let mut timings = Vec::with_capacity(3);
        let max_frames = frames.frame_hiddens.dims()[1];
        let [_, flow, vocoder] = self.estimated(RunSize { prompt_tokens: 0, max_frames, steps }).stages;
        // 1. Latents.
        self.make_room(&flow)?;
        let latents: Vec<Tensor<B, 3>> = {
            let mut timer = Timer::start(Stage::Flow, &mut timings);
            let flow = self.load_flow(listener)?;
            timer.loaded();
            let options = FlowOptions { steps, ..FlowOptions::default() };
            self.scope(|| flow.run(frames.frame_hiddens, options, noise, listener)).and_then(on_device(Stage::Flow))?
        };
        // 2. Samples.
        self.make_room(&vocoder)?;
        let audio = {
            let mut timer = Timer::start(Stage::Vocoder, &mut timings);
            let vocoder = self.load_vocoder(listener)?;
            timer.loaded();
            self.scope(|| vocode(&vocoder, latents, &self.configs.latent_rates(), listener))
                .and_then(on_device(Stage::Vocoder))?
        };
        B::memory_cleanup(&self.device);
        let codes = frames.codes.into_iter().skip(1).collect();
        Ok(Song { audio, codes, finish: frames.finish, prompt_tokens: None, timings })
    }

    /// Returns saved frames on this model's device, and what draws the noise that comes after them: with the request's
    /// own seed and generator that is the noise of the song that they were saved from.
    ///
    /// # Errors
    /// They are frames of a model of other dimensions.
    pub fn saved_frames(
        &self,
        saved: &SavedFrames,
        rng: Rng,
        seed: u64,
    ) -> Result<(Frames<B>, Sampler<Generator>), SongError> {
        saved.refuse_other_model(&self.configs)?;
        let frames = saved.to_frames(self.options.precision.autoregressive(), &self.device);
        let mut sampler = Sampler::new(Generator::new(rng, seed), self.configs.language_model.vocab_size);
        sampler.pass_over(&frames.codes, frames.finish, self.configs.rvq_depth_decoder.audio_vocab_size);
        Ok((frames, sampler))
    }

    /// Returns a hash that tells this checkpoint from others: of the names, the lengths and both ends of its files.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn fingerprint(&self) -> Result<String, SongError> {
        fingerprint(&self.checkpoint)
    }

    /// Gives back what the device held for earlier stages, and refuses a stage whose weights its own memory is then too small for.
    /// What else the stage needs was estimated with the request, and some of it lies on the device already.
    fn make_room(&self, stage: &StageEstimate) -> Result<(), SongError> {
        B::memory_cleanup(&self.device);
        let failed = |error| SongError::Device { stage: stage.stage, message: format!("{error}") };
        B::sync(&self.device).map_err(failed)?;
        let needed_bytes = stage.weight_bytes;
        match music3_nn::free_device_bytes::<B>(&self.device) {
            Some(available_bytes) if available_bytes < needed_bytes => {
                Err(SongError::OutOfMemory { stage: stage.stage, needed_bytes, available_bytes })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a request that is estimated to need more memory than [`Options::memory_limit_bytes`] allows.
    ///
    /// # Errors
    /// [`SongError::OutOfMemory`], or as [`prompt`](Self::prompt).
    pub fn refuse_what_cannot_fit(&self, request: &SongRequest) -> Result<(), SongError> {
        self.refuse_what_needs_too_much(&self.estimate(request)?)
    }

    /// Refuses an estimate of more memory than [`Options::memory_limit_bytes`] allows.
    ///
    /// # Errors
    /// [`SongError::OutOfMemory`].
    pub fn refuse_what_needs_too_much(&self, estimate: &Estimate) -> Result<(), SongError> {
        let (stage, needed_bytes) = estimate.peak();
        match self.options.memory_limit_bytes {
            Some(available_bytes) if available_bytes < needed_bytes => {
                Err(SongError::OutOfMemory { stage, needed_bytes, available_bytes })
            }
            _ => Ok(()),
        }
    }
}

/// Passes a stage's result on unless the device reports a failure, which enqueued work cannot return by itself.
fn on_device<T>(stage: Stage) -> impl FnOnce(T) -> Result<T, SongError> {
    move |result| match music3_nn::take_device_error() {
        Some(message) => Err(SongError::Device { stage, message }),
        None => Ok(result),
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

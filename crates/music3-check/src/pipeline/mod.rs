//! Captures: whole runs of upstream, replayed with its codes and noise and then from its seed alone.

mod candidates;
mod comparison;
mod forced;
mod free;

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use burn::{
    module::Param,
    tensor::{DType, Tensor, TensorData, backend::Backend},
};
use music3::{
    Listener, Music3, Precision, Progress, SongError, SongRequest,
    autoregressive::{AutoregressiveHalf, CodeSource, Frames},
    flow::{FlowOptions, NoiseSource},
    vocode::vocode,
};
use music3_audio::StereoAudio;
use music3_nn::{Width, ops};
use music3_text::{ControlTokens, PromptIds};

use self::comparison::Extent;
use crate::{
    CheckError,
    case::CaseFile,
    components::Context,
    dump,
    judge::{FULL_SCALE, Scale},
    row::Row,
    run::{Options, Outcome},
};

/// A capture, its model and its request.
pub(crate) struct Replay<'a, B: Backend> {
    case: &'a CaseFile,
    precision: Precision,
    music: Music3<B>,
    request: SongRequest,
    row_scale: Vec<(usize, f32)>,
    stop: &'a AtomicBool,
}

/// Follows a run for nothing but to stop it where that is asked for.
struct Stoppable<'a>(&'a AtomicBool);

impl<B: Backend> Listener<B> for Stoppable<'_> {
    fn progress(&mut self, _progress: Progress) -> ControlFlow<()> {
        go_on(self.0)
    }
}

/// No noise.
struct Silence;

impl NoiseSource for Silence {
    fn noise(&mut self, _window: usize, len: usize, _width: Width) -> Vec<f32> {
        vec![0.0; len]
    }
}

/// Returns whether a run may go on.
fn go_on(stop: &AtomicBool) -> ControlFlow<()> {
    match stop.load(Ordering::SeqCst) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// Replays a capture.
pub(crate) fn replay<B: Backend>(context: &Context<'_, B>, options: &Options) -> Result<Outcome, CheckError> {
    let case = context.case;
    let replay = Replay::<B>::open(context, options)?;
    if case.has("error") {
        return replay.expect_an_error();
    }
    let mut outcome = Outcome::default();
    match Extent::of(case)? {
        extent @ (Extent::Whole | Extent::UpToConditions) => {
            let forced = forced::run(&replay, extent)?;
            if let Some(folder) = &options.dump {
                let named = forced.answers.iter().map(|(name, values)| (name.clone(), values));
                dump::write_tensors(folder, &case.stem(), named)?;
            }
            outcome.rows = forced.rows;
            outcome.notes = forced.notes;
        }
        Extent::Nothing => outcome.notes.push("forced: not run, the capture holds only codes and audio".to_owned()),
    }
    let free = free::run(&replay)?;
    outcome.rows.extend(free.rows);
    outcome.free = Some(free.run);
    Ok(outcome)
}

impl<'a, B: Backend> Replay<'a, B> {
    fn open(context: &Context<'a, B>, options: &'a Options) -> Result<Self, CheckError> {
        let (case, precision) = (context.case, context.precision);
        let folder = checkpoint_folder(case, options.model.as_deref())?;
        let song_options = music3::Options { precision, ..music3::Options::default() };
        let music =
            Music3::open(&folder, context.device.clone(), song_options).map_err(|error| unreadable(case, error))?;
        let request = SongRequest {
            caption: case.value("prompt")?,
            lyrics: case.value("lyrics")?,
            max_seconds: case.value("duration")?,
            steps: case.value("steps")?,
            seed: case.value("seed")?,
            rng: music3::rng::Rng::Torch,
            control_tokens: ControlTokens::AsUpstream,
        };
        let rows = music.configs().language_model.vocab_size;
        let row_scale = row_scale(case, rows)?;
        Ok(Self { case, precision, music, request, row_scale, stop: &options.stop })
    }

    /// Returns the scale that the checkpoint's dimensions count as.
    fn scale(&self) -> Scale {
        match self.music.configs().language_model.hidden_size >= FULL_SCALE {
            true => Scale::Full,
            false => Scale::Reduced,
        }
    }

    /// The run must fail, for a reason that lies in the request or in what the model draws.
    fn expect_an_error(&self) -> Result<Outcome, CheckError> {
        let mut source = free::from_seed(self);
        let run = self.frames(&mut source, &mut self.stoppable());
        let run = run.and_then(|frames| self.audio(frames, &mut source, &mut self.stoppable()));
        let row = Row::new("error", "json", "entry");
        match run {
            Ok(_) => {
                Ok(Outcome { rows: vec![row.failed("the run must fail, and it made a song")], ..Outcome::default() })
            }
            Err(error) if is_about_the_checkpoint(&error) => Err(unreadable(self.case, error)),
            Err(error) => {
                let notes = vec![format!("the run failed as it must: {error}")];
                Ok(Outcome { rows: vec![row], notes, free: None })
            }
        }
    }

    /// Runs the autoregressive half.
    fn frames(&self, codes: &mut dyn CodeSource, listener: &mut dyn Listener<B>) -> Result<Frames<B>, SongError> {
        let max_frames = self.request.validate()?;
        let prompt = self.prompt()?;
        self.half()?.run(&prompt, max_frames, codes, listener)
    }

    fn stoppable(&self) -> Stoppable<'a> {
        Stoppable(self.stop)
    }

    fn prompt(&self) -> Result<PromptIds, SongError> {
        self.music.prompt(&self.request)
    }

    fn half(&self) -> Result<AutoregressiveHalf<B>, SongError> {
        let mut half = self.music.load_autoregressive(&mut self.stoppable())?;
        if !self.row_scale.is_empty() {
            let width = self.precision.autoregressive();
            let weight = half.language_model.lm_head.weight.val();
            half.language_model.lm_head.weight = Param::from_tensor(scale_rows(weight, &self.row_scale, width));
        }
        Ok(half)
    }

    /// Runs the condition encoder over all windows. The flow around it takes the fewest steps it can, from silence:
    /// conditions depend on neither.
    fn conditions(&self, frames: Frames<B>, listener: &mut dyn Listener<B>) -> Result<(), SongError> {
        let flow = self.music.load_flow(&mut self.stoppable())?;
        let options = FlowOptions { steps: 1, ..FlowOptions::default() };
        flow.run(frames.frame_hiddens, options, &mut Silence, listener).map(drop)
    }

    /// Runs the acoustic half.
    fn audio(
        &self,
        frames: Frames<B>,
        noise: &mut dyn NoiseSource,
        listener: &mut dyn Listener<B>,
    ) -> Result<StereoAudio, SongError> {
        let options = FlowOptions { steps: self.request.steps, ..FlowOptions::default() };
        let flow = self.music.load_flow(&mut self.stoppable());
        let latents = flow?.run(frames.frame_hiddens, options, noise, listener)?;
        let vocoder = self.music.load_vocoder(&mut self.stoppable())?;
        vocode(&vocoder, latents, &self.music.configs().latent_rates(), listener)
    }
}

/// Multiplies rows of a matrix in its own width, as the run that was captured did.
fn scale_rows<B: Backend>(weight: Tensor<B, 2>, scales: &[(usize, f32)], width: Width) -> Tensor<B, 2> {
    let [rows, _] = weight.dims();
    let mut factors = vec![1.0f32; rows];
    scales.iter().for_each(|&(row, factor)| factors[row] = factor);
    let device = weight.device();
    let factors = Tensor::<B, 2>::from_data(TensorData::new(factors, [rows, 1]), (&device, DType::F32));
    ops::mul(weight, factors, width)
}

fn row_scale(case: &CaseFile, rows: usize) -> Result<Vec<(usize, f32)>, CheckError> {
    let scales: std::collections::BTreeMap<usize, f32> = case.optional("lm_head_row_scale")?.unwrap_or_default();
    match scales.keys().find(|row| **row >= rows) {
        None => Ok(scales.into_iter().collect()),
        Some(row) => Err(CheckError::Name {
            path: case.path().to_owned(),
            name: row.to_string(),
            problem: "`lm_head_row_scale` names a row that the head does not have",
        }),
    }
}

/// Returns the folder of the checkpoint that a capture was made with, unpacked where it is an archive.
fn checkpoint_folder(case: &CaseFile, chosen: Option<&Path>) -> Result<PathBuf, CheckError> {
    let path = match chosen {
        Some(path) => path.to_owned(),
        None => {
            let relative: PathBuf = case.value("checkpoint")?;
            case.path().parent().unwrap_or(Path::new("")).join(relative)
        }
    };
    match path.to_string_lossy().ends_with(".tar.gz") {
        true => music3::demo::unpack_file(&path).map_err(|error| unreadable(case, error)),
        false => Ok(path),
    }
}

/// Returns whether an error says nothing about the request: no capture expects it.
fn is_about_the_checkpoint(error: &SongError) -> bool {
    use SongError::{Config, ConfigValue, Mismatch, NoCacheFolder, OutOfMemory, Unpack, Weights, WrongHash};
    matches!(
        error,
        Weights(_)
            | Config(_)
            | ConfigValue { .. }
            | Mismatch { .. }
            | Unpack { .. }
            | WrongHash { .. }
            | NoCacheFolder
            | OutOfMemory { .. }
    )
}

fn unreadable(case: &CaseFile, source: SongError) -> CheckError {
    CheckError::Checkpoint { path: case.path().to_owned(), source: Box::new(source) }
}

//! Captures: whole runs of upstream, replayed with its codes and noise and then from its seed alone.

mod candidates;
mod forced;
mod free;

use std::path::{Path, PathBuf};

use burn::{
    module::Param,
    tensor::{DType, Tensor, TensorData, backend::Backend},
};
use music3::{
    Music3, Precision, SongError, SongRequest,
    autoregressive::{AutoregressiveHalf, CodeSource, Frames},
    flow::{FlowOptions, NoiseSource},
    vocode::vocode,
};
use music3_audio::StereoAudio;
use music3_nn::ops;
use music3_text::{ControlTokens, PromptIds};

use crate::{
    CheckError,
    case::CaseFile,
    components::Context,
    dump,
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
}

/// Replays a capture.
pub(crate) fn replay<B: Backend>(context: &Context<'_, B>, options: &Options) -> Result<Outcome, CheckError> {
    let case = context.case;
    let replay = Replay::<B>::open(context, options)?;
    if case.has("error") {
        return replay.expect_an_error();
    }
    let mut outcome = Outcome::default();
    match case.holds("noise_0") {
        true => {
            let forced = forced::run(&replay)?;
            if let Some(folder) = &options.dump {
                let named = forced.answers.iter().map(|(name, values)| (name.clone(), values));
                dump::write_tensors(folder, &case.stem(), named)?;
            }
            outcome.rows = forced.rows;
            outcome.notes = forced.notes;
        }
        false => outcome.notes.push("forced: not run, the capture holds only codes and audio".to_owned()),
    }
    let free = free::run(&replay)?;
    outcome.rows.extend(free.rows);
    outcome.free = Some(free.run);
    Ok(outcome)
}

impl<'a, B: Backend> Replay<'a, B> {
    fn open(context: &Context<'a, B>, options: &Options) -> Result<Self, CheckError> {
        let (case, precision) = (context.case, context.precision);
        let folder = checkpoint_folder(case, options.model.as_deref())?;
        let song_options = music3::Options { precision, memory_limit_bytes: None };
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
        Ok(Self { case, precision, music, request, row_scale })
    }

    /// The run must fail, for a reason that lies in the request or in what the model draws.
    fn expect_an_error(&self) -> Result<Outcome, CheckError> {
        let mut source = free::from_seed(self);
        let run = self.frames(&mut source, &mut ()).and_then(|frames| self.audio(frames, &mut source, &mut ()));
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
    fn frames(
        &self,
        codes: &mut dyn CodeSource,
        listener: &mut dyn music3::Listener<B>,
    ) -> Result<Frames<B>, SongError> {
        let max_frames = self.request.validate()?;
        let prompt = self.prompt()?;
        self.half()?.run(&prompt, max_frames, codes, listener)
    }

    fn prompt(&self) -> Result<PromptIds, SongError> {
        self.music.prompt(&self.request)
    }

    fn half(&self) -> Result<AutoregressiveHalf<B>, SongError> {
        let mut half = self.music.load_autoregressive(&mut ())?;
        if !self.row_scale.is_empty() {
            let width = self.precision.autoregressive();
            let weight = half.language_model.lm_head.weight.val();
            half.language_model.lm_head.weight = Param::from_tensor(scale_rows(weight, &self.row_scale, width));
        }
        Ok(half)
    }

    /// Runs the acoustic half.
    fn audio(
        &self,
        frames: Frames<B>,
        noise: &mut dyn NoiseSource,
        listener: &mut dyn music3::Listener<B>,
    ) -> Result<StereoAudio, SongError> {
        let options = FlowOptions { steps: self.request.steps, ..FlowOptions::default() };
        let latents = self.music.load_flow(&mut ())?.run(frames.frame_hiddens, options, noise, listener)?;
        let vocoder = self.music.load_vocoder(&mut ())?;
        vocode(&vocoder, latents, &self.music.configs().latent_rates(), listener)
    }
}

/// Multiplies rows of a matrix in its own width, as the run that was captured did.
fn scale_rows<B: Backend>(weight: Tensor<B, 2>, scales: &[(usize, f32)], width: music3_nn::Width) -> Tensor<B, 2> {
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

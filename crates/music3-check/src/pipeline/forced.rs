//! The forced replay: upstream's codes and noise are fed, every tensor is compared.

use std::{ops::ControlFlow, sync::atomic::AtomicBool};

use burn::tensor::{Tensor, backend::Backend};
use music3::{
    FinishReason, Listener, Precision, Progress, Tap, autoregressive::CodeSource, flow::NoiseSource, schedule::Schedule,
};
use music3_audio::WindowPlan;
use music3_nn::Width;
use music3_text::{PromptIds, token_ids::SEMANTIC_CODES};

use super::{
    Replay,
    candidates::Candidates,
    comparison::{Comparison, Extent},
    go_on, unreadable,
};
use crate::{CheckError, case::CaseFile, components::flow::audio_values, judge::Answers, row::Row, values::Values};

/// What a forced replay computed and how it compares.
pub(super) struct Forced {
    pub(super) answers: Answers,
    pub(super) rows: Vec<Row>,
    pub(super) notes: Vec<String>,
}

pub(super) fn run<B: Backend>(replay: &Replay<'_, B>, extent: Extent) -> Result<Forced, CheckError> {
    let case = replay.case;
    let mut fed = Fed::read(replay, extent)?;
    let mut recorder = Recorder::new(replay);
    let stopped = |error: music3::SongError| match super::is_about_the_checkpoint(&error) {
        true => unreadable(case, error),
        false => case.stopped(error),
    };
    let frames = replay.frames(&mut fed, &mut recorder).map_err(stopped)?;
    let width = replay.precision.autoregressive();
    let finish = frames.finish;
    recorder.answers.insert("frame_hiddens".to_owned(), Values::of(frames.frame_hiddens.clone(), width));
    let audio = match extent {
        Extent::Whole => Some(replay.audio(frames, &mut fed, &mut recorder).map_err(stopped)?),
        Extent::UpToConditions | Extent::Nothing => {
            replay.conditions(frames, &mut recorder).map_err(stopped)?;
            None
        }
    };
    let mut answers = recorder.finish();
    answers.extend(audio.map(|audio| ("audios".to_owned(), audio_values(&audio))));
    answers.insert("text_ids".to_owned(), prompt_values(&replay.prompt().map_err(stopped)?));
    answers.extend(plan_values(replay, fed.frames()));
    let (ids, values) = fed.candidates.to_values();
    answers.insert("guided_ids".to_owned(), ids);
    answers.insert("guided_vals".to_owned(), values);

    let comparison = Comparison::open(replay, extent)?;
    let mut rows = comparison.rows(&answers)?;
    rows.extend(comparison.candidates(&fed.candidates)?);
    rows.extend(ended(case, finish)?);
    Ok(Forced { answers, rows, notes: comparison.notes()? })
}

/// A capture's codes and noise.
struct Fed {
    codes: Vec<Vec<u32>>,
    noise: Vec<Vec<f32>>,
    candidates: Candidates,
}

impl Fed {
    fn read<B: Backend>(replay: &Replay<'_, B>, extent: Extent) -> Result<Self, CheckError> {
        let case = replay.case;
        let configs = replay.music.configs();
        let residual = configs.rvq_depth_decoder.num_codebooks - 1;
        let mut rows = vec![SEMANTIC_CODES as usize];
        rows.resize(residual + 1, configs.rvq_depth_decoder.audio_vocab_size);
        let codes = case.codes("codes", &rows)?;
        if codes.len() < 2 {
            return Err(case.wrong_shape("codes", &[codes.len(), rows.len()], "two rows at least".to_owned()));
        }
        let plan = WindowPlan::new(codes.len() - 1, &configs.latent_rates());
        let mut noise = Vec::new();
        let windows = if extent == Extent::Whole { plan.windows() } else { &[] };
        for (window, planned) in windows.iter().enumerate() {
            let name = format!("noise_{window}");
            let (values, shape) = case.floats(&name)?;
            case.expect_same(&name, &shape, &[1, configs.transformer.in_channels, planned.latents])?;
            noise.push(values);
        }
        Ok(Self { codes, noise, candidates: Candidates::default() })
    }

    fn frames(&self) -> usize {
        self.codes.len() - 1
    }
}

impl CodeSource for Fed {
    fn semantic(&mut self, step: usize, guided: &[f32]) -> Option<u32> {
        self.candidates.push(guided);
        self.codes.get(step).map(|codes| codes[0])
    }

    fn residual(&mut self, step: usize, codebook: usize, _guided: &[f32]) -> u32 {
        self.codes[step][codebook]
    }
}

impl NoiseSource for Fed {
    fn noise(&mut self, window: usize, _len: usize, _width: Width) -> Vec<f32> {
        std::mem::take(&mut self.noise[window])
    }
}

/// `[2, tokens]`
fn prompt_values(prompt: &PromptIds) -> Values {
    let ids = [prompt.conditional.as_slice(), &prompt.unconditional].concat();
    Values::int(ids.into_iter().map(i64::from).collect(), [2, prompt.conditional.len()])
}

/// Windows and times, as they are planned before a run.
fn plan_values<B: Backend>(replay: &Replay<'_, B>, frames: usize) -> [(String, Values); 4] {
    let plan = WindowPlan::new(frames, &replay.music.configs().latent_rates());
    let ints = |value: fn(&music3_audio::Window) -> usize| {
        let values: Vec<i64> = plan.windows().iter().map(|window| value(window) as i64).collect();
        let shape = [values.len()];
        Values::int(values, shape)
    };
    let schedule = Schedule::new(replay.request.steps);
    let floats = |values: &[f32]| Values::f32(values.to_vec(), [values.len()]);
    [
        ("chunk_starts".to_owned(), ints(|window| window.frames.start)),
        ("overlaps".to_owned(), ints(|window| window.overlap)),
        ("timesteps".to_owned(), floats(schedule.timesteps())),
        ("sigmas".to_owned(), floats(schedule.sigmas())),
    ]
}

/// Compares why the run ended.
fn ended(case: &CaseFile, finish: FinishReason) -> Result<Option<Row>, CheckError> {
    let Some(upstream) = case.optional::<bool>("ended_by_end_token")? else { return Ok(None) };
    let row = Row::new("ended_by_end_token", "json", "entry");
    Ok(Some(match (finish == FinishReason::EndToken) == upstream {
        true => row,
        false => row.failed(format!("{finish}, and upstream's flag is {upstream}")),
    }))
}

/// Keeps what passes through a run, under the names of captures.
struct Recorder<'a> {
    case: &'a CaseFile,
    precision: Precision,
    stop: &'a AtomicBool,
    answers: Answers,
    last_hidden: Vec<Values>,
    depth_guided: Vec<Vec<Values>>,
}

impl<'a> Recorder<'a> {
    fn new<B: Backend>(replay: &Replay<'a, B>) -> Self {
        let Replay { case, precision, stop, .. } = *replay;
        Self { case, precision, stop, answers: Answers::new(), last_hidden: Vec::new(), depth_guided: Vec::new() }
    }

    fn keep<B: Backend>(&mut self, name: String, tensor: &Tensor<B, 3>, width: Width) {
        self.answers.insert(name, Values::of(tensor.clone(), width));
    }

    fn finish(mut self) -> Answers {
        let frames: Option<Vec<Values>> = self.depth_guided.into_iter().map(Values::stacked).collect();
        for (name, steps) in [("lm_last_hidden", Some(self.last_hidden)), ("depth_guided", frames)] {
            if let Some(values) = steps.and_then(Values::stacked) {
                self.answers.insert(name.to_owned(), values);
            }
        }
        self.answers
    }
}

impl<B: Backend> Listener<B> for Recorder<'_> {
    fn looks_at_logits(&self) -> bool {
        true
    }

    fn progress(&mut self, _progress: Progress) -> ControlFlow<()> {
        go_on(self.stop)
    }

    fn tap(&mut self, tap: Tap<'_, B>) {
        let (first, second) = (self.precision.autoregressive(), self.precision.acoustic());
        match tap {
            Tap::LastHidden { tensor, .. } => self.last_hidden.push(Values::of(tensor.clone(), first)),
            Tap::SemanticLogits { step, conditional, unconditional } => {
                let name = format!("lm_logits_end_and_codes_{step}");
                if self.case.holds(&name) {
                    let values = Values::f32([conditional, unconditional].concat(), [2, conditional.len()]);
                    // They were widened for guidance; the head gave them in its own width.
                    let values = if first == Width::Bf16 { values.narrowed() } else { values };
                    self.answers.insert(name, values);
                }
            }
            Tap::DepthGuided { codebook, guided, .. } => {
                if codebook == 1 {
                    self.depth_guided.push(Vec::new());
                }
                let values = Values::f32(guided.to_vec(), [guided.len()]);
                self.depth_guided.last_mut().expect("codebook 1 comes first").push(values);
            }
            Tap::ConditionRaw { window, tensor } => self.keep(format!("condition_raw_{window}"), tensor, first),
            Tap::Condition { window, tensor } => self.keep(format!("condition_{window}"), tensor, second),
            Tap::Velocity { window, step, tensor } => self.keep(format!("velocity_{window}_{step}"), tensor, second),
            Tap::Latents { window, step, tensor } => self.keep(format!("latents_{window}_{step}"), tensor, second),
            Tap::LatentChunk { window, tensor } => self.keep(format!("latent_chunk_{window}"), tensor, second),
            Tap::Waveform { window, tensor } => self.keep(format!("waveform_{window}"), tensor, second),
            _ => {}
        }
    }
}

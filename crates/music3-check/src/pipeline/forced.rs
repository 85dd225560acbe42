//! The forced replay: upstream's codes and noise are fed, every tensor is compared.

use std::{ops::ControlFlow, sync::atomic::AtomicBool};

use burn::tensor::{Tensor, backend::Backend};
use music3::{
    FinishReason, Listener, Precision, Progress, Tap, autoregressive::CodeSource, flow::NoiseSource, schedule::Schedule,
};
use music3_audio::WindowPlan;
use music3_nn::Width;
use music3_text::{PromptIds, token_ids::SEMANTIC_CODES};
use music3_weights::{SafetensorsFile, TensorSource};

use super::{Replay, candidates::Candidates, go_on, unreadable};
use crate::{
    CheckError,
    case::{CaseFile, wrap},
    components::flow::audio_values,
    judge::{Answers, Judge, widened},
    output::{DtypeRule, Recorded, Widened},
    row::{Row, Shown, Verdict},
    values::Values,
};

/// What a forced replay computed and how it compares.
pub(super) struct Forced {
    pub(super) answers: Answers,
    pub(super) rows: Vec<Row>,
    pub(super) notes: Vec<String>,
}

/// What is fed, not computed, and what only a free run can be compared with.
const FED: [&str; 4] = ["codes", "sampled_flat", "noise_", "probe_exponential"];

/// Compared as sets, step by step.
const CANDIDATES: [&str; 2] = ["guided_ids", "guided_vals"];

/// Everything else that a capture may hold.
const COMPARED: [&str; 17] = [
    "text_ids",
    "lm_last_hidden",
    "depth_guided",
    "lm_logits_end_and_codes_",
    "frame_hiddens",
    "condition_raw_",
    "condition_",
    "velocity_",
    "latents_",
    "latent_chunk_",
    "waveform_",
    "audios",
    "chunk_starts",
    "overlaps",
    "timesteps",
    "sigmas",
    "ended_by_end_token",
];

pub(super) fn run<B: Backend>(replay: &Replay<'_, B>) -> Result<Forced, CheckError> {
    let case = replay.case;
    let mut fed = Fed::read(replay)?;
    let mut recorder = Recorder::new(replay);
    let stopped = |error: music3::SongError| match super::is_about_the_checkpoint(&error) {
        true => unreadable(case, error),
        false => case.stopped(error),
    };
    let frames = replay.frames(&mut fed, &mut recorder).map_err(stopped)?;
    let width = replay.precision.autoregressive();
    let finish = frames.finish;
    recorder.answers.insert("frame_hiddens".to_owned(), Values::of(frames.frame_hiddens.clone(), width));
    let audio = replay.audio(frames, &mut fed, &mut recorder).map_err(stopped)?;
    let mut answers = recorder.finish();
    answers.insert("audios".to_owned(), audio_values(&audio));
    answers.insert("text_ids".to_owned(), prompt_values(&replay.prompt().map_err(stopped)?));
    answers.extend(plan_values(replay, fed.frames()));
    let (ids, values) = fed.candidates.to_values();
    answers.insert("guided_ids".to_owned(), ids);
    answers.insert("guided_vals".to_owned(), values);

    let comparison = Comparison::open(replay)?;
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
    fn read<B: Backend>(replay: &Replay<'_, B>) -> Result<Self, CheckError> {
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
        for (window, planned) in plan.windows().iter().enumerate() {
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

/// A capture, and the one of the same codes and noise under MATH attention.
struct Comparison<'a> {
    case: &'a CaseFile,
    under_math: Option<SafetensorsFile>,
    dtypes: DtypeRule,
    judge: Judge,
}

impl<'a> Comparison<'a> {
    fn open<B: Backend>(replay: &Replay<'a, B>) -> Result<Self, CheckError> {
        let case = replay.case;
        let named: Option<String> = case.optional("math")?;
        let under_math = match named {
            Some(stem) => {
                let stem = stem.trim_end_matches(".json").trim_end_matches(".safetensors");
                let path = case.path().with_file_name(format!("{stem}.safetensors"));
                Some(SafetensorsFile::open(path).map_err(|error| wrap(case.path(), error))?)
            }
            None => None,
        };
        let dtypes = match replay.precision == case.precision() {
            true => DtypeRule::Upstream,
            false => DtypeRule::Chosen,
        };
        Ok(Self { case, under_math, dtypes, judge: Judge::new(case, replay.scale()) })
    }

    fn names(&self, prefixes: &'static [&'static str]) -> Result<impl Iterator<Item = &'a str>, CheckError> {
        let starts = move |name: &&str| prefixes.iter().any(|prefix| name.starts_with(prefix));
        Ok(self.case.tensors()?.names().filter(starts))
    }

    fn rows(&self, answers: &Answers) -> Result<Vec<Row>, CheckError> {
        let mut met = Vec::new();
        for name in self.names(&COMPARED)? {
            let widened = widened(self.case.precision(), name);
            met.push(self.recorded(name)?.meet(name, answers.get(name).cloned(), self.dtypes, widened));
        }
        Ok(self.judge.rows(met))
    }

    fn recorded(&self, name: &str) -> Result<Recorded, CheckError> {
        let own = self.case.stored(name)?;
        let Some(upstream) = self.under_math(name)? else {
            return Ok(Recorded { reference: "capture", upstream: own, default: None, single: None });
        };
        self.case.expect_same(name, own.shape(), upstream.shape())?;
        Ok(Recorded { reference: "math", upstream, default: Some(own), single: None })
    }

    fn under_math(&self, name: &str) -> Result<Option<Values>, CheckError> {
        let Some(file) = self.under_math.as_ref().filter(|file| file.contains(name)) else { return Ok(None) };
        let view = file.tensor(name).map_err(|error| wrap(self.case.path(), error))?;
        Values::of_stored(&view, self.case.path()).map(Some)
    }

    /// Compares the candidates of each semantic draw: which they are, and the guided logits of those that all runs have.
    fn candidates(&self, ours: &Candidates) -> Result<Vec<Row>, CheckError> {
        if !CANDIDATES.iter().all(|name| self.case.holds(name)) {
            return Ok(Vec::new());
        }
        let [ids, values] = CANDIDATES;
        let row = |name| Row::new(name, if self.under_math.is_some() { "math" } else { "capture" }, "int");
        let own = Candidates::recorded(&self.case.stored(ids)?, &self.case.stored(values)?);
        let math = match (self.under_math(ids)?, self.under_math(values)?) {
            (Some(ids), Some(values)) => Candidates::recorded(&ids, &values),
            _ => None,
        };
        let (upstream, default) = match (&own, &math) {
            (Some(own), Some(math)) => (math, Some(own)),
            (Some(own), None) => (own, None),
            (None, _) => return Ok(vec![row(ids).failed("not a table of ids and one of values of the same shape")]),
        };
        let runs: Vec<&Candidates> = [upstream, ours].into_iter().chain(default).collect();
        let Some(aligned) = Candidates::align(&runs) else {
            return Ok(vec![row(ids).failed("another number of steps")]);
        };
        // One candidate more or less is a logit beside the threshold that fell on its other side.
        let allowed = match (self.case.precision(), aligned.differing.get(2)) {
            (Precision::F32, _) => 0,
            (_, Some(control)) => (control / 3).max(1),
            (_, None) => usize::MAX,
        };
        let (differing, count) = (aligned.differing[1], aligned.count);
        let identical = 1.0 - differing as f64 / count.max(1) as f64;
        let figures = Shown { values: count, identical, mean: 0.0, max: 0.0, ulp: 0 };
        let set_row = Row { figures: Some(figures), ..row(ids) };
        let set_row = match differing <= allowed {
            true if allowed == usize::MAX => Row { verdict: Verdict::Reported, ..set_row },
            true => set_row,
            false => set_row.failed(format!("{differing} candidates differ, more than {allowed}")),
        };
        let mut runs = aligned.values.into_iter().map(|values| {
            let shape = [values.len()];
            Values::f32(values, shape)
        });
        let (Some(upstream), ours) = (runs.next(), runs.next()) else { return Ok(vec![set_row]) };
        let reference = if self.under_math.is_some() { "math" } else { "capture" };
        let recorded = Recorded { reference, upstream, default: runs.next(), single: None };
        let met = recorded.meet(values, ours, DtypeRule::Upstream, Widened::No);
        let mut rows = vec![set_row];
        rows.extend(self.judge.rows(vec![met]));
        Ok(rows)
    }

    fn notes(&self) -> Result<Vec<String>, CheckError> {
        let known =
            |name: &&str| [&FED[..], &CANDIDATES, &COMPARED].concat().iter().any(|prefix| name.starts_with(prefix));
        let unknown: Vec<&str> = self.case.tensors()?.names().filter(|name| !known(name)).collect();
        let mut notes = Vec::new();
        if !unknown.is_empty() {
            notes.push(format!("not compared, unknown: {}", unknown.join(", ")));
        }
        if self.under_math.is_none() && self.case.precision() != Precision::F32 {
            notes.push("forced: reported only, no twin under MATH says how far is too far".to_owned());
        }
        Ok(notes)
    }
}

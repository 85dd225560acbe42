//! What a forced replay computed beside what upstream recorded.

use burn::tensor::backend::Backend;
use music3::Precision;
use music3_weights::{SafetensorsFile, TensorSource};

use super::{Replay, candidates::Candidates};
use crate::{
    CheckError,
    case::{CaseFile, wrap},
    judge::{Answers, Judge, Scale, widened},
    output::{DtypeRule, Recorded, Widened},
    row::{Row, Shown, Verdict},
    values::Values,
};

/// What is fed, not computed, and what only a free run can be compared with.
const FED: [&str; 4] = ["codes", "sampled_flat", "noise_", "probe_exponential"];

/// Compared as sets, step by step.
const CANDIDATES: [&str; 2] = ["guided_ids", "guided_vals"];

/// What the autoregressive half and the condition encoder give, which no noise has a part in.
const WITHOUT_NOISE: [&str; 6] =
    ["lm_last_hidden", "lm_logits_end_and_codes_", "depth_guided", "frame_hiddens", "condition_raw_", "condition_"];

/// What needs the noise that upstream drew.
const FROM_NOISE: [&str; 4] = ["velocity_", "latents_", "latent_chunk_", "waveform_"];

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

/// How much of a capture can be replayed forced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// It holds codes and noise.
    Whole,
    /// It holds no noise: up to the conditions.
    UpToConditions,
    /// It holds only codes, or codes and audio.
    Nothing,
}

impl Extent {
    /// # Errors
    /// The capture holds tensors that need noise, and no noise.
    pub(super) fn of(case: &CaseFile) -> Result<Self, CheckError> {
        const NOISE: &str = "noise_0";
        if case.holds(NOISE) {
            return Ok(Self::Whole);
        }
        let holds = |prefixes: &[&str]| -> Result<bool, CheckError> {
            let mut names = case.tensors()?.names();
            Ok(names.any(|name| prefixes.iter().any(|prefix| name.starts_with(prefix))))
        };
        if !case.has_tensors() {
            return Ok(Self::Nothing);
        }
        if holds(&FROM_NOISE)? {
            let path = case.tensors()?.path().to_owned();
            return Err(CheckError::NoTensor { path, name: NOISE.to_owned() });
        }
        Ok(if holds(&WITHOUT_NOISE)? { Self::UpToConditions } else { Self::Nothing })
    }
}

/// A capture, and the one of the same codes and noise under MATH attention.
pub(super) struct Comparison<'a> {
    case: &'a CaseFile,
    under_math: Option<SafetensorsFile>,
    dtypes: DtypeRule,
    judge: Judge,
    scale: Scale,
    extent: Extent,
}

impl<'a> Comparison<'a> {
    pub(super) fn open<B: Backend>(replay: &Replay<'a, B>, extent: Extent) -> Result<Self, CheckError> {
        let case = replay.case;
        let named: Option<String> = case.optional("math")?;
        let under_math = named.map(|stem| case.beside(&stem)).transpose()?;
        let dtypes = match replay.precision == case.precision() {
            true => DtypeRule::Upstream,
            false => DtypeRule::Chosen,
        };
        Ok(Self { case, under_math, dtypes, judge: Judge::new(case, replay.scale()), scale: replay.scale(), extent })
    }

    fn names(&self, prefixes: &'a [&'a str]) -> Result<impl Iterator<Item = &'a str>, CheckError> {
        let starts = move |name: &&str| prefixes.iter().any(|prefix| name.starts_with(prefix));
        Ok(self.case.tensors()?.names().filter(starts))
    }

    pub(super) fn rows(&self, answers: &Answers) -> Result<Vec<Row>, CheckError> {
        let mut met = Vec::new();
        for name in self.names(&COMPARED)? {
            // Thinned audio, and all of it where there is no noise, is for the free run alone.
            let thinned = name.starts_with("audios_");
            if thinned || self.extent != Extent::Whole && name == "audios" {
                continue;
            }
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
    pub(super) fn candidates(&self, ours: &Candidates) -> Result<Vec<Row>, CheckError> {
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
        let (differing, count) = (aligned.differing[1], aligned.count);
        // One candidate more or less is a logit beside the threshold that fell on its other side.
        let allowed = match (self.case.precision(), aligned.differing.get(2), self.scale) {
            (Precision::F32, _, _) => 0,
            (_, Some(control), Scale::Reduced) => (control / 3).max(1),
            // Nine tenths of those that the control has in common.
            (_, Some(control), Scale::Full) => count - count.saturating_sub(*control) * 9 / 10,
            (_, None, _) => usize::MAX,
        };
        // Candidates of either side may have no partner, so more can differ than upstream has.
        let identical = (1.0 - differing as f64 / count.max(1) as f64).max(0.0);
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

    pub(super) fn notes(&self) -> Result<Vec<String>, CheckError> {
        let known =
            |name: &&str| [&FED[..], &CANDIDATES, &COMPARED].concat().iter().any(|prefix| name.starts_with(prefix));
        let unknown: Vec<&str> = self.case.tensors()?.names().filter(|name| !known(name)).collect();
        let mut notes = Vec::new();
        if !unknown.is_empty() {
            notes.push(format!("not compared, unknown: {}", unknown.join(", ")));
        }
        if self.extent == Extent::UpToConditions {
            notes.push("forced: up to the conditions, the capture holds no noise".to_owned());
        }
        if self.under_math.is_none() && self.case.precision() != Precision::F32 {
            notes.push("forced: reported only, no twin under MATH says how far is too far".to_owned());
        }
        Ok(notes)
    }
}

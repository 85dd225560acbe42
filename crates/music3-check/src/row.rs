//! One output in a report.

use serde::{Serialize, Serializer};

use crate::{
    compare::Figures,
    gate::{Bound, Judgement},
};

/// What became of one output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Its gate was passed.
    Passed,
    /// Its gate was not passed, or it is missing, or has another shape or dtype.
    Failed,
    /// It is judged together with others, in a row of their own.
    Pooled,
    /// Reported, not judged.
    Reported,
}

/// One output compared with upstream's, or several together.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The output's name.
    pub name: String,
    /// What it is compared with: `out`, `out_math`, or what else the case holds.
    pub reference: &'static str,
    /// Its dtype.
    pub dtype: &'static str,
    /// Its shape; empty for several outputs together and for what is no tensor.
    pub shape: Vec<usize>,
    /// Values, shares and distances.
    pub figures: Option<Shown>,
    /// The largest difference.
    pub worst: Option<Worst>,
    /// The same figures for upstream's own other attention kernel.
    pub control: Option<Shown>,
    /// The bound that was applied.
    pub bound: Option<Bound>,
    /// How much of the bound was used; more than 1 is too much.
    #[serde(serialize_with = "optional_number")]
    pub used: Option<f64>,
    /// What the same gate made of f32 arithmetic rounded at the end.
    pub negative_control: Option<Negative>,
    /// What became of it.
    pub verdict: Verdict,
    /// Why it failed.
    pub reasons: Vec<String>,
}

impl Row {
    /// Returns a row that is not compared yet.
    pub(crate) fn new(name: impl Into<String>, reference: &'static str, dtype: &'static str) -> Self {
        Self {
            name: name.into(),
            reference,
            dtype,
            shape: Vec::new(),
            figures: None,
            worst: None,
            control: None,
            bound: None,
            used: None,
            negative_control: None,
            verdict: Verdict::Passed,
            reasons: Vec::new(),
        }
    }

    /// Returns the row, failed for a reason.
    pub(crate) fn failed(mut self, reason: impl Into<String>) -> Self {
        self.verdict = Verdict::Failed;
        self.reasons.push(reason.into());
        self
    }

    /// Returns the row with what a gate found.
    pub(crate) fn judged(mut self, judgement: Judgement) -> Self {
        self.verdict = if judgement.passed() { self.verdict } else { Verdict::Failed };
        self.bound = Some(judgement.bound);
        self.used = Some(judgement.used);
        self.reasons.extend(judgement.reasons);
        self
    }
}

/// The figures of a comparison as they are reported.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Shown {
    /// How many values were compared.
    pub values: usize,
    /// The share equal to the bit.
    pub identical: f64,
    /// The mean |d|.
    #[serde(serialize_with = "number")]
    pub mean: f64,
    /// The largest |d|.
    #[serde(serialize_with = "number")]
    pub max: f64,
    /// The largest distance in units in the last place.
    pub ulp: u64,
}

impl From<Figures> for Shown {
    fn from(figures: Figures) -> Self {
        let (mean, max) = match figures.nan {
            0 => (figures.mean(), figures.max),
            _ => (f64::NAN, f64::NAN),
        };
        Self { values: figures.values, identical: figures.identical_share(), mean, max, ulp: figures.ulp }
    }
}

/// The place of the largest difference, and both values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Worst {
    /// The index, or the entry of a table.
    pub place: String,
    /// What was computed.
    pub ours: String,
    /// What upstream computed.
    pub upstream: String,
}

/// What a gate made of f32 arithmetic rounded at the end, which is wrong in bf16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Negative {
    /// The gate refuses it, as it must.
    Refused,
    /// The gate lets it through: the case cannot tell a right port from a wrong one.
    Accepted,
    /// It equals the right answer as far as the gate can ask for, so there is nothing to refuse.
    NothingToRefuse,
}

/// JSON has no infinities and no NaN; they are written as text.
fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match value.is_finite() {
        true => serializer.serialize_f64(*value),
        false => serializer.collect_str(value),
    }
}

fn optional_number<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => number(value, serializer),
        None => serializer.serialize_none(),
    }
}

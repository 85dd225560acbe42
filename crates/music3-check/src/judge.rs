//! Which gate each output meets, and what it found.

use std::collections::BTreeMap;

use music3::Precision;
use music3_weights::TensorSource;

use crate::{
    CheckError,
    case::{CaseFile, WeightsOrigin},
    compare::{Equality, Figures, Grid, NanPolicy, Pair},
    gate::{F32_RELATIVE, Rule},
    kind::CaseKind,
    output::{DtypeRule, Met, Output, Recorded, Widened, place},
    row::{Negative, Row, Verdict, Worst},
    values::Values,
};

/// What a component computed, by output name.
pub(crate) type Answers = BTreeMap<String, Values>;

/// Outputs with fewer bf16 values than this are judged together.
const POOLED_UNDER: usize = 100;

/// Dimensions from which a case counts as full scale. The published ones begin at 1024, the reduced ones end far below.
pub(crate) const FULL_SCALE: usize = 1024;

/// Latents from which a transformer's sequence counts as a whole window. One of 100 frames, the fewest that a window after
/// the first has, makes 344.
const WINDOW_LATENTS: usize = 344;

/// The published vocoder's; a reduced one has the same.
const SAMPLES_PER_LATENT: usize = 512;

/// Compares every output that the case holds.
pub(crate) fn judge(case: &CaseFile, answers: &Answers, dtypes: DtypeRule) -> Result<Vec<Row>, CheckError> {
    let labels = case.labels("out.")?;
    if labels.is_empty() {
        let problem = "there is no tensor named `out.`";
        return Err(CheckError::NothingToCompare { path: case.path().to_owned(), problem });
    }
    let mut met = Vec::new();
    for label in labels {
        let recorded = Recorded::read(case, &label)?;
        if !answers.contains_key(&label) {
            case.refuse_missing_input(&label)?;
        }
        met.push(recorded.meet(&label, answers.get(&label).cloned(), dtypes, widened(case.precision(), &label)));
    }
    let scale = if is_full_scale(case)? { Scale::Full } else { Scale::Reduced };
    Ok(Judge::new(case, scale).rows(met))
}

/// The condition of a mixed run is bf16 that was widened for the f32 transformer.
pub(crate) fn widened(precision: Precision, label: &str) -> Widened {
    match precision == Precision::Mixed && label.starts_with("condition_") {
        true => Widened::FromBf16,
        false => Widened::No,
    }
}

/// The size of the dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Small ones, chosen for a test.
    Reduced,
    /// Those of the published model.
    Full,
}

/// Returns whether a weight has two dimensions of the published size.
fn is_full_scale(case: &CaseFile) -> Result<bool, CheckError> {
    let large = |shape: &[usize]| shape.iter().filter(|dim| **dim >= FULL_SCALE).count() >= 2;
    Ok(case.tensors()?.with_prefix("w.").entries().iter().any(|entry| large(entry.shape)))
}

/// Returns the f32 gate's k for an output.
pub(crate) fn f32_tolerance(kind: CaseKind, label: &str) -> f64 {
    const NETWORKS: f64 = 1e-5;
    const STEPS: f64 = 3e-5;
    const VOCODER: f64 = 6e-5;
    const WAVEFORM: f64 = 1.2e-4;
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| label.starts_with(prefix));
    match kind {
        CaseKind::Vocoder | CaseKind::VocoderBlock | CaseKind::Snake => VOCODER,
        CaseKind::GuidedLogits | CaseKind::SampleProbs | CaseKind::Schedule => STEPS,
        CaseKind::DepthLoop if starts(&["guided_"]) => STEPS,
        CaseKind::Flow | CaseKind::Pipeline if starts(&["audios", "waveform_"]) => WAVEFORM,
        CaseKind::Flow | CaseKind::Pipeline if starts(&["velocity_", "latent", "guided_", "depth_guided"]) => STEPS,
        _ => NETWORKS,
    }
}

/// Judges the outputs of one case.
pub(crate) struct Judge {
    kind: CaseKind,
    precision: Precision,
    scale: Scale,
    weights: WeightsOrigin,
    nan: NanPolicy,
}

impl Judge {
    pub(crate) fn new(case: &CaseFile, scale: Scale) -> Self {
        let nan = match case.kind() {
            // The inputs of these hold NaN on purpose, and what upstream makes of it is its answer.
            CaseKind::GuidedLogits | CaseKind::SampleProbs => NanPolicy::AsUpstream,
            _ => NanPolicy::Refuse,
        };
        Self { kind: case.kind(), precision: case.precision(), scale, weights: case.weights(), nan }
    }

    /// Judges every output; small bf16 ones as one.
    pub(crate) fn rows(&self, met: Vec<Met>) -> Vec<Row> {
        let (mut rows, mut pool) = (Vec::new(), Vec::new());
        for met in met {
            match met {
                Met::Wrong(row) => rows.push(row),
                Met::Ints { row, ours, upstream } => rows.push(judge_ints(row, &ours, &upstream)),
                Met::Floats(output) => match self.with_equality(output) {
                    output if self.is_pooled(&output) => pool.push(output),
                    output => rows.push(self.alone(&output)),
                },
            }
        }
        if let [only] = pool.as_slice() {
            rows.push(self.alone(only));
        } else if !pool.is_empty() {
            rows.extend(pool.iter().map(|output| output.row(self.nan, Verdict::Pooled)));
            rows.push(self.together(&pool));
        }
        rows
    }

    /// In a mixed run the acoustic half computes in f32 what bf16 differences lead to: there the order of f32 sums alone
    /// makes nearly every value another one, and says nothing.
    fn with_equality(&self, output: Output) -> Output {
        let mixed = self.precision == Precision::Mixed && output.grid == Grid::F32 && output.default.is_some();
        let equality = match mixed {
            true => Equality::Within { relative: F32_RELATIVE, absolute: f32_tolerance(self.kind, &output.label) },
            false => Equality::Exact,
        };
        Output { equality, ..output }
    }

    fn is_pooled(&self, output: &Output) -> bool {
        let bf16 = self.is_controlled(output) || output.grid == Grid::Bf16;
        bf16 && !self.is_exact(output) && output.upstream.len() < POOLED_UNDER
    }

    /// Returns whether an output must equal upstream's to the bit: times that upstream computes in a given order of f64
    /// and f32 operations, and single operations on bf16 values, which round once.
    fn is_exact(&self, output: &Output) -> bool {
        let times = ["timesteps", "sigmas"].iter().any(|prefix| output.label.starts_with(prefix));
        match self.kind {
            CaseKind::Schedule => times || output.grid == Grid::Bf16,
            CaseKind::Pipeline => times,
            _ => false,
        }
    }

    /// Returns whether the distance between upstream's two attention kernels bounds an output. In f32 it is only shown: there
    /// the bounds are absolute.
    fn is_controlled(&self, output: &Output) -> bool {
        self.precision != Precision::F32 && output.default.is_some()
    }

    /// Judges an output by itself.
    pub(crate) fn alone(&self, output: &Output) -> Row {
        self.judged(output.row(self.nan, Verdict::Passed), std::slice::from_ref(output))
    }

    fn together(&self, outputs: &[Output]) -> Row {
        let name = format!("{} outputs under {POOLED_UNDER} values", outputs.len());
        let figures = Figures::together(outputs.iter().map(|output| Figures::of(output.pair(), self.nan)));
        let control = Figures::together(outputs.iter().map(|output| output.control(self.nan)));
        let row = Row::new(name, outputs[0].reference, outputs[0].dtype);
        self.judged(Row { figures: Some(figures.into()), control: Some(control.into()), ..row }, outputs)
    }

    fn judged(&self, mut row: Row, outputs: &[Output]) -> Row {
        if outputs.iter().all(|output| output.upstream.is_empty()) {
            return row.failed("it has no values: there is nothing to compare");
        }
        let pairs: Vec<Pair<'_>> = outputs.iter().map(Output::pair).collect();
        let Some(rule) = self.rule(outputs) else {
            let judgement = Rule::Unbounded.judge(&pairs, self.nan);
            row.verdict = if judgement.passed() { Verdict::Reported } else { Verdict::Failed };
            row.reasons = judgement.reasons;
            return row;
        };
        row = row.judged(rule.judge(&pairs, self.nan));
        row.negative_control = negative_control(rule, outputs, self.nan);
        let saturated = matches!(rule, Rule::FullScale { .. });
        if row.negative_control == Some(Negative::Accepted) && !saturated {
            row = row.failed("the gate lets f32 arithmetic rounded at the end through: this case proves nothing");
        }
        row
    }

    /// Returns the scale that outputs count as. A transformer over a whole window is full scale whatever its dimensions:
    /// every token reads every other, so that one rounding that falls differently reaches all values. (Upstream's classes
    /// with every product summed in f64 are there as far from MATH as f32 sums are, and fail the reduced bound.)
    fn scale_of(&self, outputs: &[Output]) -> Scale {
        match self.scale == Scale::Full || outputs.iter().any(|output| latents(self.kind, output) >= WINDOW_LATENTS) {
            true => Scale::Full,
            false => Scale::Reduced,
        }
    }

    /// Returns the rule for an output or a pool; none where nothing was recorded that bounds it.
    fn rule(&self, outputs: &[Output]) -> Option<Rule> {
        let controlled = outputs.iter().any(|output| self.is_controlled(output));
        match outputs {
            [output] if self.is_exact(output) => Some(Rule::Exact),
            _ if self.kind == CaseKind::Pipeline && self.precision != Precision::F32 && !controlled => None,
            [output] if !controlled && output.grid == Grid::F32 => Some(match self.weights {
                WeightsOrigin::Published => Rule::F32Published,
                WeightsOrigin::Random => Rule::F32 { k: f32_tolerance(self.kind, &output.label) },
            }),
            outputs => {
                let controls: Vec<(Grid, Figures)> =
                    outputs.iter().map(|output| (output.grid, output.control(self.nan))).collect();
                Some(Rule::for_bf16(&controls, self.scale_of(outputs)))
            }
        }
    }
}

/// Returns the latents that a transformer saw for an output; none where it has no part in it.
fn latents(kind: CaseKind, output: &Output) -> usize {
    let last = output.shape.last().copied().unwrap_or(0);
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| output.label.starts_with(prefix));
    match kind {
        CaseKind::Transformer => last,
        CaseKind::Flow | CaseKind::Pipeline if starts(&["velocity_", "latent"]) => last,
        CaseKind::Flow | CaseKind::Pipeline if starts(&["audios", "waveform_"]) => last / SAMPLES_PER_LATENT,
        _ => 0,
    }
}

/// Runs the gate on f32 arithmetic rounded at the end, which a bf16 gate must refuse.
fn negative_control(rule: Rule, outputs: &[Output], nan: NanPolicy) -> Option<Negative> {
    let pairs: Vec<Pair<'_>> = outputs
        .iter()
        .filter_map(|output| {
            let single = output.single.as_ref()?;
            Some(output.with(single))
        })
        .collect();
    if pairs.is_empty() {
        return None;
    }
    if !rule.judge(&pairs, nan).passed() {
        return Some(Negative::Refused);
    }
    // Where the kernels agree, a few values may differ: an f32 form that differs in no more is as good as equal.
    let equal = Figures::together(pairs.iter().map(|pair| Figures::of(*pair, nan))).differing == 0;
    match equal || rule == Rule::ControlZero {
        true => Some(Negative::NothingToRefuse),
        false => Some(Negative::Accepted),
    }
}

/// Compares integers, none of which may differ.
pub(crate) fn judge_ints(row: Row, ours: &[i64], upstream: &[i64]) -> Row {
    let pairs = || ours.iter().zip(upstream);
    let differing = pairs().filter(|(ours, upstream)| ours != upstream).count();
    let distances = || pairs().map(|(ours, upstream)| ours.abs_diff(*upstream));
    let max = distances().max().unwrap_or(0);
    let figures = Figures {
        values: upstream.len(),
        identical: upstream.len() - differing,
        differing,
        nan: 0,
        sum: distances().map(|distance| distance as f64).sum(),
        max: max as f64,
        ulp: max,
        worst: distances().position(|distance| distance == max && max > 0),
    };
    let worst = figures.worst.map(|index| Worst {
        place: place(index, &row.shape),
        ours: ours[index].to_string(),
        upstream: upstream[index].to_string(),
    });
    let row = Row { figures: Some(figures.into()), worst, ..row };
    match differing {
        0 => Row { used: Some(0.0), ..row },
        _ => row.failed(format!("{differing} integers differ")),
    }
}

//! The bounds that decide whether a difference from upstream means something.
//!
//! They were calibrated by running upstream's own classes with every product summed in f64: that right answer passes,
//! and the wrong forms a port is likely to have fail.

use std::fmt;

use serde::Serialize;

use crate::{
    compare::{Figures, Grid, NanPolicy, Pair, ratio},
    judge::Scale,
};

/// The part of upstream's own value that an f32 value may be off.
pub(crate) const F32_RELATIVE: f64 = 1e-5;

/// f32 on the published weights: relative part, absolute part, mean.
const PUBLISHED: (f64, f64, f64) = (1e-4, 5e-5, 5e-6);

/// The share of values that may differ where upstream's two attention kernels agree.
const ZERO_SHARE: f64 = 1e-3;

/// The distance, in units of the output's rms, that is forgiven there although it is more than one unit in the last
/// place: one bf16 step at the output's size.
const ZERO_FLOOR: f64 = 1.0 / 256.0;

/// A bound, before it is filled in with the numbers of an output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// No value differs.
    Exact,
    /// f32: `|d| ≤ 1e-5·|u| + k·rms` and mean `|d| ≤ k/4·rms`.
    F32 {
        /// The component's k.
        k: f64,
    },
    /// f32 on the published weights, whose activations have their own sizes.
    F32Published,
    /// bf16 at reduced dimensions: a fraction of the distance between upstream's two attention kernels.
    Control(Figures),
    /// bf16 where these two agree to the bit: nearly no value differs, and by nearly nothing.
    ControlZero,
    /// bf16 at full scale, where single differences have spread to most values.
    FullScale {
        /// The distance between upstream's two attention kernels.
        control: Figures,
        /// The part of it that lies in bf16 outputs. The share of equal values is judged there only: f32 values that
        /// bf16 differences lead to are equal by chance.
        bf16: Option<Figures>,
    },
    /// Only NaN is wrong: nothing was recorded that says how far is too far.
    Unbounded,
}

/// A bound with its numbers, as it was applied.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bound {
    /// Which rule it comes from.
    pub rule: RuleName,
    /// Allowed |d|, as a part of upstream's value.
    pub relative: f64,
    /// Allowed |d|, beside the relative part.
    pub max: Option<f64>,
    /// Allowed mean |d|.
    pub mean: Option<f64>,
    /// Allowed share of values that differ.
    pub differing: Option<f64>,
}

/// The name of a [`Rule`] in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is the rule of the same name")]
pub enum RuleName {
    Exact,
    F32,
    F32Published,
    Control,
    ControlZero,
    FullScale,
    Unbounded,
}

/// What a gate found.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The bound that was applied.
    pub bound: Bound,
    /// How much of it was used; more than 1 is too much.
    pub used: f64,
    /// What is too much, in words. Empty when the gate is passed.
    pub reasons: Vec<String>,
}

impl Judgement {
    /// Returns whether the gate is passed.
    pub fn passed(&self) -> bool {
        self.reasons.is_empty()
    }
}

impl Rule {
    /// Returns the rule for what bf16 arithmetic led to, one output or several, from the distance between upstream's two
    /// attention kernels in each of them.
    pub(crate) fn for_bf16(controls: &[(Grid, Figures)], scale: Scale) -> Self {
        let control = Figures::together(controls.iter().map(|(_, figures)| *figures));
        let mut bf16 = controls.iter().filter(|(grid, _)| *grid == Grid::Bf16).map(|(_, figures)| *figures).peekable();
        let bf16 = bf16.peek().is_some().then(|| Figures::together(bf16));
        match (control.differing, scale) {
            (0, _) => Self::ControlZero,
            (_, Scale::Reduced) => Self::Control(control),
            (_, Scale::Full) => Self::FullScale { control, bf16 },
        }
    }

    /// Judges one output, or several as one.
    pub fn judge(&self, pairs: &[Pair<'_>], nan: NanPolicy) -> Judgement {
        let figures = Figures::together(pairs.iter().map(|pair| Figures::of(*pair, nan)));
        let bound = self.bound(pairs, &figures);
        let mut limits = Vec::new();
        match self {
            Self::F32 { .. } | Self::F32Published => {
                limits.push(Limit::worst(self.worst_ratio(pairs), &bound));
            }
            Self::ControlZero => {
                let beyond = pairs.iter().map(|pair| pair.beyond(ZERO_FLOOR * pair.rms())).sum::<usize>();
                limits.push(Limit::beyond(beyond));
            }
            Self::Exact | Self::Control(_) | Self::FullScale { .. } | Self::Unbounded => {
                limits.extend(bound.max.map(|max| Limit::new("max |d|", figures.max, max)));
            }
        }
        limits.extend(bound.mean.map(|mean| Limit::new("mean |d|", figures.mean(), mean)));
        let differing = match self {
            Self::FullScale { .. } => differing_in_bf16(pairs, nan),
            _ => figures.differing_share(),
        };
        limits.extend(bound.differing.map(|share| Limit::new("share differing", differing, share)));
        let used = limits.iter().map(|limit| limit.used).fold(0.0, f64::max);
        let mut reasons: Vec<String> =
            limits.into_iter().filter(|limit| limit.used > 1.0).map(|limit| limit.reason).collect();
        if figures.nan > 0 {
            reasons.insert(0, format!("{} values are NaN where they should not be", figures.nan));
        }
        Judgement { bound, used: if figures.nan > 0 { f64::INFINITY } else { used }, reasons }
    }

    fn worst_ratio(&self, pairs: &[Pair<'_>]) -> f64 {
        let ratio_of = |pair: &Pair<'_>| match self {
            Self::F32 { k } => pair.worst_ratio(F32_RELATIVE, k * pair.rms()),
            _ => pair.worst_ratio(PUBLISHED.0, PUBLISHED.1),
        };
        pairs.iter().map(ratio_of).fold(0.0, f64::max)
    }

    fn bound(&self, pairs: &[Pair<'_>], figures: &Figures) -> Bound {
        let rms = pairs.iter().map(Pair::rms).fold(0.0, f64::max);
        let none = Bound { rule: self.name(), relative: 0.0, max: None, mean: None, differing: None };
        match self {
            Self::Unbounded => none,
            Self::Exact => Bound { max: Some(0.0), differing: Some(0.0), ..none },
            Self::F32 { k } => Bound { relative: F32_RELATIVE, max: Some(k * rms), mean: Some(k / 4.0 * rms), ..none },
            Self::F32Published => {
                Bound { relative: PUBLISHED.0, max: Some(PUBLISHED.1), mean: Some(PUBLISHED.2), ..none }
            }
            Self::Control(control) => Bound {
                max: Some(control.max),
                mean: Some(control.mean() / 4.0),
                differing: Some(control.differing_share() / 3.0),
                ..none
            },
            Self::ControlZero => {
                let allowed = (ZERO_SHARE * figures.values as f64).max(1.0);
                let share = if figures.values == 0 { 0.0 } else { allowed / figures.values as f64 };
                Bound { max: Some(ZERO_FLOOR * rms), differing: Some(share), ..none }
            }
            Self::FullScale { control, bf16 } => Bound {
                max: Some(2.0 * control.max),
                mean: Some(1.25 * control.mean()),
                differing: bf16.map(|bf16| 1.0 - 0.9 * (1.0 - bf16.differing_share())),
                ..none
            },
        }
    }

    fn name(&self) -> RuleName {
        match self {
            Self::Exact => RuleName::Exact,
            Self::F32 { .. } => RuleName::F32,
            Self::F32Published => RuleName::F32Published,
            Self::Control(_) => RuleName::Control,
            Self::ControlZero => RuleName::ControlZero,
            Self::FullScale { .. } => RuleName::FullScale,
            Self::Unbounded => RuleName::Unbounded,
        }
    }
}

/// Returns the share that differs of the values stored in bf16.
fn differing_in_bf16(pairs: &[Pair<'_>], nan: NanPolicy) -> f64 {
    let bf16 = pairs.iter().filter(|pair| pair.grid == Grid::Bf16);
    Figures::together(bf16.map(|pair| Figures::of(*pair, nan))).differing_share()
}

/// One condition of a bound.
struct Limit {
    used: f64,
    reason: String,
}

impl Limit {
    fn new(what: &str, found: f64, allowed: f64) -> Self {
        Self { used: ratio(found, allowed), reason: format!("{what} is {found:.3e}, more than {allowed:.3e}") }
    }

    fn worst(used: f64, bound: &Bound) -> Self {
        let allowed = format!("{:.0e}·|u| + {:.3e}", bound.relative, bound.max.unwrap_or_default());
        Self { used, reason: format!("|d| is {used:.3} times {allowed}") }
    }

    fn beyond(count: usize) -> Self {
        let used = if count == 0 { 0.0 } else { f64::INFINITY };
        Self { used, reason: format!("{count} values are more than 1 ulp and more than 2⁻⁸·rms away") }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |value: Option<f64>| format!("{:.1e}", value.unwrap_or_default());
        match self.rule {
            RuleName::Exact => f.write_str("exact"),
            RuleName::Unbounded => f.write_str("no NaN"),
            RuleName::F32 | RuleName::F32Published => {
                let (max, mean) = (number(self.max), number(self.mean));
                write!(f, "|d| ≤ {:.0e}·|u| + {max}, mean ≤ {mean}", self.relative)
            }
            RuleName::Control | RuleName::FullScale => {
                write!(f, "max ≤ {}, mean ≤ {}", number(self.max), number(self.mean))?;
                match self.differing {
                    Some(share) => write!(f, ", differing ≤ {:.2} %", 100.0 * share),
                    None => Ok(()),
                }
            }
            RuleName::ControlZero => {
                let share = 100.0 * self.differing.unwrap_or_default();
                write!(f, "differing ≤ {share:.2} %, each ≤ 1 ulp or {}", number(self.max))
            }
        }
    }
}

#[cfg(test)]
mod tests;

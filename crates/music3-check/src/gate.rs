//! The bounds that decide whether a difference from upstream means something.
//!
//! They were calibrated by running upstream's own classes with every product summed in f64: that right answer passes,
//! and the wrong forms a port is likely to have fail.

use std::fmt;

use serde::Serialize;

use crate::{
    compare::{Figures, NanPolicy, Pair, ratio},
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
    FullScale(Figures),
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
    /// Returns the rule for a bf16 output, from the distance between upstream's two attention kernels.
    pub(crate) fn for_bf16(control: Figures, scale: Scale) -> Self {
        match (control.differing, scale) {
            (0, _) => Self::ControlZero,
            (_, Scale::Reduced) => Self::Control(control),
            (_, Scale::Full) => Self::FullScale(control),
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
            Self::Exact | Self::Control(_) | Self::FullScale(_) | Self::Unbounded => {
                limits.extend(bound.max.map(|max| Limit::new("max |d|", figures.max, max)));
            }
        }
        limits.extend(bound.mean.map(|mean| Limit::new("mean |d|", figures.mean(), mean)));
        limits.extend(bound.differing.map(|share| Limit::new("share differing", figures.differing_share(), share)));
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
            Self::FullScale(control) => Bound {
                max: Some(2.0 * control.max),
                mean: Some(1.25 * control.mean()),
                differing: Some(1.0 - 0.9 * (1.0 - control.differing_share())),
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
            Self::FullScale(_) => RuleName::FullScale,
            Self::Unbounded => RuleName::Unbounded,
        }
    }
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
                let (max, mean) = (number(self.max), number(self.mean));
                let share = 100.0 * self.differing.unwrap_or_default();
                write!(f, "max ≤ {max}, mean ≤ {mean}, differing ≤ {share:.2} %")
            }
            RuleName::ControlZero => {
                let share = 100.0 * self.differing.unwrap_or_default();
                write!(f, "differing ≤ {share:.2} %, each ≤ 1 ulp or {}", number(self.max))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Equality, Grid};

    fn judged(rule: Rule, ours: &[f32], upstream: &[f32], grid: Grid) -> Judgement {
        rule.judge(&[Pair { ours, upstream, grid, equality: Equality::Exact }], NanPolicy::Refuse)
    }

    fn control(ours: &[f32], upstream: &[f32]) -> Figures {
        Figures::of(Pair { ours, upstream, grid: Grid::Bf16, equality: Equality::Exact }, NanPolicy::Refuse)
    }

    #[test]
    fn the_f32_gate_is_a_part_of_the_value_and_of_the_rms() {
        let upstream = vec![1.0f32; 1000];
        let off = |by: f32| {
            let mut ours = upstream.clone();
            ours[7] += by;
            judged(Rule::F32 { k: 1e-5 }, &ours, &upstream, Grid::F32)
        };
        assert!(off(1.8e-5).passed());
        assert!(!off(2.2e-5).passed());
        let everywhere: Vec<f32> = upstream.iter().map(|value| value + 5e-6).collect();
        let judgement = judged(Rule::F32 { k: 1e-5 }, &everywhere, &upstream, Grid::F32);
        assert!(judgement.reasons[0].starts_with("mean |d|"), "{:?}", judgement.reasons);
    }

    #[test]
    fn the_control_gate_allows_a_fraction_of_what_the_kernels_differ_by() {
        let upstream = vec![1.0f32; 400];
        let shifted = |count: usize, by: f32| {
            let shift = |(index, value): (usize, &f32)| if index < count { value + by } else { *value };
            upstream.iter().enumerate().map(shift).collect::<Vec<f32>>()
        };
        let rule = Rule::for_bf16(control(&shifted(100, 1.0 / 128.0), &upstream), Scale::Reduced);
        let passed = |ours: Vec<f32>| judged(rule, &ours, &upstream, Grid::Bf16).passed();
        assert!(passed(shifted(25, 1.0 / 128.0)));
        assert!(!passed(shifted(26, 1.0 / 128.0)), "the mean is too large");
        assert!(!passed(shifted(34, 1.0 / 512.0)), "too many differ");
        assert!(!passed(shifted(1, 1.0 / 64.0)), "one differs too much");
    }

    #[test]
    fn where_the_kernels_agree_almost_everything_must() {
        let upstream = vec![1.0f32; 3000];
        let rule = Rule::for_bf16(control(&upstream, &upstream), Scale::Full);
        assert_eq!(rule, Rule::ControlZero);
        let shifted = |count: usize, by: f32| {
            let mut ours = upstream.clone();
            ours[..count].iter_mut().for_each(|value| *value += by);
            judged(rule, &ours, &upstream, Grid::Bf16).passed()
        };
        assert!(shifted(3, 1.0 / 128.0), "one ulp");
        assert!(!shifted(4, 1.0 / 128.0), "more than one in a thousand");
        assert!(!shifted(1, 1.0 / 64.0), "two ulps, and more than a step at the output's size");
    }

    #[test]
    fn a_small_value_may_be_off_by_a_step_at_the_outputs_size() {
        let mut upstream = vec![1.0f32; 1000];
        upstream[0] = 0.001;
        let mut ours = upstream.clone();
        ours[0] = 0.002;
        assert!(judged(Rule::ControlZero, &ours, &upstream, Grid::Bf16).passed());
        ours[0] = 0.006;
        assert!(!judged(Rule::ControlZero, &ours, &upstream, Grid::Bf16).passed());
    }

    #[test]
    fn at_full_scale_the_control_itself_passes_and_twice_as_much_does_not() {
        let upstream = vec![1.0f32; 100];
        let off = |by: f32| vec![1.0 + by; 100];
        let rule = Rule::for_bf16(control(&off(1.0 / 128.0), &upstream), Scale::Full);
        assert!(judged(rule, &off(1.0 / 128.0), &upstream, Grid::Bf16).passed());
        assert!(!judged(rule, &off(1.0 / 64.0), &upstream, Grid::Bf16).passed());
    }

    #[test]
    fn no_gate_lets_a_nan_through() {
        let upstream = vec![1.0f32; 10];
        let mut ours = upstream.clone();
        ours[3] = f32::NAN;
        let some = control(&[1.0, 1.5], &[1.0, 1.0]);
        let rules = [
            Rule::Exact,
            Rule::F32 { k: 1.0 },
            Rule::F32Published,
            Rule::Control(some),
            Rule::ControlZero,
            Rule::FullScale(some),
            Rule::Unbounded,
        ];
        for rule in rules {
            let judgement = judged(rule, &ours, &upstream, Grid::F32);
            assert!(!judgement.passed() && judgement.used > 1.0, "{rule:?}");
        }
    }
}

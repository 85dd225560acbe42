//! The distance between what was computed and what upstream computed, without any judgement.

/// The dtype whose units in the last place are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grid {
    /// 32-bit floats.
    F32,
    /// bfloat16.
    Bf16,
    /// Integers: a unit is one.
    Int,
}

/// What a NaN means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NanPolicy {
    /// Any NaN, on either side, is wrong.
    Refuse,
    /// A NaN is right exactly where upstream has one: for components whose inputs hold NaN on purpose.
    AsUpstream,
}

/// Two runs of values to compare.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// What was computed.
    pub ours: &'a [f32],
    /// What upstream computed; as many values.
    pub upstream: &'a [f32],
    /// The dtype that both are stored in.
    pub grid: Grid,
    /// What counts as equal.
    pub equality: Equality,
}

/// When two values count as equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Equality {
    /// When they are; zeros of different sign are.
    Exact,
    /// When |d| is at most `relative·|u| + absolute·rms`: f32 sums that were added in another order.
    Within {
        /// The part of upstream's value.
        relative: f64,
        /// The part of the rms of upstream's values.
        absolute: f64,
    },
}

/// How far values lie from upstream's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// How many were compared.
    pub values: usize,
    /// How many are equal to the bit.
    pub identical: usize,
    /// How many are unequal, in the sense of the pair's [`Equality`].
    pub differing: usize,
    /// How many are NaN where they should not be, or a number where they should be NaN.
    pub nan: usize,
    /// The sum of all |d|.
    pub sum: f64,
    /// The largest |d|.
    pub max: f64,
    /// The largest distance in units in the last place.
    pub ulp: u64,
    /// Where the largest |d| is, or the first NaN if there is one; none when nothing differs.
    pub worst: Option<usize>,
}

impl Figures {
    const NOTHING: Self =
        Self { values: 0, identical: 0, differing: 0, nan: 0, sum: 0.0, max: 0.0, ulp: 0, worst: None };

    /// Compares two runs of values.
    ///
    /// # Panics
    /// If they are not equally long.
    pub fn of(pair: Pair<'_>, nan: NanPolicy) -> Self {
        assert_eq!(pair.ours.len(), pair.upstream.len(), "lengths are compared before values");
        let mut figures = Self { values: pair.ours.len(), ..Self::NOTHING };
        let (relative, absolute) = match pair.equality {
            Equality::Exact => (0.0, 0.0),
            Equality::Within { relative, absolute } => (relative, absolute * pair.rms()),
        };
        for (index, (&ours, &upstream)) in pair.ours.iter().zip(pair.upstream).enumerate() {
            figures.identical += usize::from(ours.to_bits() == upstream.to_bits());
            if ours.is_nan() || upstream.is_nan() {
                let right = nan == NanPolicy::AsUpstream && ours.is_nan() && upstream.is_nan();
                if !right && figures.nan == 0 {
                    figures.worst = Some(index);
                }
                figures.nan += usize::from(!right);
                continue;
            }
            let distance = distance(ours, upstream);
            let allowed = relative * f64::from(upstream).abs() + absolute;
            let equal = distance <= 0.0 || (distance.is_finite() && distance <= allowed);
            figures.differing += usize::from(!equal);
            figures.sum += distance;
            figures.ulp = figures.ulp.max(ulp(ours, upstream, pair.grid));
            if distance > figures.max {
                figures.max = distance;
                if figures.nan == 0 {
                    figures.worst = Some(index);
                }
            }
        }
        figures
    }

    /// Returns the figures of several runs together. The worst index is lost.
    pub fn together(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().fold(Self::NOTHING, |all, part| Self {
            values: all.values + part.values,
            identical: all.identical + part.identical,
            differing: all.differing + part.differing,
            nan: all.nan + part.nan,
            sum: all.sum + part.sum,
            max: all.max.max(part.max),
            ulp: all.ulp.max(part.ulp),
            worst: None,
        })
    }

    /// Returns the mean |d|.
    pub fn mean(&self) -> f64 {
        self.share_of(self.sum)
    }

    /// Returns the share of values that are unequal.
    pub fn differing_share(&self) -> f64 {
        self.share_of(self.differing as f64)
    }

    /// Returns the share of values that are equal to the bit.
    pub fn identical_share(&self) -> f64 {
        self.share_of(self.identical as f64)
    }

    fn share_of(&self, sum: f64) -> f64 {
        if self.values == 0 { 0.0 } else { sum / self.values as f64 }
    }
}

impl Pair<'_> {
    /// Returns the largest `|d| / (relative·|u| + absolute)`.
    pub fn worst_ratio(&self, relative: f64, absolute: f64) -> f64 {
        let ratios = self.numbers().map(|(ours, upstream)| {
            let allowed = relative * f64::from(upstream).abs() + absolute;
            ratio(distance(ours, upstream), allowed)
        });
        ratios.fold(0.0, f64::max)
    }

    /// Returns how many values lie more than one unit in the last place *and* more than `floor` away.
    pub fn beyond(&self, floor: f64) -> usize {
        let grid = self.grid;
        self.numbers()
            .filter(|&(ours, upstream)| ulp(ours, upstream, grid) > 1 && distance(ours, upstream) > floor)
            .count()
    }

    /// Returns the root of the mean square of upstream's finite values.
    pub fn rms(&self) -> f64 {
        let finite = || self.upstream.iter().filter(|value| value.is_finite()).map(|&value| f64::from(value));
        let count = finite().count();
        if count == 0 { 0.0 } else { (finite().map(|value| value * value).sum::<f64>() / count as f64).sqrt() }
    }

    fn numbers(&self) -> impl Iterator<Item = (f32, f32)> {
        let pairs = self.ours.iter().copied().zip(self.upstream.iter().copied());
        pairs.filter(|(ours, upstream)| !ours.is_nan() && !upstream.is_nan())
    }
}

/// Returns how much of what is allowed was found; nothing found is always allowed, and anything is too much where
/// nothing is.
pub(crate) fn ratio(found: f64, allowed: f64) -> f64 {
    match (found, allowed) {
        (0.0, _) => 0.0,
        (found, allowed) if allowed > 0.0 && found.is_finite() => found / allowed,
        _ => f64::INFINITY,
    }
}

/// Returns |a − b|; equal infinities have none.
fn distance(a: f32, b: f32) -> f64 {
    if a == b { 0.0 } else { (f64::from(a) - f64::from(b)).abs() }
}

/// Returns the steps from `a` to `b` on the grid of representable values, across zero too; the two zeros are one.
fn ulp(a: f32, b: f32, grid: Grid) -> u64 {
    let place = |value: f32| {
        let bits = value.to_bits();
        let magnitude = i64::from(bits & 0x7fff_ffff);
        let magnitude = if grid == Grid::Bf16 { magnitude >> 16 } else { magnitude };
        if bits >> 31 == 1 { -magnitude } else { magnitude }
    };
    match grid {
        Grid::Int => distance(a, b) as u64,
        Grid::F32 | Grid::Bf16 => place(a).abs_diff(place(b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INF: f32 = f32::INFINITY;

    fn figures(ours: &[f32], upstream: &[f32], nan: NanPolicy) -> Figures {
        Figures::of(Pair { ours, upstream, grid: Grid::F32, equality: Equality::Exact }, nan)
    }

    #[test]
    fn counts_a_nan_wherever_it_is() {
        let nan = f32::NAN;
        for (ours, upstream) in [([nan, 1.0], [1.0, 1.0]), ([1.0, 1.0], [nan, 1.0]), ([nan, 1.0], [nan, 1.0])] {
            let found = figures(&ours, &upstream, NanPolicy::Refuse);
            assert_eq!((found.nan, found.worst), (1, Some(0)));
        }
        assert_eq!(figures(&[nan, 1.0], &[nan, 1.0], NanPolicy::AsUpstream).nan, 0);
        assert_eq!(figures(&[1.0, nan], &[nan, 1.0], NanPolicy::AsUpstream).nan, 2);
    }

    #[test]
    fn the_first_nan_is_worse_than_any_number() {
        let found = figures(&[9.0, f32::NAN, 99.0], &[1.0, 1.0, 1.0], NanPolicy::Refuse);
        assert_eq!((found.worst, found.max), (Some(1), 98.0));
    }

    #[test]
    fn zeros_of_either_sign_are_equal_but_not_identical() {
        let found = figures(&[-0.0, 0.0], &[0.0, 0.0], NanPolicy::Refuse);
        assert_eq!((found.identical, found.differing, found.max, found.ulp), (1, 0, 0.0, 0));
    }

    #[test]
    fn infinities_are_equal_only_to_themselves() {
        let found = figures(&[INF, -INF], &[INF, -INF], NanPolicy::Refuse);
        assert_eq!((found.identical, found.max, found.ulp), (2, 0.0, 0));
        for (ours, upstream) in [(INF, -INF), (INF, f32::MAX), (0.0, -INF)] {
            assert_eq!(figures(&[ours], &[upstream], NanPolicy::Refuse).max, f64::INFINITY);
        }
    }

    #[test]
    #[should_panic(expected = "lengths are compared before values")]
    fn never_compares_a_part() {
        figures(&[1.0], &[1.0, 2.0], NanPolicy::Refuse);
    }

    #[test]
    fn units_in_the_last_place_are_counted_across_zero() {
        let tiny = f32::from_bits(1);
        assert_eq!(ulp(tiny, -tiny, Grid::F32), 2);
        assert_eq!(ulp(1.0, 1.0 + f32::EPSILON, Grid::F32), 1);
        assert_eq!(ulp(f32::MAX, INF, Grid::F32), 1);
        assert_eq!(ulp(1.0, 1.0 + 2.0 / 128.0, Grid::Bf16), 2);
        assert_eq!(ulp(f32::from_bits(0x8001_0000), f32::from_bits(0x0001_0000), Grid::Bf16), 2);
        assert_eq!(ulp(-3.0, 4.0, Grid::Int), 7);
    }

    #[test]
    fn sums_in_another_order_may_count_as_equal() {
        let equality = Equality::Within { relative: 1e-5, absolute: 1e-5 };
        let within = |ours: &[f32]| {
            let pair = Pair { ours, upstream: &[1.0, f32::NEG_INFINITY], grid: Grid::F32, equality };
            Figures::of(pair, NanPolicy::Refuse).differing
        };
        assert_eq!(within(&[1.000_01, -INF]), 0);
        assert_eq!(within(&[1.000_03, -INF]), 1);
        assert_eq!(within(&[1.0, 0.0]), 1);
    }

    #[test]
    fn ratios_never_divide_by_zero() {
        assert_eq!(ratio(0.0, 0.0), 0.0);
        assert_eq!(ratio(1e-30, 0.0), f64::INFINITY);
        assert_eq!(ratio(INF.into(), 1.0), f64::INFINITY);
        assert_eq!(ratio(1.0, 4.0), 0.25);
        let pair = Pair { ours: &[1.5, -INF], upstream: &[1.0, -INF], grid: Grid::F32, equality: Equality::Exact };
        assert_eq!(pair.worst_ratio(0.0, 0.5), 1.0);
        assert_eq!(pair.rms(), 1.0);
    }

    #[test]
    fn several_runs_together_weigh_by_their_lengths() {
        let one = figures(&[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0], NanPolicy::Refuse);
        let two = figures(&[2.0], &[1.0], NanPolicy::Refuse);
        let both = Figures::together([one, two]);
        assert_eq!((both.values, both.mean(), both.max, both.differing_share()), (4, 0.25, 1.0, 0.25));
    }
}

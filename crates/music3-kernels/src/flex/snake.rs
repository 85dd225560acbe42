//! The vocoder's periodic activation in one pass.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::value::Value;

/// Values one task computes.
const VALUES_PER_TASK: usize = 1 << 14;

/// Values between two looks at how large they are.
const VALUES_AT_ONCE: usize = 256;

/// Above this the multiple of π that is nearest takes more bits than are kept for it.
const MAX_ANGLE: f32 = 1_000_000.0;

/// Returns `x + sin²(alpha · x) / (alpha + eps)`, where every op rounds, of rows of `len` values, one `alpha` for each
/// channel.
pub(super) fn snake<T: Value>(x: &[T], alpha: &[T], len: usize, eps: f32) -> Vec<T> {
    let mut out = vec![T::rounded(0.0); x.len()];
    let rows = out.par_chunks_mut(len).zip(x.par_chunks(len)).enumerate();
    rows.for_each(|(row, (out, x))| {
        let alpha = alpha[row % alpha.len()].wide();
        let inverse = T::kept(1.0 / T::kept(alpha + eps));
        let tasks = out.par_chunks_mut(VALUES_PER_TASK).zip(x.par_chunks(VALUES_PER_TASK));
        tasks.for_each(|(out, x)| pulp::Arch::new().dispatch(Bend { out, x, alpha, inverse }));
    });
    out
}

/// One task: values of one channel.
struct Bend<'a, T> {
    out: &'a mut [T],
    x: &'a [T],
    alpha: f32,
    inverse: f32,
}

impl<T: Value> WithSimd for Bend<'_, T> {
    type Output = ();

    // Nothing is called that is not inlined: only here may the compiler use wide vectors.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { out, x, alpha, inverse } = self;
        for (out, x) in out.chunks_mut(VALUES_AT_ONCE).zip(x.chunks(VALUES_AT_ONCE)) {
            let mut angles = [0.0; VALUES_AT_ONCE];
            // Without a branch, so that it takes a vector at a time. A NaN is small, and stays a NaN either way.
            let mut large = false;
            for (angle, x) in angles.iter_mut().zip(x) {
                *angle = T::kept(alpha * x.wide());
                large |= angle.abs() > MAX_ANGLE;
            }
            if large {
                for angle in &mut angles {
                    *angle = angle.sin();
                }
            } else {
                for angle in &mut angles {
                    *angle = sine_up_to_its_sign(*angle);
                }
            }
            for ((out, x), sine) in out.iter_mut().zip(x).zip(angles) {
                let sine = T::kept(sine);
                *out = T::rounded(x.wide() + T::kept(inverse * T::kept(sine * sine)));
            }
        }
    }
}

/// π in two parts, the first of few enough bits that a multiple of it is exact.
const PI_HIGH: f64 = 3.1415926534682512;
const PI_LOW: f64 = 1.2154201013012384e-10;

/// Adding and taking away 1.5 · 2⁵² rounds to a whole number.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// Returns `sin(angle)` or its negative, off by at most half a unit in the last place and a thousandth, for angles up to
/// [`MAX_ANGLE`]: a polynomial in f64 of what is left beside the nearest multiple of π.
#[inline(always)]
fn sine_up_to_its_sign(angle: f32) -> f32 {
    let angle = f64::from(angle);
    let turns = (angle * std::f64::consts::FRAC_1_PI + ROUNDER) - ROUNDER;
    let left = (angle - turns * PI_HIGH) - turns * PI_LOW;
    let square = left * left;
    let sum = 1.0 / 6_227_020_800.0 - square * (1.0 / 1_307_674_368_000.0);
    let sum = sum * square - 1.0 / 39_916_800.0;
    let sum = (sum * square + 1.0 / 362_880.0) * square - 1.0 / 5_040.0;
    let sum = (sum * square + 1.0 / 120.0) * square - 1.0 / 6.0;
    let sum = sum * square + 1.0;
    (left * sum) as f32
}

#[cfg(test)]
mod tests {
    use super::{MAX_ANGLE, sine_up_to_its_sign, snake};

    /// Angles of all sizes up to the largest, both signs, and those around multiples of π/2.
    fn angles() -> impl Iterator<Item = f32> {
        let sizes = (0..400_000).map(|step| (f64::from(step) / 20_000.0 - 14.0).exp2() as f32);
        let corners = (1..50_000).map(|quarter| f64::from(quarter) * std::f64::consts::FRAC_PI_2);
        let corners = corners.flat_map(|corner| [-1e-3, -1e-6, 0.0, 1e-6, 1e-3].map(|off| (corner + off) as f32));
        sizes.chain(corners).filter(|angle| *angle <= MAX_ANGLE).flat_map(|angle| [angle, -angle])
    }

    #[test]
    fn a_sine_is_the_nearest_or_its_neighbour() {
        let mut count = 0;
        for angle in angles() {
            let wanted = f64::from(angle).sin().abs();
            let found = sine_up_to_its_sign(angle).abs();
            let unit = f64::from((wanted as f32).next_up() - wanted as f32);
            let apart = (f64::from(found) - wanted).abs() / unit;
            assert!(apart <= 0.501, "{angle}: {found}, wanted {wanted}: {apart} units apart");
            count += 1;
        }
        assert!(count > 500_000, "only {count} angles");
    }

    #[test]
    fn angles_without_a_sine_give_none_and_large_ones_theirs() {
        let x = [f32::NAN, f32::INFINITY, 3.0e7, -1.0, 0.0];
        let found = snake(&x, &[1.0], x.len(), 1e-9);
        assert!(found[0].is_nan() && found[1].is_nan(), "{found:?}");
        for (x, found) in x.iter().zip(&found).skip(2) {
            let sine = x.sin();
            assert_eq!(*found, x + sine * sine, "{x}");
        }
    }
}

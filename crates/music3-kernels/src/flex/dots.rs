//! Dot products of bf16 weights with a few f32 rows, in registers.

use half::bf16;
use pulp::{Simd, WithSimd};

/// Partial sums per row: wide enough for any vector unit, and fixed, so that the order of a sum is fixed too.
const LANES: usize = 16;

/// One task: the products of some weight rows with every row of `x`.
pub(super) struct Dots<'a> {
    /// `[outputs, inner]`
    pub(super) weights: &'a [bf16],
    /// `[rows, inner]`
    pub(super) x: &'a [f32],
    pub(super) inner: usize,
    /// `[outputs, rows]`
    pub(super) sums: &'a mut [f32],
}

impl Dots<'_> {
    /// Writes the products.
    pub(super) fn write(self) {
        pulp::Arch::new().dispatch(self);
    }
}

impl WithSimd for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Outputs side by side: their sums for two rows fill half of the registers.
        match (S::F32_LANES, S::REGISTER_COUNT) {
            (16, _) => blocks::<S, 8, 1>(simd, self),
            (8, _) => blocks::<S, 2, 2>(simd, self),
            (4, 32) => blocks::<S, 2, 4>(simd, self),
            (4, _) => blocks::<S, 1, 4>(simd, self),
            _ => blocks::<S, 1, LANES>(simd, self),
        }
    }
}

#[inline(always)]
fn blocks<S: Simd, const OUTPUTS: usize, const PARTS: usize>(simd: S, dots: Dots<'_>) {
    let Dots { weights, x, inner, sums } = dots;
    let rows = x.len() / inner;
    let sums = sums.chunks_mut(OUTPUTS * rows);
    for (sums, weights) in sums.zip(weights.chunks(OUTPUTS * inner)) {
        if weights.len() == OUTPUTS * inner {
            let weights: [&[bf16]; OUTPUTS] = std::array::from_fn(|output| &weights[output * inner..][..inner]);
            every_row::<S, OUTPUTS, PARTS>(simd, weights, x, sums);
        } else {
            for (sums, weights) in sums.chunks_exact_mut(rows).zip(weights.chunks_exact(inner)) {
                every_row::<S, 1, PARTS>(simd, [weights], x, sums);
            }
        }
    }
}

/// Writes the products of some weight rows with every row of `x`.
#[inline(always)]
fn every_row<S: Simd, const OUTPUTS: usize, const PARTS: usize>(
    simd: S,
    weights: [&[bf16]; OUTPUTS],
    x: &[f32],
    sums: &mut [f32],
) {
    // Two rows are the usual case (both guidance rows): the weights are widened once for both.
    let inner = weights[0].len();
    let rows = x.len() / inner;
    let row = |row: usize| &x[row * inner..][..inner];
    for first in (0..rows).step_by(2) {
        if first + 1 < rows {
            let products = dot::<S, OUTPUTS, 2, PARTS>(simd, weights, [row(first), row(first + 1)]);
            for (sums, products) in sums.chunks_exact_mut(rows).zip(products) {
                sums[first..first + 2].copy_from_slice(&products);
            }
        } else {
            let products = dot::<S, OUTPUTS, 1, PARTS>(simd, weights, [row(first)]);
            for (sums, [product]) in sums.chunks_exact_mut(rows).zip(products) {
                sums[first] = product;
            }
        }
    }
}

/// Returns the dot products of weights with rows, each summed in [`LANES`] partial sums and then pairwise. A product and
/// a sum round apart, as they do on processors that cannot do both at once: the result is the same on all.
#[inline(always)]
fn dot<S: Simd, const OUTPUTS: usize, const ROWS: usize, const PARTS: usize>(
    simd: S,
    weights: [&[bf16]; OUTPUTS],
    rows: [&[f32]; ROWS],
) -> [[f32; ROWS]; OUTPUTS] {
    // Loops over constants are unrolled, so that sums stay in registers.
    let mut sums = [[[simd.splat_f32s(0.0); PARTS]; ROWS]; OUTPUTS];
    let blocks = rows[0].len() / LANES;
    let whole_rows = rows.map(|row| &row.as_chunks::<LANES>().0[..blocks]);
    let whole_weights = weights.map(|weights| &weights.as_chunks::<LANES>().0[..blocks]);
    for block in 0..blocks {
        let x: [[S::f32s; PARTS]; ROWS] = std::array::from_fn(|row| {
            let (vectors, _) = S::as_simd_f32s(&whole_rows[row][block]);
            std::array::from_fn(|part| vectors[part])
        });
        for output in 0..OUTPUTS {
            let wide = whole_weights[output][block].map(|weight| f32::from_bits(u32::from(weight.to_bits()) << 16));
            let (wide, _) = S::as_simd_f32s(&wide);
            for row in 0..ROWS {
                for part in 0..PARTS {
                    let product = simd.mul_f32s(wide[part], x[row][part]);
                    sums[output][row][part] = simd.add_f32s(sums[output][row][part], product);
                }
            }
        }
    }
    let mut products = [[0.0; ROWS]; OUTPUTS];
    for output in 0..OUTPUTS {
        for row in 0..ROWS {
            let mut lanes = [0.0; LANES];
            S::as_mut_simd_f32s(&mut lanes).0.copy_from_slice(&sums[output][row]);
            let done = blocks * LANES;
            for (lane, (weight, x)) in weights[output][done..].iter().zip(&rows[row][done..]).enumerate() {
                lanes[lane] += weight.to_f32() * x;
            }
            products[output][row] = pairwise(lanes);
        }
    }
    products
}

#[inline(always)]
fn pairwise(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    lanes[0]
}

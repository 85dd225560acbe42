//! bf16 weights times a few f32 rows, at the speed at which memory is read.

use burn::tensor::{DType, Tensor, TensorData, backend::Backend};
use half::bf16;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{flex_tensor, value::Value};

/// More rows than this are better served by a blocked product.
pub(super) const MAX_ROWS: usize = 16;

/// Partial sums per row: wide enough for any vector unit, and fixed, so that the order of a sum is fixed too.
const LANES: usize = 16;

/// Outputs one task computes.
const OUTPUTS_PER_TASK: usize = 64;

/// See [`try_linear_bf16`](crate::try_linear_bf16).
pub(crate) fn linear_bf16<B: Backend>(x: &Tensor<B, 2>, weight: &Tensor<B, 2>) -> Option<Tensor<B, 2>> {
    let [rows, inner] = x.dims();
    let [outputs, _] = weight.dims();
    if weight.dtype() != DType::BF16 || rows == 0 || rows > MAX_ROWS || inner == 0 {
        return None;
    }
    let primitive = flex_tensor(weight)?;
    let (start, end) = primitive.layout().contiguous_offsets()?;
    let weights = &primitive.storage::<bf16>()[start..end];
    let device = x.device();
    let x: Vec<f32> = x.clone().cast(DType::F32).into_data().into_vec().ok()?;

    let arch = pulp::Arch::new();
    let mut by_output = vec![0.0f32; outputs * rows];
    by_output.par_chunks_mut(OUTPUTS_PER_TASK * rows).enumerate().for_each(|(task, sums)| {
        let weights = &weights[task * OUTPUTS_PER_TASK * inner..][..sums.len() / rows * inner];
        arch.dispatch(Dots { weights, x: &x, inner, sums });
    });
    let data = TensorData::new(by_output, [outputs, rows]);
    Some(Tensor::<B, 2>::from_data(data, (&device, DType::F32)).transpose())
}

/// One task: the products of some weight rows with every row of `x`.
struct Dots<'a> {
    /// `[outputs, inner]`
    weights: &'a [bf16],
    /// `[rows, inner]`
    x: &'a [f32],
    inner: usize,
    /// `[outputs, rows]`
    sums: &'a mut [f32],
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
    let mut sums = [[[simd.splat_f32s(0.0); PARTS]; ROWS]; OUTPUTS];
    let weights = weights.map(|weights| weights.as_chunks::<LANES>());
    let rows = rows.map(|row| row.as_chunks::<LANES>());
    let blocks = weights[0].0.len();
    let (whole_weights, whole_rows) = (weights.map(|(whole, _)| &whole[..blocks]), rows.map(|(row, _)| &row[..blocks]));
    for block in 0..blocks {
        let row: [[S::f32s; PARTS]; ROWS] = whole_rows.map(|row| vectors::<S, PARTS>(&row[block]));
        for (sums, weights) in sums.iter_mut().zip(whole_weights) {
            let weights = vectors::<S, PARTS>(&weights[block].map(Value::wide));
            for (sums, row) in sums.iter_mut().zip(row) {
                for part in 0..PARTS {
                    sums[part] = simd.add_f32s(sums[part], simd.mul_f32s(weights[part], row[part]));
                }
            }
        }
    }
    std::array::from_fn(|output| {
        std::array::from_fn(|row| {
            let mut lanes = [0.0; LANES];
            S::as_mut_simd_f32s(&mut lanes).0.copy_from_slice(&sums[output][row]);
            for (lane, (weight, x)) in weights[output].1.iter().zip(rows[row].1).enumerate() {
                lanes[lane] += weight.wide() * x;
            }
            pairwise(lanes)
        })
    })
}

#[inline(always)]
fn vectors<S: Simd, const PARTS: usize>(lanes: &[f32; LANES]) -> [S::f32s; PARTS] {
    let (vectors, _) = S::as_simd_f32s(lanes);
    std::array::from_fn(|part| vectors[part])
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

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Tensor, TensorData};
    use burn_flex::{Flex, FlexDevice};

    use super::linear_bf16;

    type B = Flex;

    fn tensor(rows: usize, columns: usize, seed: u32) -> Tensor<B, 2> {
        let mut state = seed;
        let values: Vec<f32> = (0..rows * columns)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Eight significant bits, so that bf16 holds the value.
                ((state >> 24) as f32 - 127.5) / 64.0
            })
            .collect();
        Tensor::from_data(TensorData::new(values, [rows, columns]), (&FlexDevice, DType::F32))
    }

    #[test]
    fn equals_the_plain_product() {
        for (rows, inner, outputs) in [(1, 1, 1), (2, 48, 7), (3, 77, 130), (16, 100, 65)] {
            let x = tensor(rows, inner, 3);
            let weight = tensor(outputs, inner, 5).cast(DType::BF16);
            let fast = linear_bf16(&x, &weight).expect("flex, bf16 and few rows");
            let plain = x.matmul(weight.cast(DType::F32).transpose());
            fast.into_data().assert_approx_eq::<f32>(&plain.into_data(), burn::tensor::Tolerance::rel_abs(1e-5, 1e-4));
        }
    }

    #[test]
    fn sums_each_row_alike_whatever_the_number_of_rows() {
        let x = tensor(5, 333, 1);
        let weight = tensor(70, 333, 2).cast(DType::BF16);
        let together = linear_bf16(&x, &weight).expect("flex, bf16 and few rows");
        for row in 0..5 {
            let alone = linear_bf16(&x.clone().narrow(0, row, 1), &weight).expect("one row");
            together.clone().narrow(0, row, 1).into_data().assert_eq(&alone.into_data(), true);
        }
    }

    #[test]
    fn reads_a_slice_of_the_weight() {
        let x = tensor(2, 40, 1);
        let weight = tensor(90, 40, 2).cast(DType::BF16);
        let whole = linear_bf16(&x, &weight).expect("flex, bf16 and few rows");
        let part = linear_bf16(&x, &weight.narrow(0, 13, 50)).expect("a contiguous slice");
        part.into_data().assert_eq(&whole.narrow(1, 13, 50).into_data(), true);
    }

    #[test]
    fn leaves_f32_weights_and_many_rows_to_the_plain_form() {
        let weight = tensor(8, 32, 2);
        assert!(linear_bf16(&tensor(2, 32, 1), &weight).is_none());
        assert!(linear_bf16(&tensor(17, 32, 1), &weight.cast(DType::BF16)).is_none());
    }
}

//! burn-flex: bf16 weights times f32 rows.

use std::any::Any;

use burn::tensor::{DType, Tensor, TensorData, TensorPrimitive, backend::Backend};
use burn_flex::FlexTensor;
use half::bf16;
use rayon::prelude::*;

/// More rows than this are better served by a blocked product.
const MAX_ROWS: usize = 16;

/// Partial sums per row: wide enough for any vector unit, and fixed, so that the order of a sum is fixed too.
const LANES: usize = 16;

/// Outputs one task computes.
const OUTPUTS_PER_TASK: usize = 64;

/// See [`try_linear_bf16`](crate::try_linear_bf16).
pub(crate) fn linear_bf16<B: Backend>(x: &Tensor<B, 2>, weight: &Tensor<B, 2>) -> Option<Tensor<B, 2>> {
    let [rows, inner] = x.dims();
    let [outputs, _] = weight.dims();
    if weight.dtype() != DType::BF16 || rows > MAX_ROWS || inner == 0 {
        return None;
    }
    let primitive = flex_tensor(weight)?;
    let (start, end) = primitive.layout().contiguous_offsets()?;
    let weights = &primitive.storage::<bf16>()[start..end];
    let device = x.device();
    let x: Vec<f32> = x.clone().cast(DType::F32).into_data().into_vec().ok()?;

    let mut by_output = vec![0.0f32; outputs * rows];
    by_output.par_chunks_mut(OUTPUTS_PER_TASK * rows).enumerate().for_each(|(task, sums)| {
        let first = task * OUTPUTS_PER_TASK;
        for (index, sums) in sums.chunks_exact_mut(rows).enumerate() {
            let output = first + index;
            let weights = &weights[output * inner..(output + 1) * inner];
            dot_rows(weights, &x, sums);
        }
    });
    let data = TensorData::new(by_output, [outputs, rows]);
    Some(Tensor::<B, 2>::from_data(data, (&device, DType::F32)).transpose())
}

/// Returns the flex tensor inside, if `B` is burn-flex.
fn flex_tensor<B: Backend>(tensor: &Tensor<B, 2>) -> Option<FlexTensor> {
    let TensorPrimitive::Float(primitive) = tensor.clone().into_primitive() else { return None };
    (&primitive as &dyn Any).downcast_ref::<FlexTensor>().cloned()
}

/// Writes the products of one weight row with every row of `x` to `sums`.
fn dot_rows(weights: &[bf16], x: &[f32], sums: &mut [f32]) {
    // Two rows are the usual case (both guidance rows): the weights are widened once for both.
    let inner = weights.len();
    for (pair, sums) in sums.chunks_mut(2).enumerate() {
        let first = &x[2 * pair * inner..][..inner];
        match sums {
            [a, b] => {
                let second = &x[(2 * pair + 1) * inner..][..inner];
                [*a, *b] = dot(weights, [first, second]);
            }
            [a] => [*a] = dot(weights, [first]),
            _ => unreachable!("chunks of two hold one or two sums"),
        }
    }
}

/// Returns the dot products of `weights` with `N` rows, each summed in [`LANES`] partial sums and then pairwise.
fn dot<const N: usize>(weights: &[bf16], rows: [&[f32]; N]) -> [f32; N] {
    let mut lanes = [[0.0f32; LANES]; N];
    let (blocks, tail) = weights.as_chunks::<LANES>();
    for (block, weights) in blocks.iter().enumerate() {
        let weights = weights.map(bf16::to_f32_const);
        for (lanes, row) in lanes.iter_mut().zip(rows) {
            let row = &row[block * LANES..][..LANES];
            for lane in 0..LANES {
                lanes[lane] += weights[lane] * row[lane];
            }
        }
    }
    let done = blocks.len() * LANES;
    for (lanes, row) in lanes.iter_mut().zip(rows) {
        for (lane, weight) in tail.iter().enumerate() {
            lanes[lane] += weight.to_f32() * row[done + lane];
        }
    }
    lanes.map(|mut lanes| {
        let mut width = LANES;
        while width > 1 {
            width /= 2;
            for lane in 0..width {
                lanes[lane] += lanes[lane + width];
            }
        }
        lanes[0]
    })
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

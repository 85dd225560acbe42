//! bf16 weights times a few f32 rows, at the speed at which memory is read.

use burn::tensor::{DType, Tensor, TensorData, backend::Backend};
use half::bf16;
use rayon::prelude::*;

use super::{dots::Dots, flex_tensor};

/// More rows than this are better served by a blocked product.
pub(super) const MAX_ROWS: usize = 16;

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

    let mut by_output = vec![0.0f32; outputs * rows];
    by_output.par_chunks_mut(OUTPUTS_PER_TASK * rows).enumerate().for_each(|(task, sums)| {
        let weights = &weights[task * OUTPUTS_PER_TASK * inner..][..sums.len() / rows * inner];
        Dots { weights, x: &x, inner, sums }.write();
    });
    let data = TensorData::new(by_output, [outputs, rows]);
    Some(Tensor::<B, 2>::from_data(data, (&device, DType::F32)).transpose())
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

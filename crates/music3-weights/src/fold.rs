//! Weight norm folded into the weight it normalises: `g · v / ‖v‖`.

use burn::tensor::TensorData;
use music3_nn::Width;

use crate::{component::Component, error::WeightsError, problem::Problem, source::TensorView};

/// Folds the stored `g` ([rows, 1, …]) and `v` ([rows, …]) into f32 values.
///
/// torch folds in the module's width: a bf16 module holds g and v rounded to bf16, and so they are here. The norm, the
/// division and the product are f32 in both; whoever stores the result rounds it once.
///
/// The sum of squares is bit-equal to torch 2.11's on a CPU with AVX2 or AVX-512. There it is kept in 8 lanes for f32
/// and in 16 for bf16, without fused multiply-add, and the lanes are added in halves. A norm summed in f64 gives other
/// bits in half of a large convolution's weights.
pub(crate) fn fold_weight_norm(
    component: Component,
    g: TensorView<'_>,
    v: TensorView<'_>,
    width: Width,
) -> Result<TensorData, WeightsError> {
    let (gains, mut values) = (g.to_f32_through(width)?, v.to_f32_through(width)?);
    let row_length = values.len() / gains.len().max(1);
    for (row, (gain, values)) in gains.iter().zip(values.chunks_exact_mut(row_length.max(1))).enumerate() {
        let norm = match width {
            Width::F32 => norm::<8>(values),
            Width::Bf16 => norm::<16>(values),
        };
        if !(norm > 0.0 && norm.is_finite()) {
            let (name, file) = (v.entry.name.to_owned(), v.entry.file.to_owned());
            return Err(Problem::RowNorm { component, name, file, row, norm }.into());
        }
        let scale = gain / norm;
        values.iter_mut().for_each(|value| *value *= scale);
    }
    Ok(TensorData::new(values, v.entry.shape.to_vec()))
}

fn norm<const LANES: usize>(values: &[f32]) -> f32 {
    if values.len() < LANES {
        // Too short for the lanes: torch adds one by one.
        return values.iter().fold(0.0, |sum, value| sum + value * value).sqrt();
    }
    let mut lanes = [0.0f32; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks.chain(std::iter::once(rest)) {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value * value;
        }
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0].sqrt()
}

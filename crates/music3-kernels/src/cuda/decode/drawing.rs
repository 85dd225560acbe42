//! Launches of draws.

use burn::tensor::DType;
use burn_cubecl::{cubecl, kernel::into_contiguous};
use cubecl::{
    cuda::CudaRuntime,
    prelude::{CubeCount, CubeDim},
};

use super::{array, draw as kernel, empty, halves};
use crate::{Draw, cuda::CudaTensor};

/// Candidates that a draw may have: more do not fit a unit's registers.
const MAX_CANDIDATES: usize = 32 * kernel::UNITS as usize;

/// Draws one candidate and returns its row of the table for both sequences; see [`try_draw`](crate::try_draw).
pub(in super::super) fn draw(
    logits: CudaTensor,
    exponentials: CudaTensor,
    outcome: CudaTensor,
    draw: Draw,
) -> Option<CudaTensor> {
    let Draw { slot, slots, candidates, skipped, top_k, filters, first_exponential, base, origin } = draw;
    let [rows, columns] = *logits.meta.shape().as_slice() else { return None };
    let [numbers] = *exponentials.meta.shape().as_slice() else { return None };
    let [places] = *outcome.meta.shape().as_slice() else { return None };
    let fits = logits.dtype == DType::BF16
        && exponentials.dtype == DType::F32
        && outcome.dtype == DType::I32
        && (1..=MAX_CANDIDATES).contains(&candidates)
        && top_k > 0
        && (rows, columns) == (2, candidates + skipped)
        && first_exponential + candidates <= numbers
        && (slot < slots && places == 4 * slots)
        && exponentials.is_contiguous()
        && outcome.is_contiguous();
    if !fits {
        return None;
    }
    let logits = into_contiguous(logits);
    let rows = empty(&logits, vec![2, 1], DType::I32);
    kernel::draw::launch::<CudaRuntime>(
        &logits.client,
        CubeCount::new_1d(1),
        CubeDim::new_1d(kernel::UNITS),
        halves(&logits),
        array(&exponentials.handle, numbers),
        array(&outcome.handle, places),
        halves(&rows),
        columns as u32,
        skipped as u32,
        candidates as u32,
        top_k as u32,
        first_exponential as u32,
        slot as u32,
        slots as u32,
        base as u32,
        origin as u32,
        kernel::Drawing { per_unit: (candidates as u32).div_ceil(kernel::UNITS), filters },
    );
    Some(rows)
}

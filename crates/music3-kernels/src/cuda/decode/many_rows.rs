//! Launches of the ops of many rows.

use burn::tensor::DType;
use burn_cubecl::{cubecl, kernel::into_contiguous};
use cubecl::{
    cuda::CudaRuntime,
    prelude::{CubeCount, CubeDim},
};

use super::{
    Joint, Norm, PLANES, acoustic, array, elements, empty, halves,
    linear::{self, PLANE},
    packed::{EIGHT, FOUR},
    pointwise, words,
};
use crate::cuda::{CudaTensor, conv};

/// Returns whether a tensor is f32 or bf16, the types that the ops of many rows take.
pub(super) fn is_wide_or_narrow(tensor: &CudaTensor) -> bool {
    matches!(tensor.dtype, DType::F32 | DType::BF16)
}

/// Fours of a row that a lane keeps in registers.
const ROW_FOURS: u32 = 16;

/// LayerNorm over the last dimension.
pub(in super::super) fn layer_norm(
    x: CudaTensor,
    weight: CudaTensor,
    bias: CudaTensor,
    eps: f32,
) -> Option<CudaTensor> {
    let shape = x.meta.shape().to_vec();
    let channels = *shape.last()?;
    let fits = is_wide_or_narrow(&x)
        && channels.is_multiple_of(FOUR)
        && [&weight, &bias].iter().all(|given| given.dtype == x.dtype && given.meta.shape().as_slice() == [channels]);
    let rows = elements(&x).checked_div(channels)?;
    let fours = (channels / FOUR) as u32;
    // As few planes as can hold a row: what waits for other planes waits longer.
    let planes = fours.div_ceil(PLANE * ROW_FOURS).next_power_of_two();
    if !fits || rows == 0 || planes > PLANES {
        return None;
    }
    let (x, weight, bias) = (into_contiguous(x), into_contiguous(weight), into_contiguous(bias));
    let out = empty(&x, shape, x.dtype);
    acoustic::layer_norm::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_1d(rows as u32),
        CubeDim::new_1d(planes * PLANE),
        halves(&x),
        halves(&weight),
        halves(&bias),
        halves(&out),
        eps,
        0.0,
        fours,
        planes,
        fours.div_ceil(planes * PLANE),
        fours.is_multiple_of(planes * PLANE),
        x.dtype.into(),
    );
    Some(out)
}

/// Returns whether rows of so many values can be taken apart into two halves by [`gate_halves`].
pub(in super::super) fn can_gate(columns: usize) -> bool {
    columns > 0 && columns.is_multiple_of(2 * FOUR)
}

/// The gate of `[…, 2·half]`, value half first. With a bias, f32 sums that have yet to get it and be rounded to its type.
pub(in super::super) fn gate_halves(x: CudaTensor, bias: Option<CudaTensor>) -> Option<CudaTensor> {
    let mut shape = x.meta.shape().to_vec();
    let columns = *shape.last()?;
    *shape.last_mut()? = columns / 2;
    let rows = elements(&x).checked_div(columns)?;
    let fits = match &bias {
        Some(bias) => x.dtype == DType::F32 && bias.meta.shape().as_slice() == [columns],
        None => is_wide_or_narrow(&x),
    };
    if !fits || !can_gate(columns) || !(1..=MAX_SECOND).contains(&rows) || u32::try_from(rows * columns).is_err() {
        return None;
    }
    let x = into_contiguous(x);
    let dtype = bias.as_ref().map_or(x.dtype, |bias| bias.dtype);
    let out = empty(&x, shape, dtype);
    let half = (columns / 2 / FOUR) as u32;
    acoustic::gate_halves::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_2d(half.div_ceil(PLANES * PLANE), rows as u32),
        CubeDim::new_1d(PLANES * PLANE),
        halves(&x),
        halves(bias.as_ref().unwrap_or(&out)),
        halves(&out),
        half,
        bias.is_some(),
        x.dtype.into(),
        dtype.into(),
    );
    Some(out)
}

/// Returns whether rows of so many values can be finished by [`finished`].
pub(in super::super) fn can_finish(columns: usize) -> bool {
    columns > 0 && columns.is_multiple_of(FOUR)
}

/// Rounds f32 sums `[…, columns]` to the bias's type after adding it, and again after adding a residual.
pub(in super::super) fn finished(
    sums: CudaTensor,
    bias: CudaTensor,
    residual: Option<CudaTensor>,
) -> Option<CudaTensor> {
    let columns = *sums.meta.shape().last()?;
    let rows = elements(&sums).checked_div(columns)?;
    if !can_finish(columns) || !(1..=MAX_SECOND).contains(&rows) || u32::try_from(rows * columns).is_err() {
        return None;
    }
    let out = empty(&sums, sums.meta.shape().to_vec(), bias.dtype);
    let fours = (columns / FOUR) as u32;
    acoustic::finish::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_2d(fours.div_ceil(PLANES * PLANE), rows as u32),
        CubeDim::new_1d(PLANES * PLANE),
        halves(&sums),
        halves(&bias),
        halves(residual.as_ref().unwrap_or(&out)),
        halves(&out),
        fours,
        residual.is_some(),
        bias.dtype.into(),
    );
    Some(out)
}

/// Snake of `[batch, channels, len]` with one alpha per channel; the result is a view of rows `[len, channels]`.
pub(in super::super) fn snake(x: CudaTensor, alpha: CudaTensor, eps: f32) -> Option<CudaTensor> {
    let [batch, channels, len] = *x.meta.shape().as_slice() else { return None };
    let fits = is_wide_or_narrow(&x)
        && alpha.dtype == x.dtype
        && alpha.meta.shape().as_slice() == [1, channels, 1]
        && channels.is_multiple_of(FOUR)
        && (1..=MAX_SECOND).contains(&batch)
        && elements(&x) > 0
        && u32::try_from(elements(&x)).is_ok();
    if !fits {
        return None;
    }
    let (x, alpha) = (conv::rows(x), into_contiguous(alpha));
    let out = empty(&x, vec![batch, len, channels], x.dtype);
    let stride = if batch == 1 { len * channels } else { x.meta.strides()[0] };
    if !stride.is_multiple_of(FOUR) || u32::try_from(batch * stride).is_err() {
        return None;
    }
    let count = (len * channels / FOUR) as u32;
    acoustic::snake::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_2d(count.div_ceil(PLANES * PLANE), batch as u32),
        CubeDim::new_1d(PLANES * PLANE),
        array(&x.handle, (batch - 1) * stride + len * channels),
        halves(&alpha),
        halves(&out),
        eps,
        0.0,
        (channels / FOUR) as u32,
        count,
        (stride / FOUR) as u32,
        x.dtype.into(),
    );
    Some(conv::swapped(out))
}

/// Cubes in a launch's second place, at most.
pub(super) const MAX_SECOND: usize = 65_535;

/// The sum of two tensors, or `silu(a) · b`, of one shape in bf16.
pub(in super::super) fn joined(a: CudaTensor, b: CudaTensor, joint: Joint) -> Option<CudaTensor> {
    let count = elements(&a);
    let fits = a.dtype == DType::BF16 && b.dtype == DType::BF16 && a.meta.shape() == b.meta.shape();
    if !fits || count == 0 || !count.is_multiple_of(EIGHT) {
        return None;
    }
    let (a, b) = (into_contiguous(a), into_contiguous(b));
    let out = empty(&a, a.meta.shape().to_vec(), DType::BF16);
    let eights = count / EIGHT;
    let units = (PLANES * PLANE) as usize;
    pointwise::join::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_1d(eights.div_ceil(units) as u32),
        CubeDim::new_1d(PLANES * PLANE),
        words(&a),
        words(&b),
        words(&out),
        eights as u32,
        joint,
    );
    Some(out)
}

/// Scale, causal mask and softmax of f32 scores, row by row. With `(first, queries)`, row `r` sees the keys up to number
/// `first + r % queries`.
pub(in super::super) fn softmax(scores: CudaTensor, scale: f32, causal: Option<(usize, usize)>) -> Option<CudaTensor> {
    let shape = scores.meta.shape().to_vec();
    let keys = *shape.last()?;
    let rows = elements(&scores).checked_div(keys)?;
    if scores.dtype != DType::F32 || !scores.is_contiguous() || rows == 0 {
        return None;
    }
    let out = empty(&scores, shape, DType::F32);
    pointwise::softmax_rows::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_1d(rows as u32),
        CubeDim::new_1d(PLANES * PLANE),
        array(&scores.handle, rows * keys),
        array(&out.handle, rows * keys),
        scale,
        keys as u32,
        causal.map_or(0, |(first, _)| first) as u32,
        causal.map_or(1, |(_, queries)| queries) as u32,
        causal.is_some(),
        PLANES,
    );
    Some(out)
}

/// RMSNorm of any number of bf16 rows.
pub(in super::super) fn normalise(x: CudaTensor, norm: Norm) -> Option<CudaTensor> {
    let shape: &[usize] = x.meta.shape();
    let (&inner, leading) = shape.split_last()?;
    let rows: usize = leading.iter().product();
    if x.dtype != DType::BF16 || inner == 0 || inner % EIGHT != 0 || rows == 0 {
        return None;
    }
    let norm = norm.checked(inner)?;
    let out = empty(&x, shape.to_vec(), DType::BF16);
    let x = into_contiguous(x);
    // SAFETY: a cube stays in its row, and both tensors have as many rows as there are cubes.
    unsafe {
        linear::normalise::launch_unchecked::<CudaRuntime>(
            &out.client,
            CubeCount::new_1d(rows as u32),
            CubeDim::new_1d(PLANES * PLANE),
            words(&x),
            words(&norm.weight),
            words(&out),
            norm.eps,
            (inner / EIGHT) as u32,
            PLANES,
        );
    }
    Some(out)
}

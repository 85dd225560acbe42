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
    packed::EIGHT,
    pointwise, words,
};
use crate::cuda::CudaTensor;

/// Returns whether a tensor is f32 or bf16, the types that the ops of many rows take.
fn is_wide_or_narrow(tensor: &CudaTensor) -> bool {
    matches!(tensor.dtype, DType::F32 | DType::BF16)
}

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
        && [&weight, &bias].iter().all(|given| given.dtype == x.dtype && given.meta.shape().as_slice() == [channels]);
    let rows = elements(&x).checked_div(channels)?;
    if !fits || rows == 0 {
        return None;
    }
    let (x, weight, bias) = (into_contiguous(x), into_contiguous(weight), into_contiguous(bias));
    let out = empty(&x, shape, x.dtype);
    acoustic::layer_norm::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_1d(rows as u32),
        CubeDim::new_1d(PLANES * PLANE),
        halves(&x),
        halves(&weight),
        halves(&bias),
        halves(&out),
        eps,
        channels as u32,
        PLANES,
        x.dtype.into(),
    );
    Some(out)
}

/// The gate of `[…, 2·half]`, value half first.
pub(in super::super) fn gate_halves(x: CudaTensor) -> Option<CudaTensor> {
    let mut shape = x.meta.shape().to_vec();
    let half = *shape.last()? / 2;
    *shape.last_mut()? = half;
    let count = shape.iter().product::<usize>();
    if !is_wide_or_narrow(&x) || count == 0 || elements(&x) != 2 * count || u32::try_from(2 * count).is_err() {
        return None;
    }
    let x = into_contiguous(x);
    let out = empty(&x, shape, x.dtype);
    acoustic::gate_halves::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_1d((count as u32).div_ceil(PLANES * PLANE)),
        CubeDim::new_1d(PLANES * PLANE),
        halves(&x),
        halves(&out),
        half as u32,
        count as u32,
        x.dtype.into(),
    );
    Some(out)
}

/// Snake of `[batch, channels, len]` with one alpha per channel.
pub(in super::super) fn snake(x: CudaTensor, alpha: CudaTensor, eps: f32) -> Option<CudaTensor> {
    let [_, channels, len] = *x.meta.shape().as_slice() else { return None };
    let count = elements(&x);
    let fits = is_wide_or_narrow(&x)
        && alpha.dtype == x.dtype
        && alpha.meta.shape().as_slice() == [1, channels, 1]
        && count > 0
        && u32::try_from(count).is_ok();
    if !fits {
        return None;
    }
    let (x, alpha) = (into_contiguous(x), into_contiguous(alpha));
    let out = empty(&x, x.meta.shape().to_vec(), x.dtype);
    acoustic::snake::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_1d((count as u32).div_ceil(PLANES * PLANE)),
        CubeDim::new_1d(PLANES * PLANE),
        halves(&x),
        halves(&alpha),
        halves(&out),
        eps,
        channels as u32,
        len as u32,
        count as u32,
        x.dtype.into(),
    );
    Some(out)
}

/// Heads in their own layout, rotated where there are tables: `[batch, tokens, heads·head_dim]` →
/// `[batch, heads, tokens, head_dim]`.
pub(in super::super) fn split_heads(
    x: CudaTensor,
    heads: usize,
    tables: Option<(CudaTensor, CudaTensor)>,
) -> Option<CudaTensor> {
    let [batch, tokens, width] = *x.meta.shape().as_slice() else { return None };
    let count = batch * tokens * width;
    if !is_wide_or_narrow(&x) || count == 0 || heads == 0 || width % heads != 0 || u32::try_from(count).is_err() {
        return None;
    }
    let head_dim = width / heads;
    let rotary_dim = match &tables {
        None => 0,
        Some((cosines, sines)) => {
            let [rows, rotary_dim] = *cosines.meta.shape().as_slice() else { return None };
            let fits = rows == tokens
                && rotary_dim <= head_dim
                && rotary_dim % 2 == 0
                && sines.meta.shape() == cosines.meta.shape()
                && [cosines, sines].iter().all(|table| table.dtype == x.dtype);
            fits.then_some(rotary_dim)?
        }
    };
    let x = into_contiguous(x);
    let out = empty(&x, vec![batch, heads, tokens, head_dim], x.dtype);
    // Without tables nothing of them is read; any buffer stands for them.
    let (cosines, sines) = tables
        .map_or_else(|| (x.clone(), x.clone()), |(cosines, sines)| (into_contiguous(cosines), into_contiguous(sines)));
    acoustic::split_heads::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_1d((count as u32).div_ceil(PLANES * PLANE)),
        CubeDim::new_1d(PLANES * PLANE),
        halves(&x),
        halves(&cosines),
        halves(&sines),
        halves(&out),
        tokens as u32,
        heads as u32,
        count as u32,
        head_dim as u32,
        rotary_dim as u32,
        x.dtype.into(),
    );
    Some(out)
}

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
    linear::normalise::launch::<CudaRuntime>(
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
    Some(out)
}

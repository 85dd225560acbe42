//! Burn's tensors in and out of the [`decode`](super::decode) kernels.

use burn::tensor::{DType, Int, Tensor, backend::Backend};

use super::{
    Added, CudaTensor, attention, conv, cuda_tensor, decode, if_any, int_tensor, into_int_tensor, into_tensor, join,
    product,
};
use crate::{
    Draw,
    path::kernels_are_on,
    steps::{Norm, Preparation, Stored},
};

/// Returns the CUDA tensor inside, if `B` is the unfused CUDA backend and kernels are on.
fn for_kernel<B: Backend, const D: usize>(tensor: &Tensor<B, D>) -> Option<CudaTensor> {
    kernels_are_on().then(|| cuda_tensor(tensor)).flatten()
}

fn norm<B: Backend>(norm: &Norm<'_, B>) -> Option<decode::Norm> {
    Some(decode::Norm { weight: for_kernel(norm.weight)?, eps: norm.eps })
}

fn cache<B: Backend>(stored: &Stored<'_, B>) -> Option<decode::Cache> {
    let (keys, values) = (for_kernel(stored.keys)?, for_kernel(stored.values)?);
    Some(decode::Cache { keys, values, position: stored.position })
}

fn prepared<B: Backend>(preparation: &Preparation<'_, B>) -> Option<decode::Preparation> {
    let Preparation { query, key, cosines, sines } = preparation;
    Some(decode::Preparation {
        query: norm(query)?,
        key: norm(key)?,
        cosines: for_kernel(cosines)?,
        sines: for_kernel(sines)?,
    })
}

/// See [`try_store_positions`](crate::try_store_positions).
pub(crate) fn store_positions<B: Backend>(
    [query, key, value]: [&Tensor<B, 3>; 3],
    preparation: Option<Preparation<'_, B>>,
    stored: &Stored<'_, B>,
) -> Option<Tensor<B, 4>> {
    let preparation = if_any(preparation.as_ref(), prepared)?;
    let projected = [for_kernel(query)?, for_kernel(key)?, for_kernel(value)?];
    into_tensor(decode::store_positions(projected, preparation, &cache(stored)?)?)
}

/// See [`try_add`](crate::try_add).
pub(crate) fn add<B: Backend, const D: usize>(a: &Tensor<B, D>, b: &Tensor<B, D>) -> Option<Tensor<B, D>> {
    into_tensor(decode::joined(for_kernel(a)?, for_kernel(b)?, decode::Joint::Sum)?)
}

/// See [`try_gate`](crate::try_gate).
pub(crate) fn gate<B: Backend, const D: usize>(gate: &Tensor<B, D>, up: &Tensor<B, D>) -> Option<Tensor<B, D>> {
    into_tensor(decode::joined(for_kernel(gate)?, for_kernel(up)?, decode::Joint::Gate)?)
}

/// See [`try_attention_weights`](crate::try_attention_weights).
pub(crate) fn attention_weights<B: Backend, const D: usize>(
    query: &Tensor<B, D>,
    key: &Tensor<B, D>,
    scale: f32,
    causal: Option<(usize, usize)>,
) -> Option<Tensor<B, D>> {
    let (query, key) = (for_kernel(query)?, for_kernel(key)?);
    let scores = product::multiply(query, key, DType::F32, Added::default(), None)?;
    into_tensor(decode::softmax(scores, scale, causal)?)
}

/// See [`try_read_positions`](crate::try_read_positions).
pub(crate) fn read_positions<B: Backend>(
    x: &Tensor<B, 3>,
    before: Norm<'_, B>,
    [query, key, value]: [&Tensor<B, 2>; 3],
    preparation: Option<Preparation<'_, B>>,
    stored: &Stored<'_, B>,
) -> Option<Tensor<B, 4>> {
    let preparation = if_any(preparation.as_ref(), prepared)?;
    let projections = [for_kernel(query)?, for_kernel(key)?, for_kernel(value)?];
    into_tensor(decode::read_positions(for_kernel(x)?, norm(&before)?, projections, preparation, &cache(stored)?)?)
}

/// See [`try_attend_newest`](crate::try_attend_newest).
pub(crate) fn attend_newest<B: Backend>(
    x: &Tensor<B, 3>,
    before: Norm<'_, B>,
    [query, key, value]: [&Tensor<B, 2>; 3],
    preparation: Option<Preparation<'_, B>>,
    stored: &Stored<'_, B>,
) -> Option<Tensor<B, 3>> {
    let preparation = if_any(preparation.as_ref(), prepared)?;
    let projections = [for_kernel(query)?, for_kernel(key)?, for_kernel(value)?];
    into_tensor(decode::attend_newest(for_kernel(x)?, norm(&before)?, projections, preparation, &cache(stored)?)?)
}

/// See [`try_attend_stored`](crate::try_attend_stored).
pub(crate) fn attend_stored<B: Backend>(queries: &Tensor<B, 4>, stored: &Stored<'_, B>) -> Option<Tensor<B, 3>> {
    into_tensor(decode::attend(for_kernel(queries)?, &cache(stored)?)?)
}

/// See [`try_gated`](crate::try_gated).
pub(crate) fn gated<B: Backend>(
    x: &Tensor<B, 3>,
    before: Norm<'_, B>,
    gate: &Tensor<B, 2>,
    up: &Tensor<B, 2>,
) -> Option<Tensor<B, 3>> {
    into_tensor(decode::gated(for_kernel(x)?, norm(&before)?, for_kernel(gate)?, for_kernel(up)?)?)
}

/// See [`try_linear_added`](crate::try_linear_added).
pub(crate) fn linear_added<B: Backend, const D: usize>(
    x: &Tensor<B, D>,
    weight: &Tensor<B, 2>,
    residual: Option<&Tensor<B, D>>,
) -> Option<Tensor<B, D>> {
    let residual = if_any(residual, for_kernel)?;
    into_tensor(decode::linear_added(for_kernel(x)?, for_kernel(weight)?, residual)?)
}

/// See [`try_rms_norm`](crate::try_rms_norm).
pub(crate) fn rms_norm<B: Backend, const D: usize>(x: &Tensor<B, D>, before: Norm<'_, B>) -> Option<Tensor<B, D>> {
    into_tensor(decode::normalise(for_kernel(x)?, norm(&before)?)?)
}

/// See [`try_draw`](crate::try_draw).
pub(crate) fn draw<B: Backend>(
    logits: &Tensor<B, 2>,
    exponentials: &Tensor<B, 1>,
    outcome: &Tensor<B, 1, Int>,
    draw: Draw,
) -> Option<Tensor<B, 2, Int>> {
    into_int_tensor(decode::draw(for_kernel(logits)?, for_kernel(exponentials)?, int_tensor(outcome)?, draw)?)
}

/// See [`try_layer_norm`](crate::try_layer_norm).
pub(crate) fn layer_norm<B: Backend, const D: usize>(
    x: &Tensor<B, D>,
    weight: &Tensor<B, 1>,
    bias: &Tensor<B, 1>,
    eps: f32,
) -> Option<Tensor<B, D>> {
    into_tensor(decode::layer_norm(for_kernel(x)?, for_kernel(weight)?, for_kernel(bias)?, eps)?)
}

/// See [`try_gate_halves`](crate::try_gate_halves).
pub(crate) fn gate_halves<B: Backend>(halves: &Tensor<B, 3>) -> Option<Tensor<B, 3>> {
    into_tensor(decode::gate_halves(for_kernel(halves)?, None)?)
}

/// See [`try_gated_linear`](crate::try_gated_linear).
pub(crate) fn gated_linear<B: Backend>(
    x: &Tensor<B, 2>,
    weight: &Tensor<B, 2>,
    bias: &Tensor<B, 1>,
) -> Option<Tensor<B, 2>> {
    into_tensor(product::gated_linear(for_kernel(x)?, for_kernel(weight)?, for_kernel(bias)?)?)
}

/// See [`try_attend`](crate::try_attend).
pub(crate) fn attend<B: Backend>(
    query: &Tensor<B, 4>,
    key: &Tensor<B, 4>,
    value: &Tensor<B, 4>,
    scale: f32,
) -> Option<Tensor<B, 4>> {
    into_tensor(attention::attend(for_kernel(query)?, for_kernel(key)?, for_kernel(value)?, scale)?)
}

/// See [`try_attend_projected`](crate::try_attend_projected).
pub(crate) fn attend_projected<B: Backend>(
    x: &Tensor<B, 3>,
    [query, key, value]: [&Tensor<B, 2>; 3],
    count: usize,
    [cosines, sines]: [&Tensor<B, 2>; 2],
) -> Option<Tensor<B, 3>> {
    let weights = [for_kernel(query)?, for_kernel(key)?, for_kernel(value)?];
    let heads = attention::Heads { weights, count, tables: [for_kernel(cosines)?, for_kernel(sines)?] };
    into_tensor(attention::attend_projected(for_kernel(x)?, heads)?)
}

/// See [`try_join_rows`](crate::try_join_rows).
pub(crate) fn join_rows<B: Backend>([a, b, c]: [&Tensor<B, 2>; 3]) -> Option<[Tensor<B, 2>; 3]> {
    let [a, b, c] = join::join([for_kernel(a)?, for_kernel(b)?, for_kernel(c)?])?;
    Some([into_tensor(a)?, into_tensor(b)?, into_tensor(c)?])
}

/// See [`try_conv1d`](crate::try_conv1d).
pub(crate) fn conv1d<B: Backend>(
    x: &Tensor<B, 3>,
    weight: &Tensor<B, 3>,
    bias: Option<&Tensor<B, 1>>,
    residual: Option<&Tensor<B, 3>>,
    geometry: [usize; 2],
) -> Option<Tensor<B, 3>> {
    let kernel = conv::Kernel { weight: for_kernel(weight)?, bias: if_any(bias, for_kernel)? };
    into_tensor(conv::conv1d(for_kernel(x)?, &kernel, if_any(residual, for_kernel)?, geometry)?)
}

/// See [`try_conv_transpose1d`](crate::try_conv_transpose1d).
pub(crate) fn conv_transpose1d<B: Backend>(
    x: &Tensor<B, 3>,
    weight: &Tensor<B, 3>,
    bias: Option<&Tensor<B, 1>>,
    geometry: [usize; 2],
) -> Option<Tensor<B, 3>> {
    let weight = for_kernel(weight)?;
    let bias = bias.map(|bias| bias.clone().repeat(&[geometry[0]]));
    let kernel = conv::Kernel { weight, bias: if_any(bias.as_ref(), for_kernel)? };
    into_tensor(conv::conv_transpose1d(for_kernel(x)?, &kernel, geometry)?)
}

/// See [`try_rotate_heads`](crate::try_rotate_heads).
pub(crate) fn rotate_heads<B: Backend>(
    x: &Tensor<B, 3>,
    heads: usize,
    [cosines, sines]: [&Tensor<B, 2>; 2],
) -> Option<Tensor<B, 4>> {
    into_tensor(decode::rotate_heads(for_kernel(x)?, heads, [for_kernel(cosines)?, for_kernel(sines)?])?)
}

/// See [`try_snake`](crate::try_snake).
pub(crate) fn snake<B: Backend>(x: &Tensor<B, 3>, alpha: &Tensor<B, 3>, eps: f32) -> Option<Tensor<B, 3>> {
    into_tensor(decode::snake(for_kernel(x)?, for_kernel(alpha)?, eps)?)
}

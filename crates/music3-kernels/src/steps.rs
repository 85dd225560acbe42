//! Steps of a decoder: a few new positions at a time, over a cache that was allocated once.
//!
//! Offered on the unfused burn-cuda for bf16 tensors, and those of the acoustic half on burn-flex too.
//! Each function rounds where the plain ops round.

use burn::tensor::{Tensor, backend::Backend};

/// RMSNorm's parameters.
#[derive(Debug)]
pub struct Norm<'a, B: Backend> {
    /// `[channels]`
    pub weight: &'a Tensor<B, 1>,
    /// Added to the mean square.
    pub eps: f32,
}

/// How queries and keys are prepared before they are compared: RMSNorm per head, then a half-split rotation.
#[derive(Debug)]
pub struct Preparation<'a, B: Backend> {
    /// For queries, `[head_dim]`.
    pub query: Norm<'a, B>,
    /// For keys, `[head_dim]`.
    pub key: Norm<'a, B>,
    /// Of the new positions, `[tokens, head_dim]`.
    pub cosines: &'a Tensor<B, 2>,
    /// Of the new positions, `[tokens, head_dim]`.
    pub sines: &'a Tensor<B, 2>,
}

/// The stored keys and values of a layer, and where the new positions begin.
#[derive(Debug)]
pub struct Stored<'a, B: Backend> {
    /// `[batch, kv_heads, capacity, head_dim]`
    pub keys: &'a Tensor<B, 4>,
    /// `[batch, kv_heads, capacity, head_dim]`
    pub values: &'a Tensor<B, 4>,
    /// Positions stored before the new ones.
    pub position: usize,
}

/// Normalises `x`, projects it to queries, keys and values, prepares the first two where asked, and writes keys and
/// values **in place** into the tensors of `stored`; returns the queries.
///
/// # Shapes
/// `x` `[batch, tokens, hidden]`, projections `[heads·head_dim, hidden]` → `[batch, tokens, heads, head_dim]`
pub fn try_read_positions<B: Backend>(
    x: &Tensor<B, 3>,
    norm: Norm<'_, B>,
    projections: [&Tensor<B, 2>; 3],
    preparation: Option<Preparation<'_, B>>,
    stored: &Stored<'_, B>,
) -> Option<Tensor<B, 4>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::read_positions(x, norm, projections, preparation, stored);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (x, norm, projections, preparation, stored);
        None
    }
}

/// Does what [`try_read_positions`] and [`try_attend_stored`] do, for one new position of each sequence.
///
/// # Shapes
/// `x` `[batch, 1, hidden]`, projections `[heads·head_dim, hidden]` → `[batch, 1, heads·head_dim]`
pub fn try_attend_newest<B: Backend>(
    x: &Tensor<B, 3>,
    norm: Norm<'_, B>,
    projections: [&Tensor<B, 2>; 3],
    preparation: Option<Preparation<'_, B>>,
    stored: &Stored<'_, B>,
) -> Option<Tensor<B, 3>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::attend_newest(x, norm, projections, preparation, stored);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (x, norm, projections, preparation, stored);
        None
    }
}

/// Returns attention of the newest positions over all stored ones up to their own, as torch's MATH kernel computes it.
///
/// # Shapes
/// `queries` `[batch, tokens, heads, head_dim]` → `[batch, tokens, heads·head_dim]`
pub fn try_attend_stored<B: Backend>(queries: &Tensor<B, 4>, stored: &Stored<'_, B>) -> Option<Tensor<B, 3>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::attend_stored(queries, stored);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (queries, stored);
        None
    }
}

/// Returns `silu(gate · n) ⊙ (up · n)` of the normalised `n`: products, `silu` and the last product each round.
///
/// # Shapes
/// `x` `[batch, tokens, hidden]`, weights `[intermediate, hidden]` → `[batch, tokens, intermediate]`
pub fn try_gated<B: Backend>(
    x: &Tensor<B, 3>,
    norm: Norm<'_, B>,
    gate: &Tensor<B, 2>,
    up: &Tensor<B, 2>,
) -> Option<Tensor<B, 3>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::gated(x, norm, gate, up);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (x, norm, gate, up);
        None
    }
}

/// Returns `x · weightᵀ`, rounded, plus `residual`, rounded again, where there is one. For a few rows only: each weight
/// is read once, and a row's sum does not depend on the other rows.
///
/// # Shapes
/// `x` `[…, inner]`, `weight` `[outputs, inner]`, `residual` and result `[…, outputs]`, the residual perhaps with a first
/// dimension of one, for all of the batch
pub fn try_linear_added<B: Backend, const D: usize>(
    x: &Tensor<B, D>,
    weight: &Tensor<B, 2>,
    residual: Option<&Tensor<B, D>>,
) -> Option<Tensor<B, D>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::linear_added(x, weight, residual);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (x, weight, residual);
        None
    }
}

/// Returns RMSNorm over the last dimension, rounded after the normalisation and after the weight.
pub fn try_rms_norm<B: Backend, const D: usize>(x: &Tensor<B, D>, norm: Norm<'_, B>) -> Option<Tensor<B, D>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::rms_norm(x, norm);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (x, norm);
        None
    }
}

/// As [`try_read_positions`], of any number of positions whose queries, keys and values were projected before.
///
/// # Shapes
/// `projected` `[batch, tokens, heads·head_dim]`, keys and values with their own heads → `[batch, tokens, heads, head_dim]`
pub fn try_store_positions<B: Backend>(
    projected: [&Tensor<B, 3>; 3],
    preparation: Option<Preparation<'_, B>>,
    stored: &Stored<'_, B>,
) -> Option<Tensor<B, 4>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::store_positions(projected, preparation, stored);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (projected, preparation, stored);
        None
    }
}

/// Returns `a + b` of two bf16 tensors of one shape, rounded.
pub fn try_add<B: Backend, const D: usize>(a: &Tensor<B, D>, b: &Tensor<B, D>) -> Option<Tensor<B, D>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::add(a, b);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (a, b);
        None
    }
}

/// Returns `silu(gate) ⊙ up` of two bf16 tensors of one shape; `silu` and the product round.
pub fn try_gate<B: Backend, const D: usize>(gate: &Tensor<B, D>, up: &Tensor<B, D>) -> Option<Tensor<B, D>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::gate(gate, up);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (gate, up);
        None
    }
}

/// Returns the weights of attention: the softmax of `scale · query · key` over the last dimension, in f32. With
/// `(first, queries)`, row `r` sees the keys up to number `first + r % queries`.
///
/// # Shapes
/// `query` `[..., rows, head_dim]`, `key` `[..., head_dim, keys]`, both f32 or both bf16 → `[..., rows, keys]`
pub fn try_attention_weights<B: Backend, const D: usize>(
    query: &Tensor<B, D>,
    key: &Tensor<B, D>,
    scale: f32,
    causal: Option<(usize, usize)>,
) -> Option<Tensor<B, D>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::attention_weights(query, key, scale, causal);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (query, key, scale, causal);
        None
    }
}

/// Returns LayerNorm over the last dimension of f32 or bf16 rows; the result rounds once.
pub fn try_layer_norm<B: Backend, const D: usize>(
    x: &Tensor<B, D>,
    weight: &Tensor<B, 1>,
    bias: &Tensor<B, 1>,
    eps: f32,
) -> Option<Tensor<B, D>> {
    #[cfg(feature = "flex")]
    if let Some(y) = crate::flex::layer_norm(x, weight, bias, eps) {
        return Some(y);
    }
    #[cfg(feature = "cuda")]
    return crate::cuda::layer_norm(x, weight, bias, eps);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (x, weight, bias, eps);
        None
    }
}

/// Returns `value ⊙ silu(gate)` of f32 or bf16 rows that hold the value half first; `silu` and the product round.
///
/// # Shapes
/// `[batch, tokens, 2·half]` → `[batch, tokens, half]`
pub fn try_gate_halves<B: Backend>(halves: &Tensor<B, 3>) -> Option<Tensor<B, 3>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::gate_halves(halves);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = halves;
        None
    }
}

/// Returns `value ⊙ silu(gate)` of `x · weightᵀ + bias`, whose rows hold the value half first; the product, `silu` and the
/// result round.
///
/// # Shapes
/// `x` `[rows, in]`, `weight` `[2·half, in]`, `bias` `[2·half]` → `[rows, half]`
pub fn try_gated_linear<B: Backend>(
    x: &Tensor<B, 2>,
    weight: &Tensor<B, 2>,
    bias: &Tensor<B, 1>,
) -> Option<Tensor<B, 2>> {
    #[cfg(feature = "flex")]
    if let Some(y) = crate::flex::gated_linear(x, weight, bias) {
        return Some(y);
    }
    #[cfg(feature = "cuda")]
    return crate::cuda::gated_linear(x, weight, bias);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (x, weight, bias);
        None
    }
}

/// Returns heads in their own layout, the first values of each rotated by cosines and sines `[tokens, rotary_dim]`, half
/// against half, where both products and the sum round.
///
/// # Shapes
/// `x` `[batch, tokens, heads·head_dim]` → `[batch, heads, tokens, head_dim]`
pub fn try_rotate_heads<B: Backend>(
    x: &Tensor<B, 3>,
    heads: usize,
    tables: [&Tensor<B, 2>; 2],
) -> Option<Tensor<B, 4>> {
    #[cfg(feature = "flex")]
    if let Some(y) = crate::flex::rotate_heads(x, heads, tables) {
        return Some(y);
    }
    #[cfg(feature = "cuda")]
    return crate::cuda::rotate_heads(x, heads, tables);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (x, heads, tables);
        None
    }
}

/// Returns attention of every query over all keys of its head, f32 inside and rounded once.
///
/// # Shapes
/// `query` `[batch, heads, queries, head_dim]`, `key` and `value` `[batch, heads, keys, head_dim]` → as `query`
pub fn try_attend<B: Backend>(
    query: &Tensor<B, 4>,
    key: &Tensor<B, 4>,
    value: &Tensor<B, 4>,
    scale: f32,
) -> Option<Tensor<B, 4>> {
    #[cfg(feature = "flex")]
    if let Some(y) = crate::flex::attend(query, key, value, scale) {
        return Some(y);
    }
    #[cfg(feature = "cuda")]
    return crate::cuda::attend(query, key, value, scale);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (query, key, value, scale);
        None
    }
}

/// Returns attention of hidden states over themselves: queries, keys and values through `weights`, taken apart into heads, queries
/// and keys rotated as [`try_rotate_heads`] does, attention as [`try_attend`] computes it. Faster where [`try_join_rows`] joined
/// the weights. For heads of a multiple of 16 values, at most 64.
///
/// # Shapes
/// `x` `[batch, tokens, dim]`, three weights `[heads·head_dim, dim]`, two tables `[tokens, rotary_dim]` →
/// `[batch, tokens, heads·head_dim]`
pub fn try_attend_projected<B: Backend>(
    x: &Tensor<B, 3>,
    weights: [&Tensor<B, 2>; 3],
    heads: usize,
    tables: [&Tensor<B, 2>; 2],
) -> Option<Tensor<B, 3>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::attend_projected(x, weights, heads, tables);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (x, weights, heads, tables);
        None
    }
}

/// Returns the same matrices in one piece of memory, so that one product reads them all; `None` too where they lie so already.
///
/// # Shapes
/// three times `[rows, columns]` → the same
///
/// # Panics
/// If the device has no memory for them.
pub fn try_join_rows<B: Backend>(matrices: [&Tensor<B, 2>; 3]) -> Option<[Tensor<B, 2>; 3]> {
    #[cfg(feature = "cuda")]
    return crate::cuda::join_rows(matrices);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = matrices;
        None
    }
}

/// Returns a convolution that keeps the length, its geometry being padding and dilation, plus a residual where there is one;
/// the convolution, its bias included, and the sum round. On CUDA positions lie in rows of channels afterwards. For large inputs only.
///
/// # Shapes
/// `x` `[batch, in, len]`, `weight` `[out, in, taps]`, `bias` `[out]`, `residual` and result `[batch, out, len]`
pub fn try_conv1d<B: Backend>(
    x: &Tensor<B, 3>,
    weight: &Tensor<B, 3>,
    bias: Option<&Tensor<B, 1>>,
    residual: Option<&Tensor<B, 3>>,
    geometry: [usize; 2],
) -> Option<Tensor<B, 3>> {
    #[cfg(feature = "flex")]
    if let Some(y) = crate::flex::conv1d(x, weight, bias, residual, geometry) {
        return Some(y);
    }
    #[cfg(feature = "cuda")]
    return crate::cuda::conv1d(x, weight, bias, residual, geometry);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (x, weight, bias, residual, geometry);
        None
    }
}

/// Returns a transposed convolution whose kernel is twice its stride, its geometry being stride and padding; bias included in
/// the one rounding. On CUDA positions lie in rows of channels afterwards. For large inputs only.
///
/// # Shapes
/// `x` `[batch, in, len]`, `weight` `[in, out, 2·stride]`, `bias` `[out]` → `[batch, out, (len + 1)·stride − 2·padding]`
pub fn try_conv_transpose1d<B: Backend>(
    x: &Tensor<B, 3>,
    weight: &Tensor<B, 3>,
    bias: Option<&Tensor<B, 1>>,
    geometry: [usize; 2],
) -> Option<Tensor<B, 3>> {
    #[cfg(feature = "flex")]
    if let Some(y) = crate::flex::conv_transpose1d(x, weight, bias, geometry) {
        return Some(y);
    }
    #[cfg(feature = "cuda")]
    return crate::cuda::conv_transpose1d(x, weight, bias, geometry);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (x, weight, bias, geometry);
        None
    }
}

/// Returns `x + sin²(alpha · x) / (alpha + eps)` of f32 or bf16 values, where every op rounds. `eps` is added as it is given:
/// the caller rounds it as torch rounds a scalar of a sum.
///
/// # Shapes
/// `x` `[batch, channels, len]`, `alpha` `[1, channels, 1]` → as `x`
pub fn try_snake<B: Backend>(x: &Tensor<B, 3>, alpha: &Tensor<B, 3>, eps: f32) -> Option<Tensor<B, 3>> {
    #[cfg(feature = "flex")]
    if let Some(y) = crate::flex::snake(x, alpha, eps) {
        return Some(y);
    }
    #[cfg(feature = "cuda")]
    return crate::cuda::snake(x, alpha, eps);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (x, alpha, eps);
        None
    }
}

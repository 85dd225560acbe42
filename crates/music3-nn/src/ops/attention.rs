//! Attention in the form of torch's MATH kernel.

use burn::tensor::{Tensor, TensorData, backend::Backend};

use super::{product::product, round, softmax, widen};
use crate::Width;

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionMask {
    /// All of them.
    Full,
    /// Those up to its own position; the last query is at the last key's position.
    Causal,
}

/// Scores held at once: above this the queries are taken in blocks, which changes no value.
const MAX_SCORES: usize = 1 << 26;

/// Returns attention as torch's MATH kernel computes it: query, key and value widened to f32, scores, scale, mask,
/// softmax and the product with the values in f32, one rounding at the end. The scale `head_dim^-1/2` is split evenly
/// over query and key, as torch does.
///
/// Key and value heads may be fewer than query heads (grouped queries); they are never repeated.
///
/// # Shapes
/// `query` `[batch, heads, queries, head_dim]`, `key` and `value` `[batch, kv_heads, keys, head_dim]` →
/// `[batch, heads, queries, head_dim]`.
pub fn scaled_dot_product_attention<B: Backend>(
    query: Tensor<B, 4>,
    key: Tensor<B, 4>,
    value: Tensor<B, 4>,
    mask: AttentionMask,
    width: Width,
) -> Tensor<B, 4> {
    let [batch, heads, queries, head_dim] = query.dims();
    let [_, kv_heads, keys, _] = key.dims();
    let scale = (1.0 / (head_dim as f64).sqrt()) as f32;
    if mask == AttentionMask::Full
        && query.dtype() == width.store_dtype::<B>(&query.device())
        && let Some(attended) = music3_kernels::try_attend(&query, &key, &value, scale)
    {
        return attended;
    }
    let groups = heads / kv_heads;
    let value = widen(value);
    let transposed = key.clone().swap_dims(2, 3);
    // The plain form scales both operands, as torch does.
    let root_scale = (1.0 / (head_dim as f64).sqrt()).sqrt() as f32;
    let scaled = |x: Tensor<B, 4>| widen(x).mul_scalar(root_scale);

    let block = (MAX_SCORES / (batch * heads * keys)).clamp(1, queries);
    let mut outputs = Vec::with_capacity(queries.div_ceil(block));
    for start in (0..queries).step_by(block) {
        let len = block.min(queries - start);
        let rows = query.clone().narrow(2, start, len).reshape([batch, kv_heads, groups * len, head_dim]);
        let first = keys - queries + start;
        let causal = (mask == AttentionMask::Causal && queries > 1).then_some((first, len));
        let weights = match music3_kernels::try_attention_weights(&rows, &transposed, scale, causal) {
            Some(weights) => weights,
            None => {
                let mut scores = product(scaled(rows), scaled(key.clone()).swap_dims(2, 3));
                if causal.is_some() {
                    let bias = causal_bias(first, len, keys, &scores.device());
                    scores = (scores.reshape([batch, heads, len, keys]) + bias).reshape([
                        batch,
                        kv_heads,
                        groups * len,
                        keys,
                    ]);
                }
                softmax(scores, 3, Width::F32)
            }
        };
        outputs.push(product(weights, value.clone()).reshape([batch, heads, len, head_dim]));
    }
    let output = if outputs.len() == 1 { outputs.remove(0) } else { Tensor::cat(outputs, 2) };
    round(output, width)
}

/// Returns zero where query `i` (at position `first + i`) sees the key, minus infinity where it does not.
fn causal_bias<B: Backend>(first: usize, queries: usize, keys: usize, device: &B::Device) -> Tensor<B, 4> {
    let mut bias = vec![0.0f32; queries * keys];
    for (query, row) in bias.chunks_exact_mut(keys).enumerate() {
        row[(first + query + 1).min(keys)..].fill(f32::NEG_INFINITY);
    }
    Tensor::from_data(TensorData::new(bias, [1, 1, queries, keys]), (device, burn::tensor::DType::F32))
}

//! Attention over whole sequences: from hidden states in tiles, or over heads that are there already, as two library products
//! with a softmax between them.

use burn::tensor::DType;
use burn_cubecl::kernel::into_contiguous;

use super::{
    CudaTensor, converted, decode, empty, join, lt,
    product::{Added, multiply, transposed},
};
use crate::Matmul;

/// Scores held at once.
const MAX_SCORES: usize = 1 << 26;

/// Rows of scores begin so many values apart, so that vectors of them can be loaded.
const ROW: usize = 16;

/// What makes heads of hidden states.
pub(super) struct Heads {
    /// Weights of queries, keys and values, `[heads·head_dim, dim]`.
    pub(super) weights: [CudaTensor; 3],
    pub(super) count: usize,
    /// Cosines and sines, `[tokens, rotary_dim]`.
    pub(super) tables: [CudaTensor; 2],
}

/// Returns attention of `[batch, tokens, dim]` over itself, `[batch, tokens, heads·head_dim]`: one product for queries, keys and
/// values where their weights were joined, and no scores in memory. `None` where heads do not divide into tiles.
pub(super) fn attend_projected(x: CudaTensor, heads: Heads) -> Option<CudaTensor> {
    let [batch, tokens, dim] = *x.meta.shape().as_slice() else { return None };
    let Heads { weights, count, tables } = heads;
    let [width, inner] = *weights[0].meta.shape().as_slice() else { return None };
    let fits = inner == dim
        && count > 0
        && width.is_multiple_of(count)
        && decode::can_attend_in_tiles(width / count)
        && weights.iter().all(|weight| weight.dtype == x.dtype && weight.meta.shape().as_slice() == [width, dim])
        && matches!(x.dtype, DType::F32 | DType::BF16)
        && lt::is_available();
    if !fits {
        return None;
    }
    let projected = empty(&x, vec![batch * tokens, 3 * width], x.dtype);
    let rows = reshaped(into_contiguous(x), vec![batch * tokens, dim]);
    match join::joined(&weights) {
        Some(whole) => {
            drop(multiply(rows, transposed(whole), projected.dtype, Added::default(), Some(projected.clone()))?)
        }
        None => {
            for (index, weight) in weights.into_iter().enumerate() {
                let columns = columns(&projected, index * width, width);
                multiply(rows.clone(), transposed(weight), projected.dtype, Added::default(), Some(columns))?;
            }
        }
    }
    let parts = parts(projected.dtype);
    let projected = reshaped(projected, vec![batch, tokens, 3 * width]);
    let taken_apart = decode::take_heads_apart(projected, count, tables, parts)?;
    let scale = (1.0 / ((width / count) as f64).sqrt()) as f32;
    let attended = decode::attend_in_tiles(taken_apart.each_ref().map(Vec::as_slice), scale)?;
    Some(reshaped(attended, vec![batch, tokens, width]))
}

/// Returns in how many bf16 parts an operand is multiplied: f32 in more than its mode asks for, because two parts are more exact
/// than TF32, and three as exact as f32.
fn parts(dtype: DType) -> usize {
    match (dtype, Matmul::current()) {
        (DType::BF16, _) => 1,
        (_, Matmul::Tf32) => 2,
        (_, Matmul::Split | Matmul::Strict) => 3,
    }
}

/// Contiguous memory as a tensor of another shape.
fn reshaped(x: CudaTensor, shape: Vec<usize>) -> CudaTensor {
    CudaTensor::new_contiguous(x.client, x.device, shape.into(), x.handle, x.dtype)
}

/// A view of so many columns of a contiguous matrix from `start` on.
fn columns(matrix: &CudaTensor, start: usize, len: usize) -> CudaTensor {
    let mut view = matrix.clone();
    view.handle = view.handle.offset_start((start * matrix.dtype.size()) as u64);
    view.meta.shape_mut()[1] = len;
    view
}

/// Returns attention of every query over all keys: scores, softmax and the product with the values in f32, one rounding at
/// the end. The result is a view of rows `[batch, queries, heads·head_dim]`.
pub(super) fn attend(query: CudaTensor, key: CudaTensor, value: CudaTensor, scale: f32) -> Option<CudaTensor> {
    let [batch, heads, queries, head_dim] = *query.meta.shape().as_slice() else { return None };
    let [_, _, keys, _] = *key.meta.shape().as_slice() else { return None };
    let row = keys.next_multiple_of(ROW);
    let expected = [batch, heads, keys, head_dim];
    let fits =
        [&key, &value].iter().all(|tensor| tensor.dtype == query.dtype && tensor.meta.shape().as_slice() == expected)
            && matches!(query.dtype, DType::F32 | DType::BF16)
            && batch * heads * queries * row <= MAX_SCORES
            && lt::is_available();
    if !fits {
        return None;
    }
    let dtype = query.dtype;
    // As torch does, whose roundings of both are larger than those of the scores' sums.
    let root = scale.sqrt();
    let (query, key) = (decode::scaled(query, root)?, decode::scaled(key, root)?);
    let scores = empty(&query, vec![batch, heads, queries, row], DType::F32);
    let mut of_keys = scores.clone();
    of_keys.meta.shape_mut()[3] = keys;
    let of_keys = multiply(query, transposed(key), DType::F32, Added::default(), Some(of_keys))?;
    decode::softmax_in_place(&scores, keys)?;
    let out = empty(&scores, vec![batch, queries, heads * head_dim], DType::F32);
    let value = if dtype == DType::F32 { value } else { converted(value, DType::F32) };
    multiply(of_keys, value, DType::F32, Added::default(), Some(decode::headed(out.clone(), heads)))?;
    Some(decode::headed(converted(out, dtype), heads))
}

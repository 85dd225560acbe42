//! Attention over whole sequences, over heads where they lie: in tiles, or as two library products with a softmax between
//! them.

use burn::tensor::DType;

use super::{
    CudaTensor, converted, decode, empty, lt,
    product::{Added, multiply, transposed},
    split,
};
use crate::Matmul;

/// Scores held at once.
const MAX_SCORES: usize = 1 << 26;

/// Rows of scores begin so many values apart, so that vectors of them can be loaded.
const ROW: usize = 16;

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
    if decode::can_attend_in_tiles(head_dim)
        && let Some(count) = parts(query.dtype)
    {
        let operands = [&query, &key, &value].map(|tensor| match count {
            1 => vec![tensor.clone()],
            count => split::parts(tensor, decode::reach(tensor))[..count].to_vec(),
        });
        if let Some(attended) = decode::attend_in_tiles(operands.each_ref().map(Vec::as_slice), scale) {
            return Some(attended);
        }
    }
    if batch * heads * queries * row > MAX_SCORES || !lt::is_available() {
        return None;
    }
    let dtype = query.dtype;
    let scores = empty(&query, vec![batch, heads, queries, row], DType::F32);
    let mut of_keys = scores.clone();
    of_keys.meta.shape_mut()[3] = keys;
    let of_keys = multiply(query, transposed(key), DType::F32, Added::default(), Some(of_keys))?;
    decode::softmax_in_place(&scores, scale, keys)?;
    let out = empty(&scores, vec![batch, queries, heads * head_dim], DType::F32);
    let value = if dtype == DType::F32 { value } else { converted(value, DType::F32) };
    multiply(of_keys, value, DType::F32, Added::default(), Some(decode::headed(out.clone(), heads)))?;
    Some(decode::headed(converted(out, dtype), heads))
}

/// Returns in how many bf16 parts an operand is multiplied: f32 in more than its mode asks for, because two parts are more exact
/// than TF32, and in none where f32 is multiplied as f32.
fn parts(dtype: DType) -> Option<usize> {
    match (dtype, Matmul::current()) {
        (DType::BF16, _) => Some(1),
        (_, Matmul::Tf32) => Some(2),
        (_, Matmul::Split) => Some(3),
        (_, Matmul::Strict) => None,
    }
}

//! Ops that move values without computing: exact in every width.

use burn::tensor::{Int, Tensor, TensorData, backend::Backend};

/// Returns the rows of `table` that `ids` name.
///
/// # Shapes
/// `ids` `[batch, tokens]`, `table` `[rows, hidden]` → `[batch, tokens, hidden]`.
pub fn embedding<B: Backend>(ids: Tensor<B, 2, Int>, table: Tensor<B, 2>) -> Tensor<B, 3> {
    let [batch, tokens] = ids.dims();
    let [_, hidden] = table.dims();
    table.select(0, ids.reshape([batch * tokens])).reshape([batch, tokens, hidden])
}

/// Returns `x` resampled along its last dimension to `size` by torch's nearest rule, which is computed in f32:
/// `min(floor(f32(i) · (f32(len) / f32(size))), len − 1)`.
///
/// Exact integer arithmetic gives another index for 13 of the window lengths up to 200 (32 → 110, output 55, say).
///
/// # Shapes
/// `x` `[batch, channels, len]` → `[batch, channels, size]`.
pub fn nearest<B: Backend>(x: Tensor<B, 3>, size: usize) -> Tensor<B, 3> {
    let [_, _, len] = x.dims();
    let scale = len as f32 / size as f32;
    let indices: Vec<i32> =
        (0..size).map(|i| ((i as f32 * scale).floor() as usize).min(len - 1) as i32).collect();
    let indices = Tensor::<B, 1, Int>::from_data(TensorData::from(indices.as_slice()), &x.device());
    x.select(2, indices)
}

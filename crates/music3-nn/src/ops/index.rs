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

/// Returns the slices of `x` along `dim` that `indices` name, in their order: torch's `index_select`, and with the
/// indices of a nearest rule its `interpolate`.
pub fn index_select<B: Backend, const D: usize>(x: Tensor<B, D>, dim: usize, indices: &[usize]) -> Tensor<B, D> {
    let indices: Vec<i32> =
        indices.iter().map(|&index| i32::try_from(index).expect("no dimension is that long")).collect();
    let indices = Tensor::<B, 1, Int>::from_data(TensorData::from(indices.as_slice()), &x.device());
    x.select(dim, indices)
}

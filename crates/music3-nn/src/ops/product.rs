//! Products and weighted sums: wide sums, one rounding at the end, bias included.

use burn::tensor::{Tensor, backend::Backend};

use super::{add, gate_halves, round, widen};
use crate::Width;

/// Returns `x · weightᵀ + bias`, summed in f32 and rounded once; rounding the bias apart would differ in more than a
/// quarter of all bf16 values.
///
/// # Shapes
/// `x` `[..., in]`, `weight` `[out, in]` as upstream stores it, `bias` `[out]` → `[..., out]`.
pub fn linear<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    weight: Tensor<B, 2>,
    bias: Option<Tensor<B, 1>>,
    width: Width,
) -> Tensor<B, D> {
    if bias.is_none()
        && width == Width::Bf16
        && let Some(y) = music3_kernels::try_linear_added(&x, &weight, None)
    {
        return y;
    }
    if let Some(y) = library_linear(&x, &weight, bias.as_ref(), None, width) {
        return y;
    }
    let mut dims = x.dims();
    let [out, inner] = weight.dims();
    let rows = dims[..D - 1].iter().product();
    dims[D - 1] = out;
    let x: Tensor<B, 2> = x.reshape([rows, inner]);
    let mut y = match music3_kernels::try_linear_bf16(&x, &weight) {
        Some(y) => y,
        None => product(x, weight.transpose()),
    };
    if let Some(bias) = bias {
        y = y + widen(bias).unsqueeze();
    }
    round(y, width).reshape(dims)
}

/// Returns `residual + (x · weightᵀ + bias)`, where what is in brackets rounds before the sum.
///
/// # Shapes
/// `x` `[..., in]`, `weight` `[out, in]`, `bias` `[out]`, `residual` `[..., out]`, or with a first dimension of one for all of
/// the batch → `[..., out]`.
pub fn linear_added<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    weight: Tensor<B, 2>,
    bias: Option<Tensor<B, 1>>,
    residual: Tensor<B, D>,
    width: Width,
) -> Tensor<B, D> {
    if bias.is_none()
        && width == Width::Bf16
        && let Some(y) = music3_kernels::try_linear_added(&x, &weight, Some(&residual))
    {
        return y;
    }
    if let Some(y) = library_linear(&x, &weight, bias.as_ref(), Some(&residual), width) {
        return y;
    }
    add(residual, linear(x, weight, bias, width), width)
}

/// Returns `value ⊙ silu(gate)` of `x · weightᵀ + bias`, whose rows hold the value half first and the gate half second; the
/// product, `silu` and the result round.
///
/// # Shapes
/// `x` `[batch, tokens, in]`, `weight` `[2·half, in]`, `bias` `[2·half]` → `[batch, tokens, half]`
pub fn gated_linear<B: Backend>(
    x: Tensor<B, 3>,
    weight: Tensor<B, 2>,
    bias: Tensor<B, 1>,
    width: Width,
) -> Tensor<B, 3> {
    let ([batch, tokens, inner], [outputs, _]) = (x.dims(), weight.dims());
    if x.dtype() == width.store_dtype::<B>(&x.device())
        && let Some(y) = music3_kernels::try_gated_linear(&x.clone().reshape([batch * tokens, inner]), &weight, &bias)
    {
        return y.reshape([batch, tokens, outputs / 2]);
    }
    gate_halves(linear(x, weight, Some(bias), width), width)
}

/// Returns what [`linear_added`] does, where a library multiplies and rounds at once.
fn library_linear<B: Backend, const D: usize>(
    x: &Tensor<B, D>,
    weight: &Tensor<B, 2>,
    bias: Option<&Tensor<B, 1>>,
    residual: Option<&Tensor<B, D>>,
    width: Width,
) -> Option<Tensor<B, D>> {
    let mut dims = x.dims();
    let [out, inner] = weight.dims();
    let rows = dims[..D - 1].iter().product();
    dims[D - 1] = out;
    let repeats = residual.is_some_and(|residual| residual.dims() != dims);
    if repeats || x.dtype() != width.store_dtype::<B>(&x.device()) {
        return None;
    }
    let residual = residual.map(|residual| residual.clone().reshape([rows, out]));
    let y = music3_kernels::try_linear(&x.clone().reshape([rows, inner]), weight, bias, residual.as_ref())?;
    Some(y.reshape(dims))
}

/// Returns the product of the last two dimensions, batched over the others.
pub fn matmul<B: Backend, const D: usize>(a: Tensor<B, D>, b: Tensor<B, D>, width: Width) -> Tensor<B, D> {
    round(product(a, b), width)
}

/// Returns the product in f32, not rounded yet: the plain-tensor twin of the kernels' products.
pub(super) fn product<B: Backend, const D: usize>(a: Tensor<B, D>, b: Tensor<B, D>) -> Tensor<B, D> {
    // bf16 operands need no widening where a kernel multiplies them exactly.
    let (a, b) = if a.dtype() == b.dtype() { (a, b) } else { (widen(a), widen(b)) };
    match music3_kernels::try_matmul(&a, &b) {
        Some(product) => product,
        None => widen(a).matmul(widen(b)),
    }
}

/// Returns the sum over `dim`, kept with size one: f32 sum, one rounding.
pub fn sum_dim<B: Backend, const D: usize>(x: Tensor<B, D>, dim: usize, width: Width) -> Tensor<B, D> {
    round(widen(x).sum_dim(dim), width)
}

/// Returns the weighted sum over layers, rounded once.
///
/// # Shapes
/// `x` `[batch, frames, layers, hidden]`, `weights` `[layers]` → `[batch, frames, hidden]`.
///
/// # Source
/// `torch.einsum("blht,l->bht", …)` of upstream's condition encoder.
pub fn mix_layers<B: Backend>(x: Tensor<B, 4>, weights: Tensor<B, 1>, width: Width) -> Tensor<B, 3> {
    let [batch, frames, layers, hidden] = x.dims();
    let weighted = widen(x) * widen(weights).reshape([1, 1, layers, 1]);
    round(weighted.sum_dim(2), width).reshape([batch, frames, hidden])
}

//! Normalisations and softmax.

use burn::tensor::{Tensor, backend::Backend};

use super::{mul, round, widen};
use crate::Width;

/// Returns the RMS normalisation of the last dimension times `weight`, with torch's **two** roundings: the normalised
/// value is rounded before it meets the weight. One rounding would differ in a quarter of all bf16 values.
///
/// # Shapes
/// `x` `[..., channels]`, `weight` `[channels]` → as `x`.
///
/// # Source
/// diffusers `models/normalization.py` `RMSNorm`; transformers `Qwen3RMSNorm` agrees to the bit.
pub fn rms_norm<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    weight: Tensor<B, 1>,
    eps: f32,
    width: Width,
) -> Tensor<B, D> {
    // The kernel rounds to bf16 whatever it reads.
    if width == Width::Bf16
        && let Some(normalised) = music3_kernels::try_rms_norm(&x, music3_kernels::Norm { weight: &weight, eps })
    {
        return normalised;
    }
    let x = widen(x);
    let mean_square = (x.clone() * x.clone()).mean_dim(D - 1);
    let root = mean_square.add_scalar(eps).sqrt();
    let normalised = round(x * (root.ones_like() / root), width);
    mul(normalised, weight.unsqueeze(), width)
}

/// Returns the layer normalisation of the last dimension, f32 inside and rounded once.
///
/// # Shapes
/// `x` `[..., channels]`, `weight` and `bias` `[channels]` → as `x`.
pub fn layer_norm<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    weight: Tensor<B, 1>,
    bias: Tensor<B, 1>,
    eps: f32,
    width: Width,
) -> Tensor<B, D> {
    if x.dtype() == width.store_dtype::<B>(&x.device())
        && let Some(normalised) = music3_kernels::try_layer_norm(&x, &weight, &bias, eps)
    {
        return normalised;
    }
    let x = widen(x);
    let centred = x.clone() - x.mean_dim(D - 1);
    let variance = (centred.clone() * centred.clone()).mean_dim(D - 1);
    let root = variance.add_scalar(eps).sqrt();
    let normalised = centred * (root.ones_like() / root);
    round(normalised * widen(weight).unsqueeze() + widen(bias).unsqueeze(), width)
}

/// Returns the softmax over dimension `dim`, f32 inside and rounded once. In bf16 the result does not sum to one
/// exactly, as in torch.
///
/// Torch computes the last dimension so, and upstream asks for no other; over another one its CPU kernel rounds the
/// exponentials too.
pub fn softmax<B: Backend, const D: usize>(x: Tensor<B, D>, dim: usize, width: Width) -> Tensor<B, D> {
    let x = widen(x);
    let exponentials = (x.clone() - x.max_dim(dim)).exp();
    let sum = exponentials.clone().sum_dim(dim);
    round(exponentials / sum, width)
}

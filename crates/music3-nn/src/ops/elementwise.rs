//! Elementwise ops. Each widens, computes in f32 and rounds once.

use burn::tensor::{Tensor, backend::Backend};

use super::{round, round::round_scalar, widen};
use crate::Width;

/// Returns `a + b`, broadcast.
pub fn add<B: Backend, const D: usize>(a: Tensor<B, D>, b: Tensor<B, D>, width: Width) -> Tensor<B, D> {
    if width == Width::Bf16
        && let Some(sum) = music3_kernels::try_add(&a, &b)
    {
        return sum;
    }
    round(widen(a) + widen(b), width)
}

/// Returns `a - b`, broadcast.
pub fn sub<B: Backend, const D: usize>(a: Tensor<B, D>, b: Tensor<B, D>, width: Width) -> Tensor<B, D> {
    round(widen(a) - widen(b), width)
}

/// Returns `a · b` elementwise, broadcast.
pub fn mul<B: Backend, const D: usize>(a: Tensor<B, D>, b: Tensor<B, D>, width: Width) -> Tensor<B, D> {
    round(widen(a) * widen(b), width)
}

/// Returns `x + scalar`, where the scalar is rounded to `width` first.
///
/// Upstream quirk: on the CPU torch rounds a Python number that is added, but not one that is multiplied by. With 1e-9
/// and an f32 scalar, 1742 of the 65 536 bf16 values would get another sum.
pub fn add_scalar<B: Backend, const D: usize>(x: Tensor<B, D>, scalar: f32, width: Width) -> Tensor<B, D> {
    round(widen(x).add_scalar(round_scalar(scalar, width)), width)
}

/// Returns `x · scalar`. The scalar stays f32, as in torch: rounding it to bf16 first gives other products.
pub fn mul_scalar<B: Backend, const D: usize>(x: Tensor<B, D>, scalar: f32, width: Width) -> Tensor<B, D> {
    round(widen(x).mul_scalar(scalar), width)
}

/// Returns `-x`, exactly.
pub fn neg<B: Backend, const D: usize>(x: Tensor<B, D>) -> Tensor<B, D> {
    x.neg()
}

/// Returns `1 / x`, by a division: backends' own reciprocal may be an approximation (burn-ndarray's with `simd` is off
/// by up to 3.7e-5).
pub fn recip<B: Backend, const D: usize>(x: Tensor<B, D>, width: Width) -> Tensor<B, D> {
    let x = widen(x);
    round(x.ones_like() / x, width)
}

/// Returns `x²`.
pub fn square<B: Backend, const D: usize>(x: Tensor<B, D>, width: Width) -> Tensor<B, D> {
    let x = widen(x);
    round(x.clone() * x, width)
}

/// Returns `x · sigmoid(x)` in f32, rounded once: `x / (1 + exp(−x))`.
pub fn silu<B: Backend, const D: usize>(x: Tensor<B, D>, width: Width) -> Tensor<B, D> {
    let x = widen(x);
    round(x.clone() / x.neg().exp().add_scalar(1.0), width)
}

/// Returns `silu(gate) ⊙ up`, where `silu` rounds before the product.
pub fn silu_product<B: Backend, const D: usize>(gate: Tensor<B, D>, up: Tensor<B, D>, width: Width) -> Tensor<B, D> {
    if width == Width::Bf16
        && let Some(product) = music3_kernels::try_gate(&gate, &up)
    {
        return product;
    }
    mul(silu(gate, width), up, width)
}

/// Returns the periodic activation `x + sin²(alpha · x) / (alpha + eps)`, in upstream's order of operations; every op
/// rounds.
///
/// # Shapes
/// `x` `[batch, channels, len]`, `alpha` `[1, channels, 1]` → as `x`
pub fn snake<B: Backend>(x: Tensor<B, 3>, alpha: Tensor<B, 3>, eps: f32, width: Width) -> Tensor<B, 3> {
    if x.dtype() == width.store_dtype::<B>(&x.device())
        && let Some(bent) = music3_kernels::try_snake(&x, &alpha, round_scalar(eps, width))
    {
        return bent;
    }
    let inverse = recip(add_scalar(alpha.clone(), eps, width), width);
    let wave = square(sin(mul(alpha, x.clone(), width), width), width);
    add(x, mul(inverse, wave, width), width)
}

/// Returns `value ⊙ silu(gate)` of rows that hold the value half first and the gate half second; `silu` rounds before the
/// product.
///
/// # Shapes
/// `[batch, tokens, 2·half]` → `[batch, tokens, half]`
pub fn gate_halves<B: Backend>(halves: Tensor<B, 3>, width: Width) -> Tensor<B, 3> {
    if halves.dtype() == width.store_dtype::<B>(&halves.device())
        && let Some(gated) = music3_kernels::try_gate_halves(&halves)
    {
        return gated;
    }
    let half = halves.dims()[2] / 2;
    let value = halves.clone().narrow(2, 0, half);
    mul(value, silu(halves.narrow(2, half, half), width), width)
}

/// Returns `sin(x)`.
pub fn sin<B: Backend, const D: usize>(x: Tensor<B, D>, width: Width) -> Tensor<B, D> {
    round(widen(x).sin(), width)
}

/// Returns `cos(x)`.
pub fn cos<B: Backend, const D: usize>(x: Tensor<B, D>, width: Width) -> Tensor<B, D> {
    round(widen(x).cos(), width)
}

/// Returns `tanh(x)`.
pub fn tanh<B: Backend, const D: usize>(x: Tensor<B, D>, width: Width) -> Tensor<B, D> {
    round(widen(x).tanh(), width)
}

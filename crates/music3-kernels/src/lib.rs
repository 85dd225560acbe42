//! Hot paths for concrete Burn backends, recognised at run time.
//!
//! Each `try_…::<B>` looks at what its tensors are made of and returns `None` where it has nothing faster to offer; the
//! caller then takes the plain-tensor form, which is right on every backend. Nothing here is a bound on `B`, so an
//! application's own backend works, only without these paths.

#[cfg(feature = "flex")]
mod flex;

use burn::tensor::{Tensor, backend::Backend};

/// Returns `x · weightᵀ` in f32 for a few rows of `x` and a bf16 weight, reading each weight once and never widening
/// the matrix; each row is summed in an order that does not depend on how many rows there are.
///
/// Offered on burn-flex, whose own bf16 product converts the whole matrix at every call.
///
/// # Shapes
/// `x` `[rows, in]` (f32 or bf16), `weight` `[out, in]` (bf16) → `[rows, out]` (f32)
pub fn try_linear_bf16<B: Backend>(x: &Tensor<B, 2>, weight: &Tensor<B, 2>) -> Option<Tensor<B, 2>> {
    #[cfg(feature = "flex")]
    return flex::linear_bf16(x, weight);
    #[cfg(not(feature = "flex"))]
    {
        let _ = (x, weight);
        None
    }
}

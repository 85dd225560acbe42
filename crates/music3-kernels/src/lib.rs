//! Hot paths for concrete Burn backends, recognised at run time.
//!
//! Each `try_…::<B>` looks at what its tensors are made of and returns `None` where it has nothing faster to offer; the
//! caller then takes the plain-tensor form, which is right on every backend. Nothing here is a bound on `B`, so an
//! application's own backend works, only without these paths.

#[cfg(feature = "cuda")]
mod cuda;
mod device;
mod draw;
#[cfg(feature = "flex")]
mod flex;
mod matmul;
mod path;
mod scoped;
mod steps;

use burn::tensor::{DType, Tensor, backend::Backend};

#[cfg(feature = "cuda")]
pub use self::cuda::cache_compiled_kernels;
pub use self::{
    device::{DeviceReport, device_report, exact_memory, free_device_bytes},
    draw::{Draw, PendingRead, try_draw},
    matmul::Matmul,
    path::ComputePath,
    steps::{
        Norm, Preparation, Stored, try_add, try_attend, try_attend_newest, try_attend_projected, try_attend_stored,
        try_attention_weights, try_conv_transpose1d, try_conv1d, try_gate, try_gate_halves, try_gated,
        try_gated_linear, try_join_rows, try_layer_norm, try_linear_added, try_read_positions, try_rms_norm,
        try_rotate_heads, try_snake, try_store_positions,
    },
};

/// Returns `x · weightᵀ` in f32 for a few rows of `x` and a bf16 weight, reading each weight once and never widening
/// the matrix; each row is summed in an order that does not depend on how many rows there are.
///
/// Offered on burn-flex, whose own bf16 product converts the whole matrix at every call.
///
/// # Shapes
/// `x` `[rows, in]` (f32 or bf16), `weight` `[out, in]` (bf16) → `[rows, out]` (f32)
pub fn try_linear_bf16<B: Backend>(x: &Tensor<B, 2>, weight: &Tensor<B, 2>) -> Option<Tensor<B, 2>> {
    #[cfg(feature = "flex")]
    return path::kernels_are_on().then(|| flex::linear_bf16(x, weight)).flatten();
    #[cfg(not(feature = "flex"))]
    {
        let _ = (x, weight);
        None
    }
}

/// Returns the batched product of the last two dimensions, summed in f32, for two f32 or two bf16 operands. f32
/// operands are multiplied as [`Matmul::current`] says: exactly, unless the caller chose otherwise.
///
/// Offered on the unfused burn-cuda, through cuBLASLt, or where that is missing through CubeCL's kernels without tensor
/// cores.
///
/// # Shapes
/// `a` `[..., rows, inner]`, `b` `[..., inner, columns]`, leading dimensions equal or all one → `[..., rows, columns]`
/// (f32)
///
/// # Panics
/// If an earlier product failed on the device.
pub fn try_matmul<B: Backend, const D: usize>(a: &Tensor<B, D>, b: &Tensor<B, D>) -> Option<Tensor<B, D>> {
    #[cfg(feature = "cuda")]
    return cuda::matmul(a, b);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (a, b);
        None
    }
}

/// Returns `x · weightᵀ + bias` of two bf16 or two f32 operands, summed in f32 and rounded once to their type, plus a
/// residual, rounded again. f32 operands are multiplied as [`Matmul::current`] says.
///
/// Offered on the unfused burn-cuda, through cuBLASLt, and on burn-flex for many rows.
///
/// # Shapes
/// `x` `[rows, in]`, `weight` `[out, in]`, `bias` `[out]`, `residual` and result `[rows, out]`
///
/// # Panics
/// If an earlier product failed on the device.
pub fn try_linear<B: Backend>(
    x: &Tensor<B, 2>,
    weight: &Tensor<B, 2>,
    bias: Option<&Tensor<B, 1>>,
    residual: Option<&Tensor<B, 2>>,
) -> Option<Tensor<B, 2>> {
    #[cfg(feature = "flex")]
    if let Some(y) = flex::linear(x, weight, bias, residual) {
        return Some(y);
    }
    #[cfg(feature = "cuda")]
    return cuda::linear(x, weight, bias, residual);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (x, weight, bias, residual);
        None
    }
}

/// Returns a tensor of little-endian f32 or bf16 values that lie in memory or in a mapped file, copied to the device in
/// large pieces through pinned memory.
///
/// Offered on the unfused burn-cuda, whose own upload is several times slower.
///
/// # Panics
/// If the bytes are not as many as shape and dtype say, or the device refuses the copy.
pub fn try_upload<B: Backend, const D: usize>(
    bytes: &[u8],
    shape: [usize; D],
    dtype: DType,
    device: &B::Device,
) -> Option<Tensor<B, D>> {
    #[cfg(feature = "cuda")]
    return cuda::upload(bytes, shape, dtype, device);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (bytes, shape, dtype, device);
        None
    }
}

/// Returns and forgets the first failure on a device since the last call. Products are enqueued, so a failure shows
/// only later; callers ask after each stage.
pub fn take_device_error() -> Option<String> {
    #[cfg(feature = "cuda")]
    return cuda::take_error();
    #[cfg(not(feature = "cuda"))]
    None
}

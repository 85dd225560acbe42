//! The only place where values are rounded.

use burn::tensor::{DType, Tensor, TensorData, backend::Backend};
use half::bf16;

use crate::{Width, width::Rounding};

/// Returns `x` as f32. Exact: every bf16 value is an f32 value.
pub fn widen<B: Backend, const D: usize>(x: Tensor<B, D>) -> Tensor<B, D> {
    if x.dtype() == DType::F32 { x } else { x.cast(DType::F32) }
}

/// Returns an f32 tensor stored in `width`: as it is, or rounded to bf16, to nearest with ties to even.
///
/// Subnormals are kept, values past the largest bf16 become infinite, and NaN stays NaN. Where gradients are recorded
/// they pass as if nothing had been rounded, as torch's do.
pub fn round<B: Backend, const D: usize>(x: Tensor<B, D>, width: Width) -> Tensor<B, D> {
    if width == Width::F32 {
        return widen(x);
    }
    if x.dtype() == DType::BF16 {
        return x;
    }
    let device = x.device();
    match Rounding::of::<B>(&device) {
        Rounding::Cast => x.cast(DType::BF16),
        Rounding::Host | Rounding::Emulated if B::ad_enabled(&device) => round_with_gradient(x, width),
        Rounding::Host | Rounding::Emulated => from_data(x.into_data(), width, &device),
    }
}

/// Rounds on the host, which records nothing, and puts the result in the place of a value that is recorded.
fn round_with_gradient<B: Backend, const D: usize>(x: Tensor<B, D>, width: Width) -> Tensor<B, D> {
    let device = x.device();
    let rounded: Tensor<B, D> = from_data(x.clone().into_data(), width, &device);
    let recorded = if rounded.dtype() == DType::BF16 { x.cast(DType::BF16) } else { x };
    // Neighbours or equal, so that difference and sum are exact; of two infinities nothing is left to add.
    let difference = rounded - recorded.clone().detach();
    let difference = difference.clone().mask_fill(difference.is_nan(), 0.0);
    recorded + difference.detach()
}

/// Returns a number as a tensor of `width` holds it, one without dimensions included.
pub fn round_scalar(scalar: f32, width: Width) -> f32 {
    match width {
        Width::F32 => scalar,
        Width::Bf16 => bf16::from_f32(scalar).to_f32(),
    }
}

/// Returns host data as a tensor stored in `width`; f32 data is rounded once where `width` asks for it.
///
/// Burn's own `Tensor::from_data` converts bf16 data to f32 without saying so.
///
/// # Panics
/// If the data are not floats.
pub fn from_data<B: Backend, const D: usize>(data: TensorData, width: Width, device: &B::Device) -> Tensor<B, D> {
    let dtype = width.store_dtype::<B>(device);
    let data = match (width, data.dtype) {
        (Width::F32, DType::F32) | (Width::Bf16, DType::BF16) if dtype == data.dtype => data,
        (Width::F32, _) => data.convert_dtype(DType::F32),
        (Width::Bf16, _) => round_data(data, dtype),
    };
    if data.bytes.len() >= LARGE_UPLOAD
        && let Some(tensor) = from_stored(&data.bytes, data.shape.dims(), width, device)
    {
        return tensor;
    }
    Tensor::from_data(data, (device, dtype))
}

/// Smaller data go to a device faster the ordinary way.
const LARGE_UPLOAD: usize = 1 << 20;

/// Returns a tensor of values that are stored as `width` stores them, little-endian and in row-major order, straight
/// from where they lie; `None` where the backend has no such way, or stores that width otherwise.
///
/// # Panics
/// If the bytes are not as many as shape and width say, or the device refuses them.
pub fn from_stored<B: Backend, const D: usize>(
    bytes: &[u8],
    shape: [usize; D],
    width: Width,
    device: &B::Device,
) -> Option<Tensor<B, D>> {
    let dtype = width.store_dtype::<B>(device);
    let as_stored = dtype.size() == width.bytes() && cfg!(target_endian = "little");
    as_stored.then(|| music3_kernels::try_upload(bytes, shape, dtype, device)).flatten()
}

/// Rounds to bf16 through `half`, and widens again where the backend stores f32.
fn round_data(data: TensorData, dtype: DType) -> TensorData {
    let shape = data.shape.clone();
    if data.dtype == DType::BF16 {
        return data.convert_dtype(dtype);
    }
    let data = data.convert_dtype(DType::F32);
    let values = data.as_slice::<f32>().expect("the data were converted to f32");
    let rounded: Vec<bf16> = values.iter().copied().map(bf16::from_f32).collect();
    if dtype == DType::BF16 {
        TensorData::new(rounded, shape)
    } else {
        TensorData::new(rounded.into_iter().map(bf16::to_f32).collect::<Vec<f32>>(), shape)
    }
}

//! burn-cuda, unfused: what CubeCL's own kernels do slowly or inexactly.
//!
//! CubeCL picks tensor-core kernels for f32 products and rounds their operands to TF32, so that "f32" is neither f32
//! nor the same from run to run. cuBLASLt computes f32 products in f32, and bf16 products at the chip's full rate.

mod attention;
mod conv;
mod decode;
mod join;
mod layout;
mod lt;
mod memory;
mod product;
mod read;
mod report;
mod split;
mod steps;
mod strict;
mod task;
mod upload;

use std::{
    any::{Any, TypeId},
    path::PathBuf,
};

use burn::tensor::{DType, Int, Tensor, TensorPrimitive, backend::Backend};
use burn_cubecl::{
    cubecl,
    kernel::{cast, into_contiguous},
    tensor::CubeTensor,
};
use burn_cuda::CudaDevice;
use cubecl::{Runtime, client::ComputeClient, cuda::CudaRuntime, device::Device, server::Handle};

use self::product::Added;
pub(crate) use self::{
    memory::ExactMemory,
    read::PendingRead,
    steps::{
        add, attend, attend_newest, attend_projected, attend_stored, attention_weights, conv_transpose1d, conv1d, draw,
        gate, gate_halves, gated, gated_linear, join_rows, layer_norm, linear_added, read_positions, rms_norm,
        rotate_heads, snake, store_positions,
    },
};
use crate::DeviceReport;

pub(crate) type CudaTensor = CubeTensor<CudaRuntime>;

/// See [`try_matmul`](crate::try_matmul).
pub(crate) fn matmul<B: Backend, const D: usize>(a: &Tensor<B, D>, b: &Tensor<B, D>) -> Option<Tensor<B, D>> {
    let (lhs, rhs) = (cuda_tensor(a)?, cuda_tensor(b)?);
    into_tensor(product::multiply(lhs, rhs, DType::F32, Added::default(), None)?)
}

/// Returns whether the library is there that runs products in other ways than strictly.
pub(crate) fn has_product_library() -> bool {
    lt::is_available()
}

/// See [`try_upload`](crate::try_upload).
pub(crate) fn upload<B: Backend, const D: usize>(
    bytes: &[u8],
    shape: [usize; D],
    dtype: DType,
    device: &B::Device,
) -> Option<Tensor<B, D>> {
    if TypeId::of::<B::FloatTensorPrimitive>() != TypeId::of::<CudaTensor>() {
        return None;
    }
    let device = (device as &dyn Any).downcast_ref::<CudaDevice>()?;
    let expected = shape.iter().product::<usize>() * dtype.size();
    assert_eq!(bytes.len(), expected, "a {dtype:?} tensor of shape {shape:?} has other bytes");
    let client = CudaRuntime::client(device);
    let handle = weight_memory(&client, device, bytes.len().max(1));
    let tensor = CudaTensor::new_contiguous(client, device.clone(), shape.into(), handle.clone(), dtype);
    if let Err(error) = upload::copy(device.to_id(), handle, bytes) {
        panic!("a weight of {} bytes did not reach the device: {error}", bytes.len());
    }
    into_tensor(tensor)
}

/// Returns memory for a weight. Weights stay for a whole stage: an allocation of their own wastes nothing, and none is split for
/// them.
fn weight_memory(client: &ComputeClient<CudaRuntime>, device: &CudaDevice, bytes: usize) -> Handle {
    let _exact = ExactMemory::hold(device);
    client.empty(bytes)
}

/// Keeps compiled kernels, and what was found out about which are fastest, in a folder, so that the next run of the same
/// program on the same kind of device does not compile again. Compiled kernels are found by name: a folder must not be
/// shared by two builds of a program or by two kinds of device.
///
/// # Panics
/// If anything was computed on CUDA in this process before.
pub fn cache_compiled_kernels(folder: PathBuf) {
    report::cache_compiled_kernels(folder);
}

/// See [`device_report`](crate::device_report).
pub(crate) fn device_report(device: &CudaDevice) -> Result<DeviceReport, String> {
    report::device_report(device)
}

/// See [`free_device_bytes`](crate::free_device_bytes).
pub(crate) fn free_bytes(device: &CudaDevice) -> Result<u64, String> {
    report::free_bytes(device)
}

/// Returns what went wrong on the device since the last call, if anything did.
pub(crate) fn take_error() -> Option<String> {
    task::take_error()
}

/// Returns the CUDA tensor inside, if `B` is the unfused CUDA backend.
fn cuda_tensor<B: Backend, const D: usize>(tensor: &Tensor<B, D>) -> Option<CudaTensor> {
    let TensorPrimitive::Float(primitive) = tensor.clone().into_primitive() else { return None };
    (&primitive as &dyn Any).downcast_ref::<CudaTensor>().cloned()
}

/// Returns the CUDA tensor inside, if `B` is the unfused CUDA backend.
fn int_tensor<B: Backend, const D: usize>(tensor: &Tensor<B, D, Int>) -> Option<CudaTensor> {
    let primitive = tensor.clone().into_primitive();
    (&primitive as &dyn Any).downcast_ref::<CudaTensor>().cloned()
}

/// Returns the tensor as one of `B`, if `B` is the unfused CUDA backend.
fn into_tensor<B: Backend, const D: usize>(tensor: CudaTensor) -> Option<Tensor<B, D>> {
    let primitive = (Box::new(tensor) as Box<dyn Any>).downcast::<B::FloatTensorPrimitive>().ok()?;
    Some(Tensor::from_primitive(TensorPrimitive::Float(*primitive)))
}

/// Returns the tensor as one of `B`, if `B` is the unfused CUDA backend.
fn into_int_tensor<B: Backend, const D: usize>(tensor: CudaTensor) -> Option<Tensor<B, D, Int>> {
    let primitive = (Box::new(tensor) as Box<dyn Any>).downcast::<B::IntTensorPrimitive>().ok()?;
    Some(Tensor::from_primitive(*primitive))
}

/// See [`try_linear`](crate::try_linear).
pub(crate) fn linear<B: Backend>(
    x: &Tensor<B, 2>,
    weight: &Tensor<B, 2>,
    bias: Option<&Tensor<B, 1>>,
    residual: Option<&Tensor<B, 2>>,
) -> Option<Tensor<B, 2>> {
    let added = Added { bias: if_any(bias, cuda_tensor)?, residual: if_any(residual, cuda_tensor)? };
    into_tensor(product::linear(cuda_tensor(x)?, cuda_tensor(weight)?, added)?)
}

/// Converts what may be absent: `None` only where it is there and cannot be converted.
fn if_any<T, U>(given: Option<&T>, convert: impl FnOnce(&T) -> Option<U>) -> Option<Option<U>> {
    given.map_or(Some(None), |given| convert(given).map(Some))
}

/// Returns a tensor in another type, its rows without padding. A cast may leave some.
fn converted(tensor: CudaTensor, dtype: DType) -> CudaTensor {
    if tensor.dtype == dtype { into_contiguous(tensor) } else { into_contiguous(cast(tensor, dtype)) }
}

/// Returns contiguous memory for a tensor, on the device that `like` is on.
fn empty(like: &CudaTensor, shape: Vec<usize>, dtype: DType) -> CudaTensor {
    let handle = like.client.empty(shape.iter().product::<usize>() * dtype.size());
    CudaTensor::new_contiguous(like.client.clone(), like.device.clone(), shape.into(), handle, dtype)
}

//! burn-cuda, unfused: what CubeCL's own kernels do slowly or inexactly.
//!
//! CubeCL picks tensor-core kernels for f32 products and rounds their operands to TF32, so that "f32" is neither f32
//! nor the same from run to run. cuBLASLt computes f32 products in f32, and bf16 products at the chip's full rate.

mod decode;
mod layout;
mod lt;
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
    sync::Once,
};

use burn::tensor::{DType, Int, Tensor, TensorPrimitive, backend::Backend};
use burn_cubecl::{cubecl, kernel::into_contiguous, tensor::CubeTensor};
use burn_cuda::CudaDevice;
use cubecl::{Runtime, cuda::CudaRuntime, device::Device};

use self::{
    layout::Batched,
    lt::{Operands, Product, Step},
};
pub(crate) use self::{
    read::PendingRead,
    steps::{
        add, attend_stored, attention_weights, draw, gate, gate_halves, gated, layer_norm, linear_added,
        read_positions, rms_norm, snake, split_heads, store_positions,
    },
};
use crate::{DeviceReport, Matmul};

pub(crate) type CudaTensor = CubeTensor<CudaRuntime>;

/// See [`try_matmul`](crate::try_matmul).
pub(crate) fn matmul<B: Backend, const D: usize>(a: &Tensor<B, D>, b: &Tensor<B, D>) -> Option<Tensor<B, D>> {
    let (lhs, rhs) = (cuda_tensor(a)?, cuda_tensor(b)?);
    if let Some(error) = task::take_error() {
        panic!("earlier work failed on the device: {error}");
    }
    into_tensor(multiply(lhs, rhs, Matmul::current())?)
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
    // Weights stay for a whole stage: an allocation of their own wastes nothing, and none is split for them.
    let handle = client
        .memory_persistent_allocation(bytes.len().max(1), |len| client.empty(len))
        .unwrap_or_else(|error| panic!("the device gives no memory for a weight of {} bytes: {error:?}", bytes.len()));
    let tensor = CudaTensor::new_contiguous(client, device.clone(), shape.into(), handle.clone(), dtype);
    if let Err(error) = upload::copy(device.to_id(), handle, bytes) {
        panic!("a weight of {} bytes did not reach the device: {error}", bytes.len());
    }
    into_tensor(tensor)
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

/// Enqueues the product; `None` for dtypes that it is not offered for.
fn multiply(lhs: CudaTensor, rhs: CudaTensor, matmul: Matmul) -> Option<CudaTensor> {
    let dtype = lhs.dtype;
    if dtype != rhs.dtype || !matches!(dtype, DType::F32 | DType::BF16) {
        return None;
    }
    let (lhs, a) = described(lhs);
    let (rhs, b) = described(rhs);
    let shape = a.product_shape(&b)?;
    let out = empty(&lhs, shape, DType::F32);
    if !lt::is_available() {
        return without_library(lhs, rhs, out);
    }
    let device = lhs.device.to_id();
    let whole = |operands, lhs: CudaTensor, rhs: CudaTensor| {
        let product =
            Product { a: a.clone(), b: b.clone(), operands, accumulate: false, rounded: false, biased: false };
        let step = Step { product, a: (0, 0), b: (1, 0), bias: None };
        lt::enqueue(device, vec![step], vec![lhs.handle, rhs.handle, out.handle.clone()]);
    };
    match (dtype, matmul) {
        (DType::BF16, _) => whole(Operands::Bf16, lhs, rhs),
        (_, Matmul::Strict) => whole(Operands::F32, lhs, rhs),
        (_, Matmul::Tf32) => whole(Operands::Tf32, lhs, rhs),
        (_, Matmul::Split) => {
            let parts = [split::parts(&lhs, a.extent()), split::parts(&rhs, b.extent())];
            let handles = parts.into_iter().flatten().map(|part| part.handle).chain([out.handle.clone()]);
            lt::enqueue(device, split::steps(&a, &b), handles.collect());
        }
    }
    Some(out)
}

/// See [`try_linear`](crate::try_linear).
pub(crate) fn linear<B: Backend>(
    x: &Tensor<B, 2>,
    weight: &Tensor<B, 2>,
    bias: Option<&Tensor<B, 1>>,
) -> Option<Tensor<B, 2>> {
    let (x, weight) = (cuda_tensor(x)?, cuda_tensor(weight)?);
    let bias = match bias {
        None => None,
        Some(bias) => Some(into_contiguous(cuda_tensor(bias)?)),
    };
    let operands = match (x.dtype, Matmul::current()) {
        (DType::BF16, _) => Operands::Bf16,
        (DType::F32, Matmul::Strict) => Operands::F32,
        (DType::F32, Matmul::Tf32) => Operands::Tf32,
        _ => return None,
    };
    let dtype = x.dtype;
    // With a bias the library may round to bf16 before it adds: seen at 201 rows of 26.
    let adds = bias.is_none() || dtype == DType::F32;
    if !adds || weight.dtype != dtype || bias.as_ref().is_some_and(|bias| bias.dtype != dtype) || !lt::is_available() {
        return None;
    }
    if let Some(error) = task::take_error() {
        panic!("earlier work failed on the device: {error}");
    }
    let (x, a) = described(x);
    let transposed = [weight.meta.shape()[1], weight.meta.shape()[0]];
    let strides = [weight.meta.strides()[1], weight.meta.strides()[0]];
    let b = Batched::new(&transposed, &strides)?;
    let shape = a.product_shape(&b)?;
    let out = empty(&x, shape, dtype);
    let (rounded, biased) = (dtype == DType::BF16, bias.is_some());
    let product = Product { a, b, operands, accumulate: false, rounded, biased };
    let step = Step { product, a: (0, 0), b: (1, 0), bias: biased.then_some(2) };
    let handles = [x.handle, weight.handle].into_iter().chain(bias.map(|bias| bias.handle));
    lt::enqueue(x.device.to_id(), vec![step], handles.chain([out.handle.clone()]).collect());
    into_tensor(out)
}

/// Computes the product with CubeCL's kernels, of which the first that is used says so.
fn without_library(lhs: CudaTensor, rhs: CudaTensor, out: CudaTensor) -> Option<CudaTensor> {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        tracing::warn!(
            "the library cublasLt was not found: products run on CubeCL's kernels without tensor cores, which is exact \
             but slow, whatever --matmul says"
        );
    });
    match strict::multiply(lhs, rhs, &out) {
        Ok(()) => Some(out),
        Err(error) => panic!("a product cannot run without the library cublasLt: {error:?}"),
    }
}

/// Returns contiguous memory for a tensor, on the device that `like` is on.
fn empty(like: &CudaTensor, shape: Vec<usize>, dtype: DType) -> CudaTensor {
    let handle = like.client.empty(shape.iter().product::<usize>() * dtype.size());
    CudaTensor::new_contiguous(like.client.clone(), like.device.clone(), shape.into(), handle, dtype)
}

/// Describes a tensor's memory, copying it first where its strides are no matrix's.
fn described(tensor: CudaTensor) -> (CudaTensor, Batched) {
    match Batched::new(tensor.meta.shape(), tensor.meta.strides()) {
        Some(batched) => (tensor, batched),
        None => {
            let tensor = into_contiguous(tensor);
            let batched = Batched::new(tensor.meta.shape(), tensor.meta.strides());
            (tensor, batched.expect("rows of a contiguous tensor follow each other"))
        }
    }
}

//! burn-cuda, unfused: large products through cuBLASLt on CubeCL's own buffers.
//!
//! CubeCL picks tensor-core kernels for f32 products and rounds their operands to TF32, so that "f32" is neither f32
//! nor the same from run to run. cuBLASLt computes f32 products in f32, and bf16 products at the chip's full rate.

mod layout;
mod lt;

use std::{any::Any, sync::Once};

use burn::tensor::{DType, Tensor, TensorPrimitive, backend::Backend};
use burn_cubecl::{cubecl, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::{cuda::CudaRuntime, device::Device};

use self::{layout::Batched, lt::Product};

type CudaTensor = CubeTensor<CudaRuntime>;

/// See [`try_matmul`](crate::try_matmul).
pub(crate) fn matmul<B: Backend, const D: usize>(a: &Tensor<B, D>, b: &Tensor<B, D>) -> Option<Tensor<B, D>> {
    let (lhs, rhs) = (cuda_tensor(a)?, cuda_tensor(b)?);
    if !lt::is_available() {
        static WARNED: Once = Once::new();
        WARNED.call_once(|| {
            tracing::warn!(
                "the library cublasLt was not found: products run on CubeCL's own kernels, and f32 products as TF32"
            );
        });
        return None;
    }
    if let Some(error) = lt::take_error() {
        panic!("a product failed on the device: {error}");
    }
    let product = multiply(lhs, rhs)?;
    let primitive = (Box::new(product) as Box<dyn Any>).downcast::<B::FloatTensorPrimitive>().ok()?;
    Some(Tensor::from_primitive(TensorPrimitive::Float(*primitive)))
}

/// Returns what went wrong on the device since the last call, if anything did.
pub(crate) fn take_error() -> Option<String> {
    lt::take_error()
}

/// Returns the CUDA tensor inside, if `B` is the unfused CUDA backend.
fn cuda_tensor<B: Backend, const D: usize>(tensor: &Tensor<B, D>) -> Option<CudaTensor> {
    let TensorPrimitive::Float(primitive) = tensor.clone().into_primitive() else { return None };
    (&primitive as &dyn Any).downcast_ref::<CudaTensor>().cloned()
}

/// Enqueues the product; `None` for dtypes that it is not offered for.
fn multiply(lhs: CudaTensor, rhs: CudaTensor) -> Option<CudaTensor> {
    let dtype = lhs.dtype;
    if dtype != rhs.dtype || !matches!(dtype, DType::F32 | DType::BF16) {
        return None;
    }
    let (lhs, a) = described(lhs);
    let (rhs, b) = described(rhs);
    let shape = a.product_shape(&b)?;
    let (client, device) = (lhs.client.clone(), lhs.device.clone());
    let bytes = shape.iter().product::<usize>() * size_of::<f32>();
    let out = CubeTensor::new_contiguous(client.clone(), device.clone(), shape.into(), client.empty(bytes), DType::F32);
    let product = Product { a, b, bf16: dtype == DType::BF16 };
    lt::enqueue(device.to_id(), product, [lhs.handle, rhs.handle, out.handle.clone()]);
    Some(out)
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

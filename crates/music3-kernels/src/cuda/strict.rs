//! Products without cuBLASLt: CubeCL's kernels that use no tensor cores, for which f32 is f32.

use burn::tensor::DType;
use burn_cubecl::cubecl;
use cubecl::{cuda::CudaRuntime, prelude::TensorBinding};
use cubek::{
    matmul::{
        definition::{MatmulElems, MatmulGlobalElems, MatmulSetupError},
        launch::{Strategy, launch_ref},
    },
    std::InputBinding,
};

use super::CudaTensor;

/// Computes `lhs · rhs` into `out`, a contiguous f32 tensor.
pub(super) fn multiply(lhs: CudaTensor, rhs: CudaTensor, out: &CudaTensor) -> Result<(), MatmulSetupError> {
    let client = out.client.clone();
    let (lhs_dtype, rhs_dtype): (DType, DType) = (lhs.dtype, rhs.dtype);
    let mut dtypes = MatmulElems::from_globals(&MatmulGlobalElems {
        lhs: lhs_dtype.into(),
        rhs: rhs_dtype.into(),
        out: out.dtype.into(),
    });
    let binding: TensorBinding<CudaRuntime> = out.clone().binding();
    launch_ref(
        &Strategy::SimpleUnit(Default::default()),
        &client,
        InputBinding::new(lhs.binding(), lhs_dtype.into()),
        InputBinding::new(rhs.binding(), rhs_dtype.into()),
        binding,
        &mut dtypes,
    )
}

//! Where cases are compared: also on backends that nothing else is offered on.

use super::{Selected, Task};
use crate::{args::BackendArg, failure::Failure};

/// A backend that cases are compared on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// One that everything is offered on.
    Offered(Selected),
    /// NVIDIA GPU of that number with Burn's fusion of kernels, which is there to be looked at only.
    #[cfg(feature = "cuda-fused")]
    Fused(usize),
}

/// Burn's CUDA backend with fusion.
#[cfg(feature = "cuda-fused")]
type Fused = burn_cuda::Cuda<f32, i32>;

impl Arm {
    /// Finds the backend.
    ///
    /// # Errors
    /// This build does not have it, or its device does not answer.
    pub(crate) fn choose(asked: BackendArg) -> Result<Self, Failure> {
        match asked {
            #[cfg(feature = "cuda-fused")]
            BackendArg::CudaFused(index) => {
                Selected::choose(BackendArg::Cuda(index))?;
                Ok(Self::Fused(index))
            }
            #[cfg(not(feature = "cuda-fused"))]
            BackendArg::CudaFused(_) => Err(Failure::usage(
                "this build does not have cuda-fused, which is there to be compared only; build it in with \
                 `cargo build --release -p music3-cli --features cuda-fused`",
            )),
            asked => Selected::choose(asked).map(Self::Offered),
        }
    }

    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Offered(backend) => backend.name(),
            #[cfg(feature = "cuda-fused")]
            Self::Fused(_) => "cuda-fused",
        }
    }

    /// Does a task on it.
    pub(crate) fn dispatch<T: Task>(self, task: T) -> T::Output {
        match self {
            Self::Offered(backend) => backend.dispatch(task),
            #[cfg(feature = "cuda-fused")]
            Self::Fused(index) => task.run::<Fused>(burn_cuda::CudaDevice::new(index)),
        }
    }
}

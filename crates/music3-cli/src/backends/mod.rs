//! The backends that this build has: the only place that names them.

mod arm;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "cuda")]
mod kernel_cache;

use burn::tensor::backend::Backend;

pub(crate) use self::arm::Arm;
use crate::{args::BackendArg, failure::Failure};

/// Burn's CUDA backend without fusion of kernels, which may merge roundings.
#[cfg(all(feature = "cuda", not(feature = "cuda-fused")))]
type Cuda = burn_cuda::Cuda<f32, i32>;
/// The same type, named where `burn_cuda::Cuda` is another.
#[cfg(feature = "cuda-fused")]
type Cuda = burn_cubecl::CubeBackend<burn_cubecl::cubecl::cuda::CudaRuntime, f32, i32, u8>;

#[cfg(not(any(feature = "flex", feature = "ndarray", feature = "cuda")))]
compile_error!("music3 needs a backend: switch on at least one of the features `flex`, `ndarray` and `cuda`");

/// A backend that this build has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selected {
    /// Portable CPU backend.
    #[cfg(feature = "flex")]
    Flex,
    /// Plain CPU backend.
    #[cfg(feature = "ndarray")]
    Ndarray,
    /// NVIDIA GPU of that number.
    #[cfg(feature = "cuda")]
    Cuda(usize),
}

/// Work for any backend. It is compiled once per backend and task, so there are few of them.
pub(crate) trait Task {
    /// What it results in.
    type Output;

    /// Does it.
    fn run<B: Backend>(self, device: B::Device) -> Self::Output;
}

impl Selected {
    /// Finds the backend to use.
    ///
    /// # Errors
    /// This build does not have it, or its device does not answer.
    pub(crate) fn choose(asked: BackendArg) -> Result<Self, Failure> {
        match asked {
            BackendArg::Auto => Self::automatic(),
            BackendArg::CudaFused(_) => Err(Failure::usage(
                "--backend cuda-fused is for `music3 check` only: fusion may merge roundings, so that it is there to be \
                 compared; use --backend cuda",
            )),
            #[cfg(feature = "flex")]
            BackendArg::Flex => Ok(Self::Flex),
            #[cfg(feature = "ndarray")]
            BackendArg::Ndarray => Ok(Self::Ndarray),
            #[cfg(feature = "cuda")]
            BackendArg::Cuda(index) => {
                let unavailable = |reason| Failure::run(format!("--backend cuda:{index}: {reason}"));
                cuda::probe(index).map(|()| Self::Cuda(index)).map_err(unavailable)
            }
            #[cfg(not(all(feature = "flex", feature = "ndarray", feature = "cuda")))]
            missing => Err(Failure::usage(not_in_this_build(missing))),
        }
    }

    fn automatic() -> Result<Self, Failure> {
        #[cfg(feature = "cuda")]
        match cuda::probe(0) {
            Ok(()) => return Ok(Self::Cuda(0)),
            Err(reason) => tracing::info!("cuda is passed over: {reason}"),
        }
        #[cfg(feature = "flex")]
        return Ok(Self::Flex);
        #[cfg(all(feature = "ndarray", not(feature = "flex")))]
        return Ok(Self::Ndarray);
        #[cfg(not(any(feature = "flex", feature = "ndarray")))]
        Err(Failure::run("no CUDA device answers, and this build has no CPU backend; `--backend cuda` says why"))
    }

    /// Returns its name, as `--backend` takes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "flex")]
            Self::Flex => "flex",
            #[cfg(feature = "ndarray")]
            Self::Ndarray => "ndarray",
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => "cuda",
        }
    }

    /// Returns whether it computes on the CPU, in the computer's own memory.
    pub(crate) fn is_on_cpu(self) -> bool {
        match self {
            #[cfg(feature = "flex")]
            Self::Flex => true,
            #[cfg(feature = "ndarray")]
            Self::Ndarray => true,
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => false,
        }
    }

    /// Returns what a first run waits for, or `None` where it waits for nothing.
    pub(crate) fn first_run(self) -> Option<String> {
        match self {
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => kernel_cache::first_run(),
            #[cfg(any(feature = "flex", feature = "ndarray"))]
            _ => None,
        }
    }

    /// Does a task on it.
    pub(crate) fn dispatch<T: Task>(self, task: T) -> T::Output {
        match self {
            #[cfg(feature = "flex")]
            Self::Flex => task.run::<burn_flex::Flex>(Default::default()),
            #[cfg(feature = "ndarray")]
            Self::Ndarray => task.run::<burn_ndarray::NdArray>(Default::default()),
            #[cfg(feature = "cuda")]
            Self::Cuda(index) => task.run::<Cuda>(burn_cuda::CudaDevice::new(index)),
        }
    }
}

#[cfg(not(all(feature = "flex", feature = "ndarray", feature = "cuda")))]
fn not_in_this_build(asked: BackendArg) -> String {
    let name = match asked {
        BackendArg::Auto => "auto",
        BackendArg::Flex => "flex",
        BackendArg::Ndarray => "ndarray",
        BackendArg::Cuda(_) => "cuda",
        BackendArg::CudaFused(_) => "cuda-fused",
    };
    format!(
        "--backend {name}: this build does not have it; build it in with `cargo build --release -p music3-cli --features {name}`"
    )
}

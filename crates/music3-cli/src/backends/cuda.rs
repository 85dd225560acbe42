//! Whether a CUDA device answers. The libraries are opened at run time, and the crates below panic where one is missing,
//! so this looks for them first.

use burn::tensor::Tensor;
use cudarc::{driver, nvrtc};

use super::{Cuda, kernel_cache};
use crate::panics;

/// Looks for the driver, the kernel compiler and a device, then computes something on it.
///
/// # Errors
/// What is missing, and what to do.
pub(crate) fn probe(index: usize) -> Result<(), String> {
    if !driver_is_present() {
        return Err("the driver library libcuda.so (nvcuda.dll) was not found; install NVIDIA's driver, \
                    or use --backend flex"
            .to_owned());
    }
    if !compiler_is_present() {
        return Err("the library libnvrtc.so (nvrtc64.dll), which compiles kernels, was not found; install the \
                    CUDA toolkit or its NVRTC package and put it on the library path, or use --backend flex"
            .to_owned());
    }
    let failed = |error: driver::DriverError| format!("the driver does not answer: {error}; use --backend flex");
    driver::result::init().map_err(failed)?;
    let count = driver::result::device::get_count().map_err(failed)? as usize;
    if count == 0 {
        return Err("the driver knows no device; use --backend flex".to_owned());
    }
    if index >= count {
        let last = count - 1;
        return Err(format!("the driver knows {count} devices; pass a number from 0 to {last}, or use --backend flex"));
    }
    kernel_cache::open(compute_capability(index).map_err(failed)?);
    // What else can be wrong shows in the first computation.
    let computed = panics::silenced(|| {
        let ones = Tensor::<Cuda, 1>::ones([2], &burn_cuda::CudaDevice::new(index));
        (ones.clone() + ones).into_data().to_vec::<f32>()
    });
    match computed {
        Ok(Ok(values)) if values == [2.0, 2.0] => Ok(()),
        Ok(found) => Err(format!("the device computes 1 + 1 as {found:?}; use --backend flex")),
        // Seen where the toolkit's headers, which every kernel includes, were not found.
        Err(reason) => Err(format!(
            "the device does not compute: {reason}; set CUDA_PATH to the folder of a CUDA toolkit, whose headers are \
             needed to compile kernels, or use --backend flex"
        )),
    }
}

/// Returns the compute capability as one number, such as 90.
#[expect(unsafe_code, reason = "asks the driver")]
fn compute_capability(index: usize) -> Result<i32, driver::DriverError> {
    use driver::sys::CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
    };
    let device = driver::result::device::get(index as i32)?;
    // SAFETY: the device was just found.
    let attribute = |which| unsafe { driver::result::device::get_attribute(device, which) };
    Ok(attribute(MAJOR)? * 10 + attribute(MINOR)?)
}

#[expect(unsafe_code, reason = "opening a library runs its initialisers")]
fn driver_is_present() -> bool {
    // SAFETY: NVIDIA's driver library is made to be opened by any program; it is opened to be used next.
    unsafe { driver::sys::is_culib_present() }
}

#[expect(unsafe_code, reason = "opening a library runs its initialisers")]
fn compiler_is_present() -> bool {
    // SAFETY: as above, for the kernel compiler.
    unsafe { nvrtc::sys::is_culib_present() }
}

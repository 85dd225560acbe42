//! What is known of the device that a run computes on.

use burn::tensor::backend::Backend;

/// A device with memory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceReport {
    /// Its name, as its driver gives it.
    pub name: String,
    /// The driver's version, such as `13.0`.
    pub driver: String,
    /// The compute capability, such as `9.0`.
    pub compute_capability: String,
    /// Bytes of memory in all.
    pub total_bytes: u64,
    /// Bytes that nobody has taken yet.
    pub free_bytes: u64,
    /// Whether its memory is the host's too, so that it must not be counted twice.
    pub unified_memory: bool,
}

/// Returns what the driver says of a device, or `None` where the backend computes in the host's memory.
///
/// # Errors
/// If the driver does not answer.
pub fn device_report<B: Backend>(device: &B::Device) -> Result<Option<DeviceReport>, String> {
    #[cfg(feature = "cuda")]
    if let Some(device) = (device as &dyn std::any::Any).downcast_ref::<burn_cuda::CudaDevice>() {
        return crate::cuda::device_report(device).map(Some);
    }
    let _ = device;
    Ok(None)
}

/// Returns how many bytes of a device's own memory are free; `None` where a backend computes in the host's, or where the driver does
/// not tell.
///
/// What the backend keeps for later counts as taken: `B::memory_cleanup` gives it back, `B::sync` waits until that is done.
pub fn free_device_bytes<B: Backend>(device: &B::Device) -> Option<u64> {
    #[cfg(feature = "cuda")]
    if let Some(device) = (device as &dyn std::any::Any).downcast_ref::<burn_cuda::CudaDevice>() {
        return crate::cuda::free_bytes(device).ok();
    }
    let _ = device;
    None
}

/// Runs `work` with device memory in the sizes that are asked for, where a backend takes it in large pages otherwise.
///
/// For work that asks for the same sizes again and again: memory of one size serves no other, and stays until
/// `B::memory_cleanup`. A parameter of Burn that is initialised meanwhile ends it until the next such call.
pub fn exact_memory<B: Backend, T>(device: &B::Device, work: impl FnOnce() -> T) -> T {
    #[cfg(feature = "cuda")]
    let _exact =
        (device as &dyn std::any::Any).downcast_ref::<burn_cuda::CudaDevice>().map(crate::cuda::ExactMemory::hold);
    let _ = device;
    work()
}

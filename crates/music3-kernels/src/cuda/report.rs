//! What the driver says of a device, and where compiled kernels are kept.
#![allow(unsafe_code, reason = "calls into the CUDA driver")]

use std::path::PathBuf;

use burn_cubecl::cubecl::{
    config::{CubeClRuntimeConfig, RuntimeConfig, cache::CacheConfig},
    cuda::CudaDevice,
    device::Device,
};
use cudarc::driver::{
    result as driver,
    sys::{self as cu, CUdevice_attribute as Attribute},
};

use super::task::{self, Described};
use crate::DeviceReport;

/// Asks on the device's thread, where its context is current.
pub(super) fn device_report(device: &CudaDevice) -> Result<DeviceReport, String> {
    let (index, id) = (device.index as i32, device.to_id());
    task::wait_for(id, Vec::new(), move |_| {
        let device = driver::device::get(index).described("find the device")?;
        // SAFETY: the device was just found.
        let attribute = |attribute| unsafe { driver::device::get_attribute(device, attribute) };
        let attribute = |which| attribute(which).described("ask for an attribute");
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let integrated = attribute(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED)?;
        let mut version = 0;
        // SAFETY: the driver writes one integer.
        unsafe { cu::cuDriverGetVersion(&mut version) }.result().described("ask for the version")?;
        let (free, total) = memory(device)?;
        Ok(DeviceReport {
            name: driver::device::get_name(device).described("ask for the name")?,
            driver: format!("{}.{}", version / 1000, version % 1000 / 10),
            compute_capability: format!("{major}.{minor}"),
            total_bytes: total as u64,
            free_bytes: free as u64,
            unified_memory: integrated != 0,
        })
    })
}

/// See [`free_device_bytes`](crate::free_device_bytes).
pub(super) fn free_bytes(device: &CudaDevice) -> Result<u64, String> {
    let (index, id) = (device.index as i32, device.to_id());
    task::wait_for(id, Vec::new(), move |_| {
        let (free, _) = memory(driver::device::get(index).described("find the device")?)?;
        Ok(free as u64)
    })
}

/// Returns how many bytes of the device's memory are free, and how many there are.
fn memory(device: cu::CUdevice) -> Result<(usize, usize), String> {
    // SAFETY: the primary context is retained by CubeCL for as long as the process runs.
    let context = unsafe { driver::primary_ctx::retain(device) }.described("find the context")?;
    // SAFETY: as above.
    unsafe { driver::ctx::set_current(context) }.described("use the context")?;
    let memory = driver::mem_get_info().described("ask for the memory");
    // SAFETY: retained above; CubeCL still holds it.
    unsafe { driver::primary_ctx::release(device) }.described("let go of the context")?;
    memory
}

/// See [`cache_compiled_kernels`](crate::cache_compiled_kernels).
pub(super) fn cache_compiled_kernels(folder: PathBuf) {
    let mut config = CubeClRuntimeConfig::default().override_from_env();
    config.compilation.cache = Some(CacheConfig::File(folder.clone()));
    config.autotune.cache = CacheConfig::File(folder);
    CubeClRuntimeConfig::set(config);
}

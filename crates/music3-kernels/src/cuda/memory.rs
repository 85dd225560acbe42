//! Device memory in the sizes that are asked for.
//!
//! Otherwise CubeCL takes it from the driver in pages, the largest a sixteenth of the device's memory, which a whole song fills
//! with little. Memory of an exact size is used again by what needs the same size, and by nothing else until it is given back.

use std::cell::RefCell;

use burn_cubecl::cubecl::{
    MemoryAllocationMode,
    cuda::CudaDevice,
    device::{Device, DeviceId},
    device_handle::DeviceHandle,
    server::ComputeServer,
    stream_id::StreamId,
};

use super::task::Server;

thread_local! {
    /// The device of each [`ExactMemory`] that this thread holds.
    static HELD: RefCell<Vec<DeviceId>> = const { RefCell::new(Vec::new()) };
}

/// While one is held, what its thread asks for on the device has exactly its size.
pub(crate) struct ExactMemory {
    device: DeviceId,
}

impl ExactMemory {
    /// Begins also where one is held already: Burn's parameters end it when they come to be.
    pub(crate) fn hold(device: &CudaDevice) -> Self {
        let device = device.to_id();
        HELD.with_borrow_mut(|held| held.push(device));
        switch(device, MemoryAllocationMode::Persistent);
        Self { device }
    }
}

impl Drop for ExactMemory {
    fn drop(&mut self) {
        let is_last = HELD.with_borrow_mut(|held| {
            if let Some(place) = held.iter().rposition(|device| *device == self.device) {
                held.remove(place);
            }
            !held.contains(&self.device)
        });
        if is_last {
            switch(self.device, MemoryAllocationMode::Auto);
        }
    }
}

/// Enqueued, so that it holds from here on in the order of this thread's work.
fn switch(device: DeviceId, mode: MemoryAllocationMode) {
    let stream = StreamId::current();
    DeviceHandle::<Server>::new(device).submit(move |server| server.allocation_mode(mode, stream));
}

//! Small results back to the host without waiting for them at once.
#![allow(unsafe_code, reason = "calls into the CUDA driver")]

use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::c_void,
    slice,
    sync::{Mutex, mpsc},
};

use burn::tensor::{DType, Int, Tensor, backend::Backend};
use burn_cubecl::cubecl::{
    device::{Device, DeviceId},
    device_handle::DeviceHandle,
};
use cudarc::driver::{
    result as driver,
    sys::{self as cu, CUevent},
};

use super::{
    CudaTensor, int_tensor,
    task::{self, Described, Queue, Server, event},
};

/// Integers that one read may have.
const MOST: usize = 256;

/// A pinned buffer, and the event after which it is filled.
#[derive(Debug)]
struct Slot {
    memory: *mut c_void,
    filled: CUevent,
}

// SAFETY: pinned memory and events belong to the device's context and not to a thread.
unsafe impl Send for Slot {}

/// Slots that nobody waits for, by device.
static FREE: Mutex<Vec<(DeviceId, Slot)>> = Mutex::new(Vec::new());

thread_local! {
    /// One queue per device, on that device's thread.
    static QUEUES: RefCell<HashMap<DeviceId, Queue>> = RefCell::default();
}

/// See [`PendingRead`](crate::PendingRead).
#[derive(Debug)]
pub(crate) struct PendingRead {
    device: DeviceId,
    len: usize,
    slot: mpsc::Receiver<Slot>,
}

impl PendingRead {
    pub(crate) fn begin<B: Backend>(tensor: &Tensor<B, 1, Int>) -> Option<Self> {
        let tensor: CudaTensor = int_tensor(tensor)?;
        let len = tensor.meta.shape()[0];
        if tensor.dtype != DType::I32 || !tensor.is_contiguous() || len > MOST {
            return None;
        }
        let device = tensor.device.to_id();
        let (sender, slot) = mpsc::channel();
        task::enqueue(device, vec![tensor.handle], move |pointers| {
            let free = take_free(device);
            let slot = match free {
                Some(slot) => slot,
                None => Slot::new()?,
            };
            QUEUES.with_borrow_mut(|queues| {
                let queue = match queues.entry(device) {
                    std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                    std::collections::hash_map::Entry::Vacant(entry) => entry.insert(Queue::open()?),
                };
                queue.between(|stream| {
                    // SAFETY: the buffer has room for `MOST` integers, and nobody else holds it.
                    let buffer = unsafe { slice::from_raw_parts_mut(slot.memory.cast::<i32>(), len) };
                    // SAFETY: the tensor holds `len` integers; the buffer is read after the event only.
                    unsafe {
                        driver::memcpy_dtoh_async(buffer, pointers[0], stream).described("copy from the device")?;
                        driver::event::record(slot.filled, stream).described("record a copy")
                    }
                })
            })?;
            // Whoever no longer waits does not need it.
            _ = sender.send(slot);
            Ok(())
        });
        // The task would otherwise stay in the caller's batch until something else pushes it out.
        DeviceHandle::<Server>::new(device).flush_queue();
        Some(Self { device, len, slot })
    }

    pub(crate) fn wait(self) -> Result<Vec<i32>, String> {
        let Ok(slot) = self.slot.recv() else {
            return Err(task::take_error().unwrap_or_else(|| "the device's thread ended".to_owned()));
        };
        // SAFETY: the event was recorded on the device's thread, and its context lives as long as the process.
        unsafe { cu::cuEventSynchronize(slot.filled) }.result().described("wait for a copy")?;
        // SAFETY: the copy has filled that many integers.
        let values = unsafe { slice::from_raw_parts(slot.memory.cast::<i32>(), self.len) }.to_vec();
        FREE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((self.device, slot));
        Ok(values)
    }
}

fn take_free(device: DeviceId) -> Option<Slot> {
    let mut free = FREE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let index = free.iter().position(|(of, _)| *of == device)?;
    Some(free.swap_remove(index).1)
}

impl Slot {
    /// Makes a slot in the current context.
    fn new() -> Result<Self, String> {
        // SAFETY: the context is current on this thread; the memory lives as long as the process.
        let memory = unsafe { driver::malloc_host(MOST * size_of::<i32>(), 0) }.described("allocate pinned memory")?;
        Ok(Self { memory, filled: event()? })
    }
}

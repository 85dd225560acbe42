//! Work of our own between CubeCL's launches.
//!
//! A task runs on CubeCL's device thread, in the same queue as its launches, with the device's context current. What it
//! enqueues goes to a stream of its own that is ordered by context events: it starts after everything that was enqueued
//! before, and everything enqueued later waits for it. An enqueued task cannot return an error, so a failure is kept for
//! whoever asks.
#![allow(unsafe_code, reason = "calls into the CUDA driver")]

use std::sync::Mutex;

use burn_cubecl::cubecl::{
    self,
    cuda::CudaRuntime,
    device::DeviceId,
    device_handle::DeviceHandle,
    server::{ComputeServer, Handle},
    stream_id::StreamId,
};
use cudarc::driver::{
    DriverError, result as driver,
    sys::{self as cu, CUevent, CUstream},
};

type Server = <CudaRuntime as cubecl::Runtime>::Server;

/// Failures on the device thread that nobody has asked for yet.
static ERROR: Mutex<Option<String>> = Mutex::new(None);

/// Returns and forgets the first failure.
pub(super) fn take_error() -> Option<String> {
    ERROR.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
}

/// Turns a driver's or a library's status into words.
pub(super) trait Described<T> {
    fn described(self, what: &str) -> Result<T, String>;
}

impl<T> Described<T> for Result<T, DriverError> {
    fn described(self, what: &str) -> Result<T, String> {
        self.map_err(|error| format!("CUDA driver: {what}: {error}"))
    }
}

/// Enqueues `work` on the device thread; it receives where `handles` lie on the device.
pub(super) fn enqueue(
    device: DeviceId,
    handles: Vec<Handle>,
    work: impl FnOnce(&[u64]) -> Result<(), String> + Send + 'static,
) {
    let stream = StreamId::current();
    DeviceHandle::<Server>::new(device).submit(move |server| {
        if let Err(error) = with_pointers(server, stream, handles, work) {
            ERROR.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(error);
        }
    });
}

/// Runs `work` on the device thread and waits for it to return.
pub(super) fn wait_for<T: Send>(
    device: DeviceId,
    handles: Vec<Handle>,
    work: impl FnOnce(&[u64]) -> Result<T, String> + Send,
) -> Result<T, String> {
    let stream = StreamId::current();
    DeviceHandle::<Server>::new(device)
        .submit_blocking(move |server| with_pointers(server, stream, handles, work))
        .map_err(|error| format!("the device's thread does not answer: {error:?}"))?
}

/// The resources are held until the work is enqueued. Asking for them also makes the device's context current.
fn with_pointers<T>(
    server: &mut Server,
    stream: StreamId,
    handles: Vec<Handle>,
    work: impl FnOnce(&[u64]) -> Result<T, String>,
) -> Result<T, String> {
    let mut resources = Vec::with_capacity(handles.len());
    for handle in handles {
        resources.push(server.get_resource(handle.binding(), stream).map_err(|error| format!("{error:?}"))?);
    }
    let pointers: Vec<u64> = resources.iter().map(|resource| resource.resource().ptr).collect();
    work(&pointers)
}

/// A stream of its own, and the events that order it with CubeCL's.
pub(super) struct Queue {
    stream: CUstream,
    before: CUevent,
    after: CUevent,
}

impl Queue {
    /// Makes a queue in the current context. It lives as long as the device's thread.
    pub(super) fn open() -> Result<Self, String> {
        let stream = driver::stream::create(driver::stream::StreamKind::NonBlocking).described("create a stream")?;
        Ok(Self { stream, before: event()?, after: event()? })
    }

    /// Runs what `enqueue` puts on the stream after everything enqueued so far and before everything enqueued later.
    pub(super) fn between<T>(&self, enqueue: impl FnOnce(CUstream) -> Result<T, String>) -> Result<T, String> {
        let context = driver::ctx::get_current().described("find the current context")?;
        let context = context.ok_or("CUDA driver: no context is current")?;
        // SAFETY: both events and the stream belong to the current context.
        unsafe {
            cu::cuCtxRecordEvent(context, self.before).result().described("record what comes before")?;
            driver::stream::wait_event(self.stream, self.before, cu::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT)
                .described("wait for what comes before")?;
        }
        let result = enqueue(self.stream)?;
        // SAFETY: as above.
        unsafe {
            driver::event::record(self.after, self.stream).described("record the work")?;
            cu::cuCtxWaitEvent(context, self.after).result().described("make what follows wait")?;
        }
        Ok(result)
    }
}

/// An event of the current context that only orders and does not measure.
pub(super) fn event() -> Result<CUevent, String> {
    driver::event::create(cu::CUevent_flags::CU_EVENT_DISABLE_TIMING).described("create an event")
}

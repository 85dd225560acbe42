//! Host memory to the device, in large pieces through pinned memory.
//!
//! A copy from ordinary memory goes through a small buffer of the driver's and waits for each piece. Here a few large
//! pinned buffers take turns: while the device fetches one, threads fill the next, so the speed is that of reading the
//! source.
#![allow(unsafe_code, reason = "calls into the CUDA driver")]

use std::{cell::RefCell, collections::HashMap, ffi::c_void, slice, thread};

use burn_cubecl::cubecl::{device::DeviceId, server::Handle};
use cudarc::driver::{
    result as driver,
    sys::{self as cu, CUevent, CUstream},
};

use super::task::{self, Described, Queue, event};

/// Bytes of one pinned buffer.
const PIECE: usize = 32 << 20;

/// Pinned buffers that take turns.
const PIECES: usize = 4;

/// Threads that fill a buffer. One reads a mapped file at 3 to 6 GB/s; the device takes over 50.
const FILLERS: usize = 4;

thread_local! {
    /// One set of buffers per device, on that device's thread.
    static STAGES: RefCell<HashMap<DeviceId, Stage>> = RefCell::default();
}

/// Copies `bytes` to the start of `handle`; returns when they have been read, not when they have arrived: everything
/// enqueued later waits for that.
pub(super) fn copy(device: DeviceId, handle: Handle, bytes: &[u8]) -> Result<(), String> {
    task::wait_for(device, vec![handle], |pointers| {
        STAGES.with_borrow_mut(|stages| {
            let stage = match stages.entry(device) {
                std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::hash_map::Entry::Vacant(entry) => entry.insert(Stage::open()?),
            };
            stage.copy(pointers[0], bytes)
        })
    })
}

struct Stage {
    queue: Queue,
    pieces: Vec<Piece>,
}

/// A pinned buffer, and the event after which the device has read it.
struct Piece {
    memory: *mut c_void,
    read: CUevent,
}

impl Stage {
    fn open() -> Result<Self, String> {
        let piece = |_| {
            // SAFETY: the context is current on this thread; the memory lives as long as the thread.
            let memory = unsafe { driver::malloc_host(PIECE, 0) }.described("allocate pinned memory")?;
            Ok(Piece { memory, read: event()? })
        };
        Ok(Self { queue: Queue::open()?, pieces: (0..PIECES).map(piece).collect::<Result<_, String>>()? })
    }

    fn copy(&self, destination: u64, bytes: &[u8]) -> Result<(), String> {
        self.queue.between(|stream| {
            for (index, part) in bytes.chunks(PIECE).enumerate() {
                self.pieces[index % PIECES].send(part, destination + (index * PIECE) as u64, stream)?;
            }
            Ok(())
        })
    }
}

impl Piece {
    fn send(&self, part: &[u8], destination: u64, stream: CUstream) -> Result<(), String> {
        // SAFETY: the event belongs to the current context. One that was never recorded counts as done.
        unsafe { cu::cuEventSynchronize(self.read) }.result().described("wait for a pinned buffer")?;
        // SAFETY: the buffer holds `PIECE` bytes, no part is longer, and the device has read what was in it.
        let buffer = unsafe { slice::from_raw_parts_mut(self.memory.cast::<u8>(), part.len()) };
        fill(buffer, part);
        // SAFETY: the destination has room for all parts; the buffer is not touched before the event says it was read.
        unsafe {
            driver::memcpy_htod_async(destination, buffer, stream).described("copy to the device")?;
            driver::event::record(self.read, stream).described("record a copy")
        }
    }
}

fn fill(buffer: &mut [u8], part: &[u8]) {
    let each = part.len().div_ceil(FILLERS).max(1 << 20);
    thread::scope(|scope| {
        for (to, from) in buffer.chunks_mut(each).zip(part.chunks(each)) {
            scope.spawn(move || to.copy_from_slice(from));
        }
    });
}

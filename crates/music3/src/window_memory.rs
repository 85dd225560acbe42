//! Device memory from window to window.

use burn::tensor::backend::Backend;

/// Gives back what a window of another length was computed in: it is of no use to the next one.
#[derive(Debug, Default)]
pub(crate) struct WindowMemory {
    len: Option<usize>,
}

impl WindowMemory {
    /// Begins a window of so many latents.
    pub(crate) fn begin<B: Backend>(&mut self, len: usize, device: &B::Device) {
        if self.len.replace(len).is_some_and(|before| before != len) {
            B::memory_cleanup(device);
        }
    }
}

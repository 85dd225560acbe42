//! One function per torch op with its rounding points, and the layers made of them.
//!
//! A bf16 torch module rounds at every op boundary, so an f32 forward is a different computation and not a better one.
//! [`ops`] holds one function per torch op; each takes the [`Width`] its result is stored in and rounds exactly where
//! torch rounds. Model code calls these functions and rounds nowhere else. [`layers`] holds the parameters.

pub mod decoder;
pub mod kv_cache;
pub mod layers;
pub mod ops;
pub mod rotary;
mod width;

pub use kv_cache::{KvCache, LayerCache};
#[cfg(feature = "cuda")]
pub use music3_kernels::cache_compiled_kernels;
pub use music3_kernels::{
    ComputePath, DeviceReport, Draw, Matmul, PendingRead, device_report, exact_memory, free_device_bytes,
    take_device_error, try_draw,
};
pub use rotary::RotaryTable;
pub use width::Width;

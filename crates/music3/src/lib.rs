//! MiniMax-Music3 on Burn: lyrics and a caption in, a 44.1 kHz stereo song out.
//!
//! [`Music3::open`] takes a checkpoint folder and a device of any Burn backend, [`Music3::generate`] makes a song. The
//! stages are public: [`autoregressive`], [`flow`] and [`vocode`](mod@vocode) run one half at a time on modules that the caller holds.

pub mod autoregressive;
mod configs;
#[cfg(feature = "demo")]
pub mod demo;
mod error;
mod estimate;
pub mod flow;
mod picker;
mod precision;
mod progress;
mod request;
pub mod rng;
mod sampler;
pub mod sampling;
pub mod schedule;
mod song;
mod speed;
#[cfg(feature = "demo")]
pub mod synth;
pub mod vocode;

pub use autoregressive::FinishReason;
pub use configs::ModelConfigs;
pub use error::{SongError, Stage};
pub use estimate::{Bf16Storage, Estimate, RunSize, StageEstimate};
/// Audio in memory, its levels, and WAV files.
pub use music3_audio as audio;
#[cfg(feature = "cuda")]
pub use music3_nn::cache_compiled_kernels;
pub use music3_nn::{ComputePath, DeviceReport, Matmul, device_report};
pub use music3_text::ControlTokens;
pub use precision::Precision;
pub use progress::{Listener, OnProgress, Progress, Tap};
pub use request::{DEFAULT_MAX_SECONDS, SongRequest};
pub use sampler::Sampler;
pub use song::{Music3, Options, Song, SongSource, StageTiming};
pub use speed::Speed;

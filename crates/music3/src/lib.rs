//! MiniMax-Music3 on Burn: lyrics and a caption in, a 44.1 kHz stereo song out.
//!
//! [`Music3::open`] takes a checkpoint folder and a device of any Burn backend, [`Music3::generate`] makes a song. The
//! stages are public: [`autoregressive`], [`flow`] and [`vocode`](mod@vocode) run one half at a time on modules that the
//! caller holds. Those are ordinary Burn modules: [`Music3::load_transformer`] and its like return them one by one, also
//! on `Autodiff<B>`.
//!
//! # Features
//! `flex`, `ndarray` (both default) and `cuda` compile fast paths for these backends; any other backend takes plain
//! tensor ops. None of them chooses a backend: that is the caller's `B`. `demo` adds the tiny checkpoint that the program
//! carries, and random checkpoints.

pub mod autoregressive;
mod configs;
#[cfg(feature = "demo")]
pub mod demo;
mod error;
mod estimate;
mod fingerprint;
pub mod flow;
mod frames_error;
mod load;
mod picker;
mod precision;
mod progress;
mod recipe;
mod request;
pub mod rng;
mod sampler;
pub mod sampling;
mod saved_frames;
pub mod schedule;
mod song;
mod speed;
#[cfg(feature = "demo")]
pub mod synth;
pub mod vocode;
mod window_memory;

pub use autoregressive::FinishReason;
pub use configs::ModelConfigs;
pub use error::{SongError, Stage};
pub use estimate::{Bf16Storage, Estimate, RunSize, StageEstimate};
pub use frames_error::FramesError;
/// Audio in memory, its levels, and WAV files.
pub use music3_audio as audio;
/// The five components as Burn modules, with their configurations.
pub use music3_model as model;
#[cfg(feature = "cuda")]
pub use music3_nn::cache_compiled_kernels;
pub use music3_nn::{ComputePath, DeviceReport, Matmul, Width, device_report, exact_memory, free_device_bytes};
pub use music3_text::{ControlTokens, PromptIds};
/// Checkpoint folders: what they hold, and how modules are filled from them.
pub use music3_weights as weights;
pub use music3_weights::Component;
pub use precision::Precision;
pub use progress::{Listener, OnProgress, Progress, Tap};
pub use recipe::{
    FramesFile, ModelSource, Outcome, Recipe, RecipeError, RecipeModel, RecipeParts, codes_sha256, file_sha256,
};
pub use request::{DEFAULT_MAX_SECONDS, SongRequest};
pub use sampler::Sampler;
pub use saved_frames::{FramesOrigin, SavedFrames, stage_frames};
pub use song::{Music3, Options, Song, SongSource, StageTiming};
pub use speed::Speed;

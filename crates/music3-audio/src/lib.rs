//! Windows of a song and their samples: planning, cropping, stitching, levels and WAV files.
//!
//! The acoustic half of the model works on windows of 200 frames that overlap by half. This crate holds what of that is
//! plain arithmetic: which frames each window covers ([`WindowPlan`]), which frame each latent looks at
//! ([`LatentRates::nearest_index`]), what is cut from each window's samples ([`crop_window`]) and how they are joined
//! ([`stitch`]). The result, a [`StereoAudio`], is measured ([`levels`]) and written ([`write_wav`]), whole or not at all
//! ([`Staged`]).

mod audio;
mod error;
mod levels;
mod rates;
mod staged;
mod stitch;
mod wav;
mod window;

pub use audio::StereoAudio;
pub use error::AudioError;
pub use levels::{Levels, levels};
pub use rates::LatentRates;
pub use staged::{Staged, check_writable};
pub use stitch::{WindowPosition, crop_window, stitch};
pub use wav::{SampleFormat, read_wav, stage_wav, write_wav};
pub use window::{Window, WindowPlan};

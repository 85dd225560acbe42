//! Windows of a song and their samples: planning, cropping, stitching, levels and WAV files.
//!
//! The acoustic half of the model works on windows of 200 frames that overlap by half. This crate holds what of that is
//! plain arithmetic: which frames each window covers ([`WindowPlan`]), which frame each latent looks at
//! ([`LatentRates::nearest_index`]), what is cut from each window's samples ([`crop_window`]) and how they are joined
//! ([`stitch`]). The result, a [`StereoAudio`], is measured ([`levels`]) and written ([`write_wav`]).

mod audio;
mod error;
mod levels;
mod rates;
mod stitch;
mod wav;
mod window;

pub use audio::StereoAudio;
pub use error::AudioError;
pub use levels::{Levels, levels};
pub use rates::LatentRates;
pub use stitch::{WindowPosition, crop_window, stitch};
pub use wav::{SampleFormat, check_writable, read_wav, write_wav};
pub use window::{Window, WindowPlan};

//! From the samples of the windows to the samples of the song.
//!
//! # Upstream
//! `modular_pipelines/minimax_music3/decoders.py:30-31,82-91`; deviations: none.

use std::ops::Range;

use crate::audio::StereoAudio;
use crate::rates::LatentRates;

/// Latents cut from the start of every window but the first. Upstream: `decoders.py:30`.
const CROP_LEFT_LATENTS: usize = 86;
/// Latents cut from the end of every window but the last. Upstream: `decoders.py:31`.
const CROP_RIGHT_LATENTS: usize = 258;

/// Which of a song's windows is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowPosition {
    /// The window's number, from 0.
    pub index: usize,
    /// How many windows the song has.
    pub count: usize,
}

/// Returns which of a window's samples belong to the song.
///
/// `hop_length` is the samples of one latent.
///
/// # Panics
/// The window is not one of the song's.
pub fn crop_window(position: WindowPosition, samples: usize, hop_length: usize) -> Range<usize> {
    let WindowPosition { index, count } = position;
    assert!(index < count, "window {index} of {count}");
    let left = if index == 0 { 0 } else { CROP_LEFT_LATENTS * hop_length };
    let right = if index + 1 == count { 0 } else { CROP_RIGHT_LATENTS * hop_length };
    // Upstream quirk: an end before the start of the window counts from its end, as Python's slices do. Only windows
    // at hand-made places are that short.
    let end = samples.checked_sub(right).unwrap_or_else(|| (2 * samples).saturating_sub(right));
    left.min(end)..end
}

/// Returns the song that the windows' samples make: cropped, joined and clamped to ±1; a NaN stays a NaN.
///
/// # Panics
/// The two channels of a window differ in length.
pub fn stitch(windows: &[[Vec<f32>; 2]], rates: &LatentRates) -> StereoAudio {
    let hop_length = rates.output_hop_length as usize;
    let count = windows.len();
    let channels = [0, 1].map(|channel| {
        windows
            .iter()
            .enumerate()
            .flat_map(|(index, window)| {
                let samples = &window[channel];
                &samples[crop_window(WindowPosition { index, count }, samples.len(), hop_length)]
            })
            .map(|sample| sample.clamp(-1.0, 1.0))
            .collect()
    });
    StereoAudio::new(channels, rates.output_sampling_rate)
}

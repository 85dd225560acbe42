//! Latents of all windows to the samples of a song.
//!
//! # Source
//! `modular_pipelines/minimax_music3/decoders.py:74-97`.

use std::ops::ControlFlow;

use burn::tensor::{Tensor, backend::Backend};
use music3_audio::{LatentRates, StereoAudio, stitch};
use music3_model::Vocoder;
use music3_nn::ops;

use crate::{
    error::{SongError, Stage},
    progress::{Listener, Progress, Tap},
    window_memory::WindowMemory,
};

/// Decodes each window, cuts off what its neighbours cover, joins and clamps.
///
/// # Shapes
/// `latents`: one `[1, channels, latents]` per window
///
/// # Errors
/// [`SongError::NonFinite`] with the window, [`SongError::Cancelled`] if the listener breaks.
pub fn vocode<B: Backend>(
    vocoder: &Vocoder<B>,
    latents: Vec<Tensor<B, 3>>,
    rates: &LatentRates,
    listener: &mut dyn Listener<B>,
) -> Result<StereoAudio, SongError> {
    let Some(first) = latents.first() else { return Ok(stitch(&[], rates)) };
    // Windows ask for the same sizes, all but the last.
    music3_nn::exact_memory::<B, _>(&first.device(), || vocode_windows(vocoder, latents, rates, listener))
}

fn vocode_windows<B: Backend>(
    vocoder: &Vocoder<B>,
    latents: Vec<Tensor<B, 3>>,
    rates: &LatentRates,
    listener: &mut dyn Listener<B>,
) -> Result<StereoAudio, SongError> {
    let windows = latents.len();
    let mut waveforms = Vec::with_capacity(windows);
    let mut memory = WindowMemory::default();
    for (window, latents) in latents.into_iter().enumerate() {
        memory.begin::<B>(latents.dims()[2], &latents.device());
        let waveform = vocoder.forward(ops::round(ops::widen(latents), vocoder.width()));
        listener.tap(Tap::Waveform { window, tensor: &waveform });
        waveforms.push(channels(waveform, window)?);
        if let ControlFlow::Break(()) = listener.progress(Progress::Vocoded { window: window + 1, windows }) {
            return Err(SongError::Cancelled { stage: Stage::Vocoder });
        }
    }
    Ok(stitch(&waveforms, rates))
}

/// `[1, 2, samples]` → left and right on the host
fn channels<B: Backend>(waveform: Tensor<B, 3>, window: usize) -> Result<[Vec<f32>; 2], SongError> {
    let [_, _, samples] = waveform.dims();
    let data = ops::widen(waveform).into_data();
    let values = data.as_slice::<f32>().expect("widened tensors are f32");
    if !values.iter().all(|value| value.is_finite()) {
        let place = format!("window {}", window + 1);
        return Err(SongError::NonFinite { stage: Stage::Vocoder, what: "the waveform", place });
    }
    Ok([values[..samples].to_vec(), values[samples..].to_vec()])
}

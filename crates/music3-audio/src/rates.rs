//! From the frames of the language model to the latents of the acoustic half.

/// The two clocks that a window runs on: frames, given by the input rate and hop, and latents, by the output's.
///
/// The default is the published model's: frames of 960 samples at 24 kHz, 25 a second, and latents of 512 samples at
/// 44.1 kHz, 86.13 a second.
///
/// # Source
/// `models/condition_embedders/condition_embedder_minimax_music3.py:32-37`, the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatentRates {
    /// Samples per second that frames are counted in; `input_sampling_rate`.
    pub input_sampling_rate: u32,
    /// Samples of a frame; `input_hop_length`.
    pub input_hop_length: u32,
    /// Samples per second of the audio; `output_sampling_rate`.
    pub output_sampling_rate: u32,
    /// Samples of a latent; `output_hop_length`.
    pub output_hop_length: u32,
}

impl Default for LatentRates {
    fn default() -> Self {
        Self {
            input_sampling_rate: 24_000,
            input_hop_length: 960,
            output_sampling_rate: 44_100,
            output_hop_length: 512,
        }
    }
}

impl LatentRates {
    /// Returns the latents of that many frames, one at least.
    ///
    /// The factors are applied one by one in doubles and the result is cut off, as upstream does.
    ///
    /// # Source
    /// `models/condition_embedders/condition_embedder_minimax_music3.py:66-75`
    pub fn latent_length(&self, frames: usize) -> usize {
        let latents = frames as f64 * f64::from(self.output_sampling_rate) / f64::from(self.input_sampling_rate)
            * f64::from(self.input_hop_length)
            / f64::from(self.output_hop_length);
        (latents as usize).max(1)
    }

    /// Returns, for each latent of a window of that many frames, the frame it takes its condition from.
    ///
    /// This is torch's nearest rule, which is computed in f32: exact integers give another frame in 13 of the 200
    /// possible windows of the published rates, the first of 32 frames at latent 55.
    ///
    /// # Panics
    /// There are no frames.
    pub fn nearest_index(&self, frames: usize) -> Vec<usize> {
        assert!(frames > 0, "a window has at least one frame");
        let latents = self.latent_length(frames);
        let scale = frames as f32 / latents as f32;
        (0..latents).map(|latent| ((latent as f32 * scale) as usize).min(frames - 1)).collect()
    }
}

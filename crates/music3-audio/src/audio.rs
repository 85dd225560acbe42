//! Stereo samples in memory.

/// Stereo samples, one vector a channel, left first, full scale at ±1.
#[derive(Debug, Clone, PartialEq)]
pub struct StereoAudio {
    channels: [Vec<f32>; 2],
    sample_rate_hz: u32,
}

impl StereoAudio {
    /// Returns the audio of a left and a right channel.
    ///
    /// # Panics
    /// The channels differ in length.
    pub fn new(channels: [Vec<f32>; 2], sample_rate_hz: u32) -> Self {
        let [left, right] = &channels;
        assert_eq!(left.len(), right.len(), "the left and the right channel differ in length");
        Self { channels, sample_rate_hz }
    }

    /// Returns the left and the right channel.
    pub fn channels(&self) -> &[Vec<f32>; 2] {
        &self.channels
    }

    /// Returns the left and the right channel, given away.
    pub fn into_channels(self) -> [Vec<f32>; 2] {
        self.channels
    }

    /// Returns the number of samples of one channel.
    pub fn samples(&self) -> usize {
        self.channels[0].len()
    }

    /// Returns the samples of one channel per second.
    pub fn sample_rate_hz(&self) -> u32 {
        self.sample_rate_hz
    }

    /// Returns how long the audio plays.
    pub fn duration_secs(&self) -> f64 {
        self.samples() as f64 / f64::from(self.sample_rate_hz)
    }
}

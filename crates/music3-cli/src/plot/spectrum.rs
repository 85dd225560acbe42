//! How loud each frequency is at each time.

use std::f64::consts::TAU;

use realfft::RealFftPlanner;

/// Samples that are looked at together: 93 ms at 44.1 kHz, which tells tones 11 Hz apart.
const LENGTH: usize = 4096;

/// Power at frequencies and times.
pub(super) struct Spectrogram {
    /// Per column, power per bin; a full-scale sine has 1.
    columns: Vec<Vec<f32>>,
    bin_hz: f64,
}

impl Spectrogram {
    /// Returns `columns` spectra that are spread over the samples. What falls between two columns counts in the mean.
    pub(super) fn new(samples: &[f32], sample_rate_hz: u32, columns: usize) -> Self {
        let fft = RealFftPlanner::<f32>::new().plan_fft_forward(LENGTH);
        let window: Vec<f32> =
            (0..LENGTH).map(|index| (0.5 - 0.5 * (TAU * index as f64 / LENGTH as f64).cos()) as f32).collect();
        let scale = 2.0 / window.iter().sum::<f32>();
        let (mut input, mut output) = (fft.make_input_vec(), fft.make_output_vec());
        let mut spectrum = |centre: usize, powers: &mut [f32], weight: f32| {
            for (index, (value, window)) in input.iter_mut().zip(&window).enumerate() {
                let place = (centre + index).checked_sub(LENGTH / 2);
                *value = place.and_then(|place| samples.get(place)).copied().unwrap_or(0.0) * window;
            }
            fft.process(&mut input, &mut output).expect("both buffers are the plan's own");
            for (power, value) in powers.iter_mut().zip(&output) {
                *power += (value.norm() * scale).powi(2) * weight;
            }
        };
        let columns = (0..columns)
            .map(|column| {
                let at = |column: usize| column * samples.len() / columns;
                let (start, end) = (at(column), at(column + 1).max(at(column) + 1));
                let centres: Vec<usize> = (start..end).step_by(LENGTH / 2).collect();
                let mut powers = vec![0.0; LENGTH / 2 + 1];
                centres.iter().for_each(|&centre| spectrum(centre, &mut powers, 1.0 / centres.len() as f32));
                powers
            })
            .collect();
        Self { columns, bin_hz: f64::from(sample_rate_hz) / LENGTH as f64 }
    }

    /// Returns the level of a column between two frequencies, in dB of a full-scale sine: that of the loudest bin between
    /// them, or what lies between two bins if there is none.
    pub(super) fn level_db(&self, column: usize, from_hz: f64, to_hz: f64) -> f64 {
        let bins = &self.columns[column];
        let (from, to) = (from_hz / self.bin_hz, to_hz / self.bin_hz);
        let (first, end) = (from.ceil() as usize, (to.floor() as usize + 1).min(bins.len()));
        let power = if first < end {
            bins[first..end].iter().copied().fold(0.0, f32::max)
        } else {
            let place = ((from + to) / 2.0).min((bins.len() - 1) as f64);
            let below = (place as usize).min(bins.len() - 2);
            let part = (place - below as f64) as f32;
            bins[below] * (1.0 - part) + bins[below + 1] * part
        };
        10.0 * f64::from(power).log10()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_is_where_and_as_loud_as_it_is() {
        let rate = 44_100;
        // Exactly in the middle of bin 100, at half of full scale.
        let hz = 100.0 * f64::from(rate) / LENGTH as f64;
        let tone: Vec<f32> =
            (0..rate).map(|index| (0.5 * (TAU * hz * f64::from(index) / f64::from(rate)).sin()) as f32).collect();
        let spectrogram = Spectrogram::new(&tone, rate as u32, 20);
        for column in 2..18 {
            let level = spectrogram.level_db(column, hz - 5.0, hz + 5.0);
            assert!((level + 6.02).abs() < 0.05, "{level}");
            assert!(spectrogram.level_db(column, 3.0 * hz, 4.0 * hz) < -90.0);
        }
        // The first of the two places that the first column looks at is half silence: a quarter of the power, so that the
        // mean is 2 dB less.
        assert!((spectrogram.level_db(0, hz - 5.0, hz + 5.0) + 8.06).abs() < 0.05);
    }

    #[test]
    fn what_a_wide_column_covers_is_seen() {
        // Loud noise-like steps in one short place of a long silence.
        let mut samples = vec![0.0; 400_000];
        samples[130_000..130_400].iter_mut().enumerate().for_each(|(index, value)| *value = (index % 7) as f32 / 7.0);
        let spectrogram = Spectrogram::new(&samples, 44_100, 10);
        let loud: Vec<usize> = (0..10).filter(|&column| spectrogram.level_db(column, 100.0, 8000.0) > -80.0).collect();
        assert_eq!(loud, [3]);
    }
}

//! How loud a piece of audio is, and whether something is wrong with it.

use crate::audio::StereoAudio;

/// Levels of a piece of audio, over both channels. Full scale is ±1; silence is at −∞ dB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Levels {
    /// The largest sample, in dB of full scale.
    pub peak_dbfs: f64,
    /// The root mean square of the samples, in dB of full scale: a full-scale square wave is at 0, a sine at −3.01.
    pub rms_dbfs: f64,
    /// Samples at full scale or beyond.
    pub clipped_samples: usize,
    /// Samples that are NaN or infinite; they count in no other figure.
    pub non_finite: usize,
}

/// Returns the levels of the audio.
pub fn levels(audio: &StereoAudio) -> Levels {
    let mut peak = 0.0_f64;
    let mut energy = 0.0_f64;
    let mut finite = 0_usize;
    let mut clipped_samples = 0;
    for &sample in audio.channels().iter().flatten().filter(|sample| sample.is_finite()) {
        let magnitude = f64::from(sample).abs();
        peak = peak.max(magnitude);
        energy += magnitude * magnitude;
        finite += 1;
        clipped_samples += usize::from(magnitude >= 1.0);
    }
    // Without a finite sample the mean is that of silence.
    let mean_square = energy / finite.max(1) as f64;
    Levels {
        peak_dbfs: 20.0 * peak.log10(),
        rms_dbfs: 10.0 * mean_square.log10(),
        clipped_samples,
        non_finite: 2 * audio.samples() - finite,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_both_channels() {
        let audio = StereoAudio::new([vec![0.5, -0.5, 0.0, 0.0], vec![-1.0, 1.25, 0.0, 0.0]], 44_100);
        let levels = levels(&audio);
        let mean_square = (0.25 + 0.25 + 1.0 + 1.5625) / 8.0_f64;
        assert!((levels.peak_dbfs - 1.938_200_260_161_128).abs() <= 1e-12);
        assert!((levels.rms_dbfs - 10.0 * mean_square.log10()).abs() <= 1e-12);
        assert_eq!((levels.clipped_samples, levels.non_finite), (2, 0));
    }

    #[test]
    fn counts_what_is_no_sound() {
        let audio = StereoAudio::new([vec![f32::NAN, 0.1], vec![f32::NEG_INFINITY, 0.1]], 44_100);
        let levels = levels(&audio);
        assert_eq!((levels.clipped_samples, levels.non_finite), (0, 2));
        assert!((levels.peak_dbfs + 20.0).abs() <= 1e-6);
        assert!((levels.rms_dbfs + 20.0).abs() <= 1e-6);
    }

    #[test]
    fn silence_and_nothing_are_at_minus_infinity() {
        for samples in [vec![], vec![0.0; 3]] {
            let levels = levels(&StereoAudio::new([samples.clone(), samples], 44_100));
            assert_eq!((levels.peak_dbfs, levels.rms_dbfs), (f64::NEG_INFINITY, f64::NEG_INFINITY));
        }
    }
}

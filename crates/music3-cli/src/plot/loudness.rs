//! Levels of stretches of a song, and samples at full scale.

use music3::audio::StereoAudio;

/// What a 16-bit file holds at most. Anything that loud was cut off, or is about to be.
const FULL_SCALE: f32 = 32_767.0 / 32_768.0;

/// Stretches that a level is measured over.
pub(super) const STRETCH_SECS: f64 = 0.25;

/// The level of a stretch, over both channels; silence is at −∞.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    pub(super) rms_dbfs: f64,
    pub(super) peak_dbfs: f64,
}

/// Returns the numbers of the samples at full scale, per channel.
pub(super) fn clipped(audio: &StereoAudio) -> [Vec<usize>; 2] {
    [0, 1].map(|channel| {
        let samples = audio.channels()[channel].iter().enumerate();
        samples.filter(|(_, sample)| sample.abs() >= FULL_SCALE).map(|(index, _)| index).collect()
    })
}

/// Returns the level of each quarter of a second; the last may be shorter.
pub(super) fn stretches(audio: &StereoAudio) -> Vec<Stretch> {
    let len = ((f64::from(audio.sample_rate_hz()) * STRETCH_SECS) as usize).max(1);
    let [left, right] = audio.channels();
    left.chunks(len)
        .zip(right.chunks(len))
        .map(|(left, right)| {
            let samples = || left.iter().chain(right).map(|&sample| f64::from(sample));
            let mean_square = samples().map(|sample| sample * sample).sum::<f64>() / (2 * left.len()) as f64;
            let peak = samples().fold(0.0, |peak, sample| sample.abs().max(peak));
            Stretch { rms_dbfs: 10.0 * mean_square.log10(), peak_dbfs: 20.0 * peak.log10() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_each_quarter_of_a_second() {
        // 100 Hz: 25 samples a stretch; one loud, one silent, and a part of one at a tenth.
        let samples = [vec![-0.5; 25], vec![0.0; 25], vec![0.1; 5]].concat();
        let found = stretches(&StereoAudio::new([samples.clone(), samples], 100));
        assert_eq!(found.len(), 3);
        assert!((found[0].rms_dbfs + 6.0206).abs() < 1e-4 && (found[0].peak_dbfs + 6.0206).abs() < 1e-4);
        assert_eq!(found[1].rms_dbfs, f64::NEG_INFINITY);
        assert!((found[2].rms_dbfs + 20.0).abs() < 1e-4, "{:?}", found[2]);
    }

    #[test]
    fn a_sample_at_the_end_of_its_range_is_clipped() {
        let left = vec![0.0, FULL_SCALE, -1.0, 0.99];
        assert_eq!(clipped(&StereoAudio::new([left, vec![0.0, 0.0, 1.5, 0.0]], 8)), [vec![1, 2], vec![2]]);
    }
}

//! WAV files: written whole or not at all.

use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;

use hound::{WavReader, WavSpec, WavWriter};

use crate::audio::StereoAudio;
use crate::error::AudioError;
use crate::staged::Staged;

/// Room that the chunks around the samples may take in a WAV file, whose size field has 32 bits.
const MAX_HEADER_BYTES: u64 = 256;

/// How samples are stored in a WAV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SampleFormat {
    /// 16-bit integers, which every player opens.
    #[default]
    Pcm16,
    /// 24-bit integers.
    Pcm24,
    /// 32-bit floats: the samples as they are.
    Float32,
}

impl SampleFormat {
    fn bits(self) -> u16 {
        match self {
            Self::Pcm16 => 16,
            Self::Pcm24 => 24,
            Self::Float32 => 32,
        }
    }

    fn encoding(self) -> hound::SampleFormat {
        match self {
            Self::Pcm16 | Self::Pcm24 => hound::SampleFormat::Int,
            Self::Float32 => hound::SampleFormat::Float,
        }
    }
}

/// Writes the audio as a stereo WAV file, replacing a file of that name only once the new one is whole.
///
/// Integer formats round to nearest, ties to even, and clamp to their range; full scale, 1, is the largest integer plus
/// one, so that reading and writing again changes nothing.
///
/// # Errors
/// The file cannot be written, or the audio holds a NaN or an infinity. Nothing new is left behind then.
pub fn write_wav(path: &Path, audio: &StereoAudio, format: SampleFormat) -> Result<(), AudioError> {
    stage_wav(path, audio, format)?.complete()
}

/// Writes the audio beside its final name, which [`Staged::complete`] gives it. See [`write_wav`].
///
/// # Errors
/// As [`write_wav`].
pub fn stage_wav(path: &Path, audio: &StereoAudio, format: SampleFormat) -> Result<Staged, AudioError> {
    check_samples(path, audio, format)?;
    Staged::write(path, |file| write_samples(file, audio, format).map_err(io_error))
}

/// Returns the audio of a stereo WAV file of integers of up to 32 bits, or of 32-bit floats.
///
/// # Errors
/// The file cannot be read, or is not stereo.
pub fn read_wav(path: &Path) -> Result<StereoAudio, AudioError> {
    let failed = |cause| AudioError::Read { path: path.to_owned(), cause };
    let mut reader = WavReader::open(path).map_err(failed)?;
    let WavSpec { channels, sample_rate, bits_per_sample, sample_format } = reader.spec();
    if channels != 2 {
        return Err(AudioError::NotStereo { path: path.to_owned(), found: channels });
    }
    let interleaved = match sample_format {
        hound::SampleFormat::Float => collect(reader.samples::<f32>()),
        hound::SampleFormat::Int => {
            let full_scale = 2.0_f64.powi(i32::from(bits_per_sample) - 1);
            collect(reader.samples::<i32>().map(|sample| Ok((f64::from(sample?) / full_scale) as f32)))
        }
    };
    let interleaved = interleaved.map_err(failed)?;
    let channel = |first: usize| interleaved.iter().copied().skip(first).step_by(2).collect();
    // A file that is cut in the middle of a pair was refused above: its last sample is missing.
    Ok(StereoAudio::new([channel(0), channel(1)], sample_rate))
}

/// Collects samples without believing the header's count, for which memory would be taken at once.
fn collect(samples: impl Iterator<Item = hound::Result<f32>>) -> hound::Result<Vec<f32>> {
    let mut collected = Vec::new();
    for sample in samples {
        collected.push(sample?);
    }
    Ok(collected)
}

fn check_samples(path: &Path, audio: &StereoAudio, format: SampleFormat) -> Result<(), AudioError> {
    let bytes = 2 * audio.samples() as u64 * u64::from(format.bits() / 8);
    let maximum = u64::from(u32::MAX) - MAX_HEADER_BYTES;
    if bytes > maximum {
        return Err(AudioError::TooLong { path: path.to_owned(), bytes, maximum });
    }
    for (channel, samples) in ["left", "right"].into_iter().zip(audio.channels()) {
        if let Some(index) = samples.iter().position(|sample| !sample.is_finite()) {
            return Err(AudioError::NotFinite { path: path.to_owned(), channel, index, sample: samples[index] });
        }
    }
    Ok(())
}

fn write_samples<W: Write + Seek>(file: W, audio: &StereoAudio, format: SampleFormat) -> hound::Result<()> {
    let spec = WavSpec {
        channels: 2,
        sample_rate: audio.sample_rate_hz(),
        bits_per_sample: format.bits(),
        sample_format: format.encoding(),
    };
    let mut writer = WavWriter::new(BufWriter::new(file), spec)?;
    let [left, right] = audio.channels();
    for sample in left.iter().zip(right).flat_map(|(&left, &right)| [left, right]) {
        match format {
            SampleFormat::Pcm16 => writer.write_sample(quantize(sample, 16))?,
            SampleFormat::Pcm24 => writer.write_sample(quantize(sample, 24))?,
            SampleFormat::Float32 => writer.write_sample(sample)?,
        }
    }
    writer.finalize()
}

/// Returns the nearest integer of that many bits.
fn quantize(sample: f32, bits: i32) -> i32 {
    let full_scale = 2.0_f64.powi(bits - 1);
    (f64::from(sample) * full_scale).round_ties_even().clamp(-full_scale, full_scale - 1.0) as i32
}

/// Unpacks the system's error from the WAV library's.
fn io_error(error: hound::Error) -> io::Error {
    match error {
        hound::Error::IoError(error) => error,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    /// Takes so many bytes and no more.
    struct FullDisk {
        bytes_left: usize,
    }

    impl Write for FullDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.bytes_left);
            self.bytes_left -= taken;
            if taken == 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for FullDisk {
        fn seek(&mut self, _: io::SeekFrom) -> io::Result<u64> {
            Ok(0)
        }
    }

    #[test]
    fn notices_a_full_disk_wherever_it_strikes() {
        let audio = StereoAudio::new([vec![0.25; 10_000], vec![-0.25; 10_000]], 44_100);
        let whole = 40_044;
        for bytes_left in [0, 1, 43, 44, 8_192, 20_000, whole - 1] {
            let cause = write_samples(FullDisk { bytes_left }, &audio, SampleFormat::Pcm16).map_err(io_error);
            let error = AudioError::Write { path: "a/b.wav".into(), cause: cause.expect_err("a full disk") };
            assert_eq!(error.to_string(), "a/b.wav cannot be written: the disk is full", "{bytes_left} bytes");
        }
    }

    #[test]
    fn quantizes_to_the_nearest_integer_and_clamps() {
        let steps = |x: f64, bits: i32| quantize((x / 2.0_f64.powi(bits - 1)) as f32, bits);
        let table = [(0.0, 0), (0.5, 0), (0.75, 1), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (-1.25, -1)];
        for bits in [16, 24] {
            for (x, expected) in table {
                assert_eq!(steps(x, bits), expected, "{x} steps of {bits} bits");
            }
            let full_scale = 1 << (bits - 1);
            for (sample, expected) in
                [(1.0, full_scale - 1), (7.0, full_scale - 1), (-1.0, -full_scale), (-7.0, -full_scale)]
            {
                assert_eq!(quantize(sample, bits), expected);
            }
        }
    }
}

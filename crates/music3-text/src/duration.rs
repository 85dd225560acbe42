//! From a duration in seconds to the number of frames a song may have.

/// Frames per second of the language model. Upstream: `modular_pipelines/minimax_music3/modular_pipeline.py`.
pub const FRAME_RATE_HZ: f64 = 25.0;

/// The most frames a song may have, six minutes. Upstream: `modular_pipelines/minimax_music3/encoders.py:42`.
pub const MAX_FRAMES: usize = 9000;

/// Why a duration cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// The duration is NaN.
    #[error("duration is not a number; expected seconds greater than zero")]
    NotANumber,
    /// The duration is infinite, of either sign.
    #[error("duration is infinite; expected seconds, of which at most {} are used", MAX_FRAMES as f64 / FRAME_RATE_HZ)]
    Infinite,
    /// The duration is zero.
    #[error("duration is zero seconds; expected more than that")]
    Zero,
    /// The duration is below zero.
    #[error("duration is negative: {seconds} s; expected more than zero")]
    Negative {
        /// The duration that was asked for.
        seconds: f64,
    },
    /// The duration is too short for one frame.
    #[error("duration is shorter than one frame: {seconds} s; a frame lasts {} s", 1.0 / FRAME_RATE_HZ)]
    ShorterThanOneFrame {
        /// The duration that was asked for.
        seconds: f64,
    },
}

/// Returns the most frames a song of this duration may have: `min(int(seconds * 25), 9000)`.
///
/// The product is a double's, as upstream's is, so 1.16 s gives 28 frames and not 29.
///
/// # Errors
/// A duration that gives no frame, or is not a finite number.
///
/// # Source
/// `modular_pipelines/minimax_music3/encoders.py:297`
pub fn frames_for_duration(seconds: f64) -> Result<usize, DurationError> {
    if seconds.is_nan() {
        return Err(DurationError::NotANumber);
    }
    if seconds.is_infinite() {
        return Err(DurationError::Infinite);
    }
    if seconds == 0.0 {
        return Err(DurationError::Zero);
    }
    if seconds < 0.0 {
        return Err(DurationError::Negative { seconds });
    }
    // The conversion truncates, as `int` does, and saturates where the product overflows.
    let frames = (seconds * FRAME_RATE_HZ) as usize;
    if frames == 0 {
        return Err(DurationError::ShorterThanOneFrame { seconds });
    }
    Ok(frames.min(MAX_FRAMES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncates_the_product_of_doubles() {
        let table = [
            (0.04, 1),
            (0.08, 2),
            (1.16, 28),
            (2.32, 57),
            (30.0, 750),
            (359.96, 8999),
            (360.0, 9000),
            (1e300, 9000),
            (f64::MAX, 9000),
        ];
        for (seconds, frames) in table {
            assert_eq!(frames_for_duration(seconds), Ok(frames), "{seconds} s");
        }
    }

    #[test]
    fn refuses_each_useless_duration_in_its_own_words() {
        let table = [
            (f64::NAN, "duration is not a number; expected seconds greater than zero"),
            (f64::INFINITY, "duration is infinite; expected seconds, of which at most 360 are used"),
            (f64::NEG_INFINITY, "duration is infinite; expected seconds, of which at most 360 are used"),
            (-0.0, "duration is zero seconds; expected more than that"),
            (-1.5, "duration is negative: -1.5 s; expected more than zero"),
            (0.0399, "duration is shorter than one frame: 0.0399 s; a frame lasts 0.04 s"),
        ];
        for (seconds, message) in table {
            let error = frames_for_duration(seconds).expect_err("no frames");
            assert_eq!(error.to_string(), message);
        }
    }
}

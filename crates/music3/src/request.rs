//! What a song is made from.

use music3_text::{ControlTokens, duration::frames_for_duration, validate_text};

use crate::{error::SongError, rng::Rng, schedule};

/// Everything that decides what a song is, apart from the model and the machine.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SongRequest {
    /// Description of the music: genre, mood, voices, instruments.
    pub caption: String,
    /// Words to sing, with tags such as `[verse]` on lines of their own.
    pub lyrics: String,
    /// Length at most; the model may end earlier. Capped at six minutes.
    pub max_seconds: f64,
    /// Euler steps per window.
    pub steps: usize,
    /// Start of the random numbers.
    pub seed: u64,
    /// Where the random numbers come from.
    pub rng: Rng,
    /// What happens to control tokens spelled in the lyrics.
    pub control_tokens: ControlTokens,
}

/// Length at most unless asked otherwise. Upstream: `encoders.py:276`.
pub const DEFAULT_MAX_SECONDS: f64 = 60.0;

impl SongRequest {
    /// Returns a request with upstream's defaults: 60 s, 30 steps; seed 0 of torch's generator.
    pub fn new(caption: impl Into<String>, lyrics: impl Into<String>) -> Self {
        Self {
            caption: caption.into(),
            lyrics: lyrics.into(),
            max_seconds: DEFAULT_MAX_SECONDS,
            steps: schedule::DEFAULT_STEPS,
            seed: 0,
            rng: Rng::Torch,
            control_tokens: ControlTokens::Refuse,
        }
    }

    /// Checks everything that can be checked without a model, and returns the frames that the song may have.
    ///
    /// # Errors
    /// A blank text, a length that gives no frame, or no steps.
    pub fn validate(&self) -> Result<usize, SongError> {
        validate_text(&self.caption, &self.lyrics)?;
        let max_frames = frames_for_duration(self.max_seconds)?;
        if self.steps == 0 {
            return Err(SongError::NoSteps);
        }
        Ok(max_frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_needs_no_model_to_be_refused() {
        let good = SongRequest::new("folk", "[verse]\nla");
        assert_eq!(good.validate().expect("a good request"), 1500);
        let bad = [
            SongRequest { caption: " \u{3000}\n".into(), ..good.clone() },
            SongRequest { lyrics: String::new(), ..good.clone() },
            SongRequest { max_seconds: 0.0, ..good.clone() },
            SongRequest { max_seconds: f64::NAN, ..good.clone() },
            SongRequest { max_seconds: 0.03, ..good.clone() },
            SongRequest { steps: 0, ..good.clone() },
        ];
        for request in bad {
            assert!(request.validate().is_err(), "{request:?}");
        }
    }
}

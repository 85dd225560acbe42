//! What can stop a song.

use std::path::PathBuf;

use music3_audio::AudioError;
use music3_model::ConfigError;
use music3_text::{TextError, duration::DurationError};
use music3_weights::WeightsError;

use crate::{frames_error::FramesError, recipe::RecipeError};

/// A part of a run, in the order they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Language model and depth decoder: prompt to frames.
    Autoregressive,
    /// Condition encoder and transformer: frames to latents.
    Flow,
    /// Vocoder: latents to samples.
    Vocoder,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Autoregressive => "autoregressive stage",
            Self::Flow => "flow-matching stage",
            Self::Vocoder => "vocoder",
        })
    }
}

/// Why a song was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SongError {
    /// The caption, the lyrics or the tokenizer.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The length that was asked for.
    #[error(transparent)]
    Duration(#[from] DurationError),
    /// The checkpoint.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A component's `config.json` describes no module.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A component's `config.json` has a value of another kind than expected.
    #[error("{component}: config.json cannot be read")]
    ConfigValue {
        /// Checkpoint folder of the component.
        component: music3_weights::Component,
        /// What serde found.
        #[source]
        source: serde_json::Error,
    },
    /// Two components do not fit each other.
    #[error("{left} is {left_value}, but {right} is {right_value}; they must be equal")]
    Mismatch {
        /// Component and key.
        left: &'static str,
        /// Its value.
        left_value: usize,
        /// The other component and key.
        right: &'static str,
        /// Its value.
        right_value: usize,
    },
    /// A dimension is too small for what the pipeline needs.
    #[error("{what} is {found}; the pipeline needs at least {needed}")]
    TooFew {
        /// Component and key.
        what: &'static str,
        /// Its value.
        found: usize,
        /// The least that works.
        needed: usize,
    },
    /// The number of steps.
    #[error("the number of steps is 0; it must be at least 1 (30 is upstream's)")]
    NoSteps,
    /// The end token came before the first frame.
    #[error(
        "the model ended the song before its first frame; try another seed, a longer caption, or lyrics that start with a tag such as [verse]"
    )]
    NoFrames,
    /// A model gave something that is not a number.
    #[error(
        "{stage}: a value of {what} is not finite ({place}); the weights are damaged or this precision does not suit them, try `--precision f32`"
    )]
    NonFinite {
        /// Where in the run.
        stage: Stage,
        /// Which value.
        what: &'static str,
        /// Frame, or window and step.
        place: String,
    },
    /// Codes from outside that the model has no row for.
    #[error("frame {frame}, codebook c{codebook}: code {code} does not exist; there are {codes}")]
    CodeOutOfRange {
        /// Row of the codes.
        frame: usize,
        /// 0 for the semantic code.
        codebook: usize,
        /// The code.
        code: u32,
        /// Codes of that codebook.
        codes: usize,
    },
    /// More memory is needed than there is.
    #[error(
        "this run needs about {} GB of memory at its peak ({stage}), but {} GB may be used; try a shorter song, `--precision bf16`, or a machine with more memory",
        gigabytes(*.needed_bytes),
        gigabytes(*.available_bytes)
    )]
    OutOfMemory {
        /// The stage with the peak.
        stage: Stage,
        /// Estimated need.
        needed_bytes: u64,
        /// What may be used.
        available_bytes: u64,
    },
    /// The device failed.
    #[error("{stage}: the device failed: {message}")]
    Device {
        /// Where in the run.
        stage: Stage,
        /// What the driver or a library said.
        message: String,
    },
    /// The listener stopped the run.
    #[error("stopped in the {stage}")]
    Cancelled {
        /// Where it was.
        stage: Stage,
    },
    /// A file of frames.
    #[error(transparent)]
    Frames(#[from] FramesError),
    /// A recipe.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// A file of the checkpoint cannot be read for its fingerprint.
    #[error("{}: cannot be read", .path.display())]
    Fingerprint {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Samples could not be put together.
    #[error(transparent)]
    Audio(#[from] AudioError),
    /// A packed checkpoint could not be unpacked.
    #[error("{}: the packed checkpoint cannot be unpacked there; set XDG_CACHE_HOME to a folder that can be written", .path.display())]
    Unpack {
        /// Where it was to be unpacked.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A packed checkpoint is not the one it should be.
    #[error(
        "the packed demo checkpoint has the hash {found}, expected {expected}; this build of the program is damaged"
    )]
    WrongHash {
        /// SHA-256 found.
        found: String,
        /// SHA-256 expected.
        expected: String,
    },
    /// The user's cache folder is not known.
    #[error("no folder for cached files is known; set XDG_CACHE_HOME (or HOME) to a folder that can be written")]
    NoCacheFolder,
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e9)
}

//! What can be wrong with a file of frames.

use std::path::{Path, PathBuf};

use music3_audio::AudioError;
use music3_weights::{Dtype, TensorEntry, WeightsError};

/// Why frames were not written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FramesError {
    /// The file is no whole safetensors file, or a tensor is missing.
    #[error(transparent)]
    File(#[from] WeightsError),
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] AudioError),
    /// The header could not be made.
    #[error("{} cannot be written", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What the format's crate says.
        #[source]
        source: safetensors::SafeTensorError,
    },
    /// A safetensors file of something else.
    #[error("{}: this safetensors file holds no frames; pass a file that `--save-codes` wrote", path.display())]
    NotFrames {
        /// The file.
        path: PathBuf,
    },
    /// Another version of the form.
    #[error("{}: frames of version {found}, expected {expected}; use the program that wrote them, or make them again", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The version that is read.
        expected: &'static str,
    },
    /// The header's account of where the frames come from cannot be read.
    #[error("{}: the header does not say where the frames come from; make them again", path.display())]
    Origin {
        /// The file.
        path: PathBuf,
        /// What serde found.
        #[source]
        source: serde_json::Error,
    },
    /// A tensor of another shape.
    #[error("{}: tensor `{name}` has shape {found:?}, expected {expected}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape in words.
        expected: &'static str,
    },
    /// A tensor of another dtype.
    #[error("{}: tensor `{name}` has dtype {found}, expected {expected}", path.display())]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its dtype.
        found: Dtype,
        /// The dtypes that are read.
        expected: &'static str,
    },
    /// Codes and hidden states are of different songs.
    #[error("{}: {steps} rows of codes and {frames} frames; there is one row more than frames, so expected {}", path.display(), frames + 1)]
    Counts {
        /// The file.
        path: PathBuf,
        /// Rows of codes.
        steps: usize,
        /// Frames.
        frames: usize,
    },
    /// A hidden state that is not a number.
    #[error("{}: a hidden state of frame {frame} is not finite; the file is damaged, make the frames again", path.display())]
    NonFinite {
        /// The file.
        path: PathBuf,
        /// The frame, from 1.
        frame: usize,
    },
    /// A code below zero.
    #[error("{}: decode step {step}, codebook c{codebook}: code {code} is negative", path.display())]
    NegativeCode {
        /// The file.
        path: PathBuf,
        /// Row of the codes.
        step: usize,
        /// 0 for the semantic code.
        codebook: usize,
        /// The code.
        code: i32,
    },
    /// A code that the model does not have.
    #[error("{}: decode step {step}, codebook c{codebook}: code {code} does not exist; the model has {codes}", path.display())]
    Code {
        /// The file.
        path: PathBuf,
        /// Row of the codes.
        step: usize,
        /// 0 for the semantic code.
        codebook: usize,
        /// The code.
        code: u32,
        /// Codes of that codebook.
        codes: usize,
    },
    /// Frames of a model of other dimensions.
    #[error("{}: the frames are another model's: {found} {what}, this one has {expected}; pass the model they were made with", path.display())]
    OtherModel {
        /// The file.
        path: PathBuf,
        /// What is counted.
        what: &'static str,
        /// The file's number.
        found: usize,
        /// The model's.
        expected: usize,
    },
}

impl FramesError {
    pub(crate) fn shape(path: &Path, entry: &TensorEntry<'_>, expected: &'static str) -> Self {
        Self::Shape { path: path.to_owned(), name: entry.name.to_owned(), found: entry.shape.to_vec(), expected }
    }

    pub(crate) fn dtype(path: &Path, entry: &TensorEntry<'_>, expected: &'static str) -> Self {
        Self::Dtype { path: path.to_owned(), name: entry.name.to_owned(), found: entry.dtype, expected }
    }
}

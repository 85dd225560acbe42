//! Frames in a file: what the autoregressive half made, to be rendered again without it.
//!
//! The codes alone are not enough: the acoustic half reads the hidden states that they were drawn from. A file is
//! safetensors with two tensors and, in its header, where they come from:
//!
//! - `codes`, `I32 [steps, num_codebooks]`: a row per decode step; row 0 is no frame of the song;
//! - `frame_hiddens`, `[1, frames, num_codebooks·hidden_size]`: BF16 or F32, as the run stored them.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use burn::tensor::{Tensor, TensorData, backend::Backend};
use half::bf16;
use music3_audio::Staged;
use music3_nn::{Width, ops};
use music3_text::token_ids::SEMANTIC_CODES;
use music3_weights::{Dtype, SafetensorsFile, TensorSource, TensorView};
use serde::{Deserialize, Serialize};

use crate::{
    autoregressive::{FinishReason, Frames},
    configs::ModelConfigs,
    frames_error::FramesError,
    precision::Precision,
    request::SongRequest,
};

/// The note in a file's header that says what the file is; its value is the version of the form.
const FORM: &str = "music3_frames";
const FORM_VERSION: &str = "1";
/// The note that holds a [`FramesOrigin`].
const ORIGIN: &str = "origin";
const CODES: &str = "codes";
const FRAME_HIDDENS: &str = "frame_hiddens";

/// Where frames come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FramesOrigin {
    /// The program that made them.
    pub program: String,
    /// The checkpoint: [`Music3::fingerprint`](crate::Music3::fingerprint).
    pub model: String,
    /// What was asked for.
    pub request: SongRequest,
    /// How the run stored its values.
    pub precision: Precision,
    /// The backend's name, as whoever wrote the file calls it.
    pub backend: String,
    /// Why there are no more frames.
    pub finish: FinishReason,
}

/// Frames that were read from a file, on the host.
#[derive(Clone, Debug)]
pub struct SavedFrames {
    path: PathBuf,
    origin: FramesOrigin,
    codes: Vec<Vec<u32>>,
    hiddens: TensorData,
}

/// Writes frames beside the name that [`Staged::complete`] gives the file.
///
/// # Errors
/// The file cannot be written, or a value is not finite.
pub fn stage_frames<B: Backend>(path: &Path, frames: &Frames<B>, origin: &FramesOrigin) -> Result<Staged, FramesError> {
    let width = origin.precision.autoregressive();
    let [_, count, size] = frames.frame_hiddens.dims();
    let hiddens = ops::widen(frames.frame_hiddens.clone()).into_data();
    let hiddens = hiddens.as_slice::<f32>().expect("widened tensors are f32");
    refuse_non_finite(path, hiddens, size)?;
    let hiddens: Vec<u8> = match width {
        Width::F32 => hiddens.iter().flat_map(|value| value.to_le_bytes()).collect(),
        // Every value is one that bf16 holds, whatever the backend keeps it in.
        Width::Bf16 => hiddens.iter().flat_map(|&value| bf16::from_f32(value).to_le_bytes()).collect(),
    };
    let codes: Vec<u8> = frames.codes.iter().flatten().flat_map(|code| code.to_le_bytes()).collect();
    let codebooks = frames.codes.first().map_or(0, Vec::len);
    let dtype = if width == Width::Bf16 { Dtype::BF16 } else { Dtype::F32 };
    let header = |source| FramesError::Header { path: path.to_owned(), source };
    let view = |dtype, shape, bytes| safetensors::tensor::TensorView::new(dtype, shape, bytes).map_err(header);
    let tensors = [
        (CODES, view(Dtype::I32, vec![frames.codes.len(), codebooks], &codes)?),
        (FRAME_HIDDENS, view(dtype, vec![1, count, size], &hiddens)?),
    ];
    let origin = serde_json::to_string(origin).expect("every part of an origin has a JSON form");
    let notes = HashMap::from([(FORM.to_owned(), FORM_VERSION.to_owned()), (ORIGIN.to_owned(), origin)]);
    let bytes = safetensors::serialize(tensors, Some(notes)).map_err(header)?;
    Ok(Staged::write(path, |file| std::io::Write::write_all(file, &bytes))?)
}

impl SavedFrames {
    /// Reads a file and checks all of it that can be checked without a model.
    ///
    /// # Errors
    /// The file cannot be read, holds something else, or its parts do not fit each other.
    pub fn read(path: &Path) -> Result<Self, FramesError> {
        let file = SafetensorsFile::open(path)?;
        let path = path.to_owned();
        match file.note(FORM) {
            None => return Err(FramesError::NotFrames { path }),
            Some(FORM_VERSION) => {}
            Some(found) => return Err(FramesError::Version { path, found: found.to_owned(), expected: FORM_VERSION }),
        }
        let origin = file.note(ORIGIN).unwrap_or_default();
        let origin =
            serde_json::from_str(origin).map_err(|source| FramesError::Origin { path: path.clone(), source })?;
        let codes = read_codes(&path, file.tensor(CODES)?)?;
        let hiddens = read_hiddens(&path, file.tensor(FRAME_HIDDENS)?)?;
        let (steps, frames) = (codes.len(), hiddens.shape[1]);
        if steps != frames + 1 {
            return Err(FramesError::Counts { path, steps, frames });
        }
        Ok(Self { path, origin, codes, hiddens })
    }

    /// Returns the file that they were read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns where they come from.
    pub fn origin(&self) -> &FramesOrigin {
        &self.origin
    }

    /// Returns the number of frames.
    pub fn count(&self) -> usize {
        self.hiddens.shape[1]
    }

    /// Returns the bytes that they take on the host.
    pub fn bytes(&self) -> u64 {
        self.hiddens.bytes.len() as u64
    }

    /// Checks that they are frames of a model of these dimensions.
    ///
    /// # Errors
    /// The first dimension or code that is another model's.
    pub fn refuse_other_model(&self, configs: &ModelConfigs) -> Result<(), FramesError> {
        let depth = &configs.rvq_depth_decoder;
        let codebooks = self.codes[0].len();
        let hidden_size = self.hiddens.shape[2] / codebooks;
        let other = |what, found, expected| FramesError::OtherModel { path: self.path.clone(), what, found, expected };
        if codebooks != depth.num_codebooks {
            return Err(other("codebooks", codebooks, depth.num_codebooks));
        }
        if self.hiddens.shape[2] != codebooks * depth.hidden_size {
            return Err(other("values per hidden state", hidden_size, depth.hidden_size));
        }
        for (step, row) in self.codes.iter().enumerate() {
            for (codebook, &code) in row.iter().enumerate() {
                let codes = if codebook == 0 { SEMANTIC_CODES as usize } else { depth.audio_vocab_size };
                if code as usize >= codes {
                    return Err(FramesError::Code { path: self.path.clone(), step, codebook, code, codes });
                }
            }
        }
        Ok(())
    }

    /// Returns them on a device, for modules of the given width: bf16 widened exactly, f32 rounded once.
    pub fn to_frames<B: Backend>(&self, width: Width, device: &B::Device) -> Frames<B> {
        let frame_hiddens: Tensor<B, 3> = ops::from_data(self.hiddens.clone(), width, device);
        Frames { codes: self.codes.clone(), frame_hiddens, finish: self.origin.finish }
    }
}

fn read_codes(path: &Path, view: TensorView<'_>) -> Result<Vec<Vec<u32>>, FramesError> {
    let entry = view.entry;
    let &[_, codebooks] = entry.shape else {
        return Err(FramesError::shape(path, &entry, "[steps, num_codebooks]"));
    };
    if entry.dtype != Dtype::I32 {
        return Err(FramesError::dtype(path, &entry, "I32"));
    }
    if codebooks < 2 || entry.shape[0] < 2 {
        return Err(FramesError::shape(path, &entry, "at least two steps of at least two codes"));
    }
    let data = view.to_data()?;
    let codes = data.as_slice::<i32>().expect("the dtype was looked at");
    if let Some(place) = codes.iter().position(|&code| code < 0) {
        let (step, codebook) = (place / codebooks, place % codebooks);
        return Err(FramesError::NegativeCode { path: path.to_owned(), step, codebook, code: codes[place] });
    }
    Ok(codes.chunks_exact(codebooks).map(|row| row.iter().map(|&code| code as u32).collect()).collect())
}

fn read_hiddens(path: &Path, view: TensorView<'_>) -> Result<TensorData, FramesError> {
    let entry = view.entry;
    if !matches!(entry.dtype, Dtype::F32 | Dtype::BF16) {
        return Err(FramesError::dtype(path, &entry, "F32 or BF16"));
    }
    match *entry.shape {
        [1, frames, size] if frames > 0 && size > 0 => {
            let data = view.to_data()?;
            let values: Vec<f32> = data.iter().collect();
            refuse_non_finite(path, &values, size)?;
            Ok(data)
        }
        _ => Err(FramesError::shape(path, &entry, "[1, frames, num_codebooks·hidden_size]")),
    }
}

fn refuse_non_finite(path: &Path, hiddens: &[f32], size: usize) -> Result<(), FramesError> {
    match hiddens.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(place) => Err(FramesError::NonFinite { path: path.to_owned(), frame: place / size + 1 }),
    }
}

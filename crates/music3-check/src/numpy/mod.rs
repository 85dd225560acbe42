//! A folder of NumPy files as a capture.
//!
//! The folder holds `capture.json`, which is the JSON of any capture, and an array per file. An array is named as in a
//! capture (`frame_hiddens.npy`, `velocity_0_3.npy`), or as recordings of this model have been published elsewhere:
//!
//! | file | tensor of a capture |
//! |---|---|
//! | `rvq_codes.npy` | `codes` |
//! | `condition_chunk<k>.npy` | `condition_<k>` |
//! | `noise_chunk<k>.npy`, `waveform_chunk<k>.npy` | `noise_<k>`, `waveform_<k>` |
//!
//! A batch of one may be left out of the shape. NumPy has no bf16: values of a bf16 module are stored in f32.

mod array;
mod error;
mod header;

use std::path::{Path, PathBuf};

use music3::Precision;
use music3_weights::SafetensorsFile;

pub use self::{array::ArrayOrder, error::NumpyError};
use crate::{
    CheckError,
    case::wrap,
    dump,
    values::{Data, Values},
};

/// The JSON in such a folder.
pub(crate) const CAPTURE_JSON: &str = "capture.json";

/// Names in other recordings, and what they are here; a window's number follows.
const OTHER_NAMES: [(&str, &str); 3] =
    [("condition_chunk", "condition_"), ("noise_chunk", "noise_"), ("waveform_chunk", "waveform_")];

/// Tensors with a batch in front: how their names begin, and how many dimensions they have.
const BATCHED: [(&str, usize); 8] = [
    ("frame_hiddens", 3),
    ("condition_", 3),
    ("noise_", 3),
    ("velocity_", 3),
    ("latents_", 3),
    ("latent_chunk_", 3),
    ("waveform_", 3),
    ("audios", 3),
];

/// What a bf16 autoregressive half gives in bf16.
const AUTOREGRESSIVE: [&str; 4] = ["lm_last_hidden", "lm_logits_", "frame_hiddens", "condition_raw_"];

/// What a bf16 acoustic half gives in bf16, beside these.
const ACOUSTIC: [&str; 5] = ["condition_", "velocity_", "latents_", "latent_chunk_", "waveform_"];

/// Reads every array of a folder.
pub(crate) fn read_folder(
    folder: &Path,
    precision: Precision,
    order: ArrayOrder,
) -> Result<SafetensorsFile, CheckError> {
    let mut arrays: Vec<(String, Values)> = Vec::new();
    for path in array_files(folder)? {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = capture_name(&stem);
        if arrays.iter().any(|(other, _)| *other == name) {
            return Err(NumpyError::Twice { folder: folder.to_owned(), name }.into());
        }
        let values = array::read(&path, order)?;
        arrays.push((name.clone(), as_captured(&name, values, precision)));
    }
    if arrays.is_empty() {
        return Err(NumpyError::Empty { folder: folder.to_owned() }.into());
    }
    let bytes = dump::to_bytes(folder, arrays.iter().map(|(name, values)| (name.clone(), values)))?;
    SafetensorsFile::from_bytes(folder, &bytes).map_err(|source| wrap(folder, source))
}

/// Returns the `.npy` files of a folder, in the order of their names.
fn array_files(folder: &Path) -> Result<Vec<PathBuf>, NumpyError> {
    let failed = |source| NumpyError::Read { path: folder.to_owned(), source };
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(failed)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "npy"));
    paths.sort();
    Ok(paths)
}

/// Returns the name that a capture has for an array.
fn capture_name(stem: &str) -> String {
    if stem == "rvq_codes" {
        return "codes".to_owned();
    }
    let renamed = OTHER_NAMES.iter().find_map(|(other, ours)| {
        let window = stem.strip_prefix(other)?;
        window.bytes().all(|byte| byte.is_ascii_digit()).then(|| format!("{ours}{window}"))
    });
    renamed.unwrap_or_else(|| stem.to_owned())
}

/// Returns an array in the shape and dtype that a capture has it in.
fn as_captured(name: &str, values: Values, precision: Precision) -> Values {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let rank = BATCHED.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, rank)| *rank);
    let shape = match rank {
        Some(rank) if values.shape().len() + 1 == rank => [&[1], values.shape()].concat(),
        _ => values.shape().to_vec(),
    };
    let narrow = match precision {
        Precision::F32 => false,
        Precision::Mixed => begins(&AUTOREGRESSIVE),
        Precision::Bf16 => begins(&AUTOREGRESSIVE) || begins(&ACOUSTIC),
    };
    let values = values.reshaped(shape);
    match (narrow, values.data()) {
        (true, Data::F32(_)) => values.narrowed(),
        _ => values,
    }
}

#[cfg(test)]
mod tests;

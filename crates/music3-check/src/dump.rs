//! What was computed, written so that anyone can compare it with whatever they like.

use std::path::Path;

use half::bf16;
use safetensors::{Dtype, View};

use crate::{
    CheckError,
    values::{Data, Values},
};

/// Writes `FOLDER/STEM.safetensors`, each tensor in the dtype it was computed in.
pub(crate) fn write_tensors<'a>(
    folder: &Path,
    stem: &str,
    tensors: impl Iterator<Item = (String, &'a Values)>,
) -> Result<(), CheckError> {
    let path = prepare(folder, stem, "safetensors")?;
    let tensors = tensors.map(|(name, values)| (name, Stored(values)));
    safetensors::serialize_to_file(tensors, None, &path)
        .map_err(|source| CheckError::WriteTensors { path: path.clone(), source })
}

/// Returns tensors as the bytes of a safetensors file; `origin` is named where that fails.
pub(crate) fn to_bytes<'a>(
    origin: &Path,
    tensors: impl Iterator<Item = (String, &'a Values)>,
) -> Result<Vec<u8>, CheckError> {
    let tensors = tensors.map(|(name, values)| (name, Stored(values)));
    safetensors::serialize(tensors, None).map_err(|source| CheckError::WriteTensors { path: origin.to_owned(), source })
}

/// Writes `FOLDER/STEM.json`.
pub(crate) fn write_json(folder: &Path, stem: &str, answers: &serde_json::Value) -> Result<(), CheckError> {
    let path = prepare(folder, stem, "json")?;
    std::fs::write(&path, format!("{answers:#}\n")).map_err(|source| CheckError::Write { path, source })
}

fn prepare(folder: &Path, stem: &str, extension: &str) -> Result<std::path::PathBuf, CheckError> {
    std::fs::create_dir_all(folder).map_err(|source| CheckError::Write { path: folder.to_owned(), source })?;
    // Not `with_extension`: a stem may hold points.
    Ok(folder.join(format!("{stem}.{extension}")))
}

struct Stored<'a>(&'a Values);

impl View for Stored<'_> {
    fn dtype(&self) -> Dtype {
        match self.0.data() {
            Data::F32(_) => Dtype::F32,
            Data::Bf16(_) => Dtype::BF16,
            Data::Int(_) => Dtype::I64,
        }
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    fn data(&self) -> std::borrow::Cow<'_, [u8]> {
        let bytes: Vec<u8> = match self.0.data() {
            Data::F32(values) => values.iter().copied().flat_map(f32::to_le_bytes).collect(),
            Data::Bf16(values) => values.iter().copied().flat_map(bf16::to_le_bytes).collect(),
            Data::Int(values) => values.iter().copied().flat_map(i64::to_le_bytes).collect(),
        };
        bytes.into()
    }

    fn data_len(&self) -> usize {
        let bytes = match self.0.data() {
            Data::F32(_) => 4,
            Data::Bf16(_) => 2,
            Data::Int(_) => 8,
        };
        bytes * self.0.len()
    }
}

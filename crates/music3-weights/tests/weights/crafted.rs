//! Safetensors files and folders made byte by byte.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// A folder that is removed when the test ends.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().expect("a temporary folder can be made"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, making the folders above it.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder can be made");
        fs::write(&path, bytes).expect("a file can be written");
        path
    }

    /// The message with the folder's own path cut off.
    pub(crate) fn relative(&self, message: impl ToString) -> String {
        let real = self.path().canonicalize().expect("the folder exists");
        let message = message.to_string().replace(&format!("{}/", self.path().display()), "");
        message.replace(&format!("{}/", real.display()), "").replace(&self.path().display().to_string(), ".")
    }
}

/// A safetensors file of this header and data, whatever they say.
pub(crate) fn raw_file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// A valid file of f32 tensors, the n-th filled with n + 1.
pub(crate) fn file(tensors: &[(&str, &[usize])]) -> Vec<u8> {
    let typed: Vec<_> = tensors.iter().map(|(name, shape)| (*name, "F32", *shape)).collect();
    typed_file(&typed)
}

/// A valid file of tensors of any dtype; f32 ones are filled with their place from 1, others with zero bytes.
pub(crate) fn typed_file(tensors: &[(&str, &str, &[usize])]) -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (place, (name, dtype, shape)) in tensors.iter().enumerate() {
        let (begin, values) = (data.len(), shape.iter().product::<usize>());
        match *dtype {
            "F32" => data.extend((0..values).flat_map(|_| (place as f32 + 1.0).to_le_bytes())),
            "BF16" | "F16" => data.resize(begin + 2 * values, 0),
            "I64" | "F64" => data.resize(begin + 8 * values, 0),
            _ => data.resize(begin + values, 0),
        }
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, data.len()]});
        header.insert((*name).to_owned(), entry);
    }
    raw_file(&Value::Object(header).to_string(), &data)
}

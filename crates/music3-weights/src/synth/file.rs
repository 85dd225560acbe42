//! One planned safetensors file.

use std::path::{Path, PathBuf};

use safetensors::Dtype;
use serde_json::{Map, Value, json};

use super::{published_dtype, values::Values};
use crate::component::Component;

/// Readers map files, and want tensors at addresses that suit their type.
const HEADER_ALIGNMENT: usize = 8;

/// A tensor of random values.
#[derive(Debug, Clone)]
pub struct SynthTensor {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    values: Values,
}

impl SynthTensor {
    pub(super) fn new(component: Component, name: &str, shape: Vec<usize>, seed: u64) -> Self {
        let values = Values::of(component, name, &shape, seed);
        Self { name: name.to_owned(), dtype: published_dtype(component), shape, values }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its dtype.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Its shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The bytes it takes.
    pub fn bytes(&self) -> u64 {
        self.shape.iter().map(|dim| *dim as u64).product::<u64>() * self.value_bytes()
    }

    /// The bytes of one value.
    pub(super) fn value_bytes(&self) -> u64 {
        (self.dtype.bitsize() / 8) as u64
    }

    /// Writes the stored form of the values from the `first` on.
    pub(super) fn fill(&self, first: u64, bytes: &mut [u8]) {
        match self.dtype {
            Dtype::BF16 => self.values.fill_bf16(first, bytes),
            _ => self.values.fill_f32(first, bytes),
        }
    }
}

/// A weight file, whole but for its values.
#[derive(Debug, Clone)]
pub struct SynthFile {
    path: PathBuf,
    header: Vec<u8>,
    /// In the order they lie in, which is that of their names.
    tensors: Vec<SynthTensor>,
}

impl SynthFile {
    pub(super) fn new(path: PathBuf, mut tensors: Vec<SynthTensor>) -> Self {
        tensors.sort_by(|left, right| left.name.cmp(&right.name));
        let header = header(&tensors);
        Self { path, header, tensors }
    }

    /// Where it lies in the checkpoint.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What stands before the tensors: the length of the header and the header.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// The tensors, in the order they lie in.
    pub fn tensors(&self) -> &[SynthTensor] {
        &self.tensors
    }

    /// The bytes of the whole file.
    pub fn bytes(&self) -> u64 {
        self.header.len() as u64 + self.tensors.iter().map(SynthTensor::bytes).sum::<u64>()
    }
}

fn header(tensors: &[SynthTensor]) -> Vec<u8> {
    let mut entries = Map::new();
    // transformers reads no file without it.
    entries.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
    let mut start = 0;
    for tensor in tensors {
        let end = start + tensor.bytes();
        let entry = json!({ "dtype": tensor.dtype.to_string(), "shape": tensor.shape, "data_offsets": [start, end] });
        entries.insert(tensor.name.clone(), entry);
        start = end;
    }
    let mut text = Value::Object(entries).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(HEADER_ALIGNMENT), b' ');
    [&(text.len() as u64).to_le_bytes(), text.as_slice()].concat()
}

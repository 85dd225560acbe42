//! One planned safetensors file.

use std::path::{Path, PathBuf};

use safetensors::Dtype;

use super::{published_dtype, values::Values};
use crate::{component::Component, shard_files::safetensors_header};

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
        let entries = tensors.iter().map(|tensor| (tensor.name(), tensor.dtype, tensor.shape(), tensor.bytes()));
        let header = safetensors_header(entries);
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

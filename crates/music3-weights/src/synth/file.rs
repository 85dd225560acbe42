//! One planned safetensors file.

use std::path::{Path, PathBuf};

use safetensors::Dtype;

use super::{published_dtype, values::Values};
use crate::{
    component::Component,
    pth::{PthLayout, PthTensor},
    shard_files::safetensors_header,
};

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

    /// Its name in the diffusers layout.
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

/// What a file stores under one name: a tensor, or several one below the other.
#[derive(Debug, Clone)]
pub(super) struct Fused {
    pub(super) name: String,
    pub(super) parts: Vec<SynthTensor>,
}

impl Fused {
    pub(super) fn bytes(&self) -> u64 {
        self.parts.iter().map(SynthTensor::bytes).sum()
    }

    fn dtype(&self) -> Dtype {
        self.parts[0].dtype
    }

    fn shape(&self) -> Vec<usize> {
        let mut shape = self.parts[0].shape.clone();
        if let Some(rows) = shape.first_mut() {
            *rows *= self.parts.len();
        }
        shape
    }
}

/// A weight file, whole but for its values.
#[derive(Debug, Clone)]
pub struct SynthFile {
    path: PathBuf,
    /// All bytes that are no values, and where they lie.
    fixed: Vec<(u64, Vec<u8>)>,
    /// In the order they lie in, which is that of their names, and where they begin.
    tensors: Vec<(u64, SynthTensor)>,
    bytes: u64,
}

impl SynthFile {
    /// A safetensors file.
    pub(super) fn safetensors(path: PathBuf, mut stored: Vec<Fused>) -> Self {
        stored.sort_by(|left, right| left.name.cmp(&right.name));
        let shapes: Vec<Vec<usize>> = stored.iter().map(Fused::shape).collect();
        let entries = stored.iter().zip(&shapes);
        let entries = entries.map(|(one, shape)| (one.name.as_str(), one.dtype(), shape.as_slice(), one.bytes()));
        let header = safetensors_header(entries);
        let start = header.len() as u64;
        let ends = stored.iter().scan(start, |end, one| Some(std::mem::replace(end, *end + one.bytes())));
        let offsets: Vec<u64> = ends.collect();
        let bytes = start + stored.iter().map(Fused::bytes).sum::<u64>();
        Self { path, fixed: vec![(0, header)], tensors: placed(stored, &offsets), bytes }
    }

    /// A `.pth` file.
    pub(super) fn pth(path: PathBuf, stored: Vec<Fused>) -> Self {
        let shapes: Vec<Vec<usize>> = stored.iter().map(Fused::shape).collect();
        let tensors: Vec<PthTensor<'_>> = stored
            .iter()
            .zip(&shapes)
            .map(|(one, shape)| PthTensor { name: &one.name, dtype: one.dtype(), shape, bytes: one.bytes() })
            .collect();
        let root = path.file_stem().unwrap_or_default().to_string_lossy();
        let PthLayout { fixed, offsets, bytes } = PthLayout::new(&root, &tensors);
        Self { fixed, tensors: placed(stored, &offsets), bytes, path }
    }

    /// Where it lies in the checkpoint.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All bytes that are no values, such as a header, and where they lie.
    pub fn fixed(&self) -> &[(u64, Vec<u8>)] {
        &self.fixed
    }

    /// The tensors, in the order they lie in, and where each begins. The native layout puts several under one name.
    pub fn tensors(&self) -> impl Iterator<Item = (u64, &SynthTensor)> {
        self.tensors.iter().map(|(offset, tensor)| (*offset, tensor))
    }

    /// The bytes of the whole file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The parts of what is stored at these offsets, and where each of them begins.
fn placed(stored: Vec<Fused>, offsets: &[u64]) -> Vec<(u64, SynthTensor)> {
    let mut placed = Vec::new();
    for (one, offset) in stored.into_iter().zip(offsets) {
        let mut offset = *offset;
        for part in one.parts {
            let bytes = part.bytes();
            placed.push((offset, part));
            offset += bytes;
        }
    }
    placed
}

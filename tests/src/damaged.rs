//! Copies of goldens with something changed: what a gate must refuse.

use std::{borrow::Cow, collections::BTreeMap, path::PathBuf};

use burn::tensor::backend::Backend;
use music3_check::{CasePath, Options, Origin, Report, collect};
use safetensors::{Dtype, SafeTensors, View};
use serde_json::Value;
use tempfile::TempDir;

use crate::{goldens, report};

/// A golden, copied to a folder of its own, to be changed there.
pub struct Damaged {
    folder: TempDir,
    stem: String,
    /// The JSON.
    pub header: Value,
    /// The tensors: name to dtype, shape and bytes.
    pub tensors: BTreeMap<String, Stored>,
}

/// One stored tensor.
#[derive(Clone)]
pub struct Stored {
    /// Its dtype.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its bytes, little-endian.
    pub bytes: Vec<u8>,
}

impl Damaged {
    /// Returns a copy of a golden.
    ///
    /// # Panics
    /// If the golden is missing.
    pub fn copy(folder: &str, stem: &str) -> Self {
        let path = goldens(folder).join(stem);
        let read = |extension: &str| {
            let path = PathBuf::from(format!("{}.{extension}", path.display()));
            std::fs::read(&path).unwrap_or_else(|error| panic!("golden {}: {error}", path.display()))
        };
        let header = serde_json::from_slice(&read("json")).expect("a golden's JSON");
        let bytes = read("safetensors");
        let file = SafeTensors::deserialize(&bytes).expect("a golden's tensors");
        let stored = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
            let stored = Stored { dtype: view.dtype(), shape: view.shape().to_vec(), bytes: view.data().to_vec() };
            (name, stored)
        };
        let tensors = file.tensors().into_iter().map(stored).collect();
        Self { folder: tempfile::tempdir().expect("a temporary folder"), stem: stem.to_owned(), header, tensors }
    }

    /// Returns the tensor of this name, to be changed.
    ///
    /// # Panics
    /// If there is none.
    pub fn tensor(&mut self, name: &str) -> &mut Stored {
        self.tensors.get_mut(name).unwrap_or_else(|| panic!("the golden has no {name}"))
    }

    /// Returns the first tensor's name that begins with `prefix`.
    ///
    /// # Panics
    /// If there is none.
    pub fn first(&self, prefix: &str) -> String {
        let mut names = self.tensors.keys().filter(|name| name.starts_with(prefix));
        names.next().unwrap_or_else(|| panic!("the golden has no {prefix}")).clone()
    }

    /// Returns the folder it is written to.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Writes both files and returns the case.
    ///
    /// # Panics
    /// If they cannot be written.
    pub fn write(&self) -> CasePath {
        let path = self.folder.path().join(format!("{}.json", self.stem));
        std::fs::write(&path, self.header.to_string()).expect("writing to a temporary folder");
        let tensors = self.tensors.iter().map(|(name, stored)| (name, stored.clone()));
        let beside = self.folder.path().join(format!("{}.safetensors", self.stem));
        safetensors::serialize_to_file(tensors, None, &beside).expect("writing to a temporary folder");
        CasePath { path, origin: Origin::Named }
    }

    /// Writes both files and runs the case.
    pub fn run<B: Backend>(&self, device: &B::Device) -> Report {
        self.run_with::<B>(&Options::default(), device)
    }

    /// Writes both files and runs the case.
    pub fn run_with<B: Backend>(&self, options: &Options, device: &B::Device) -> Report {
        report::<B>(&[self.write()], options, device)
    }

    /// Writes both files and runs the folder they lie in.
    ///
    /// # Panics
    /// If the folder cannot be read.
    pub fn run_folder<B: Backend>(&self, device: &B::Device) -> Report {
        self.write();
        let cases = collect(&[self.folder.path()]).expect("a temporary folder can be read");
        report::<B>(&cases, &Options::default(), device)
    }
}

impl Stored {
    /// Returns f32 or bf16 values.
    ///
    /// # Panics
    /// If they are of another dtype.
    pub fn floats(&self) -> Vec<f32> {
        match self.dtype {
            Dtype::F32 => self.bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            Dtype::BF16 => {
                let halves = self.bytes.as_chunks::<2>().0.iter();
                halves.map(|[low, high]| f32::from_le_bytes([0, 0, *low, *high])).collect()
            }
            dtype => panic!("{dtype:?} are no floats"),
        }
    }

    /// Replaces one value by what `change` makes of it; bf16 is cut off, so the change must be one that bf16 can hold.
    ///
    /// # Panics
    /// If there is no such value.
    pub fn change(&mut self, index: usize, change: impl Fn(f32) -> f32) {
        let bytes = change(self.floats()[index]).to_le_bytes();
        match self.dtype {
            Dtype::F32 => self.bytes[4 * index..][..4].copy_from_slice(&bytes),
            _ => self.bytes[2 * index..][..2].copy_from_slice(&bytes[2..]),
        }
    }
}

impl View for Stored {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.bytes.as_slice().into()
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

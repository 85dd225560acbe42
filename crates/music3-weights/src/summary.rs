//! What a checkpoint holds, told from its headers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
};

use serde::Serialize;

use crate::{
    checkpoint::{Checkpoint, ComponentFolder},
    component::Component,
    layout::Layout,
    source::{TensorEntry, TensorSource},
};

/// What a checkpoint holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckpointSummary {
    /// Its folder.
    pub path: PathBuf,
    /// How its weights are packed.
    pub layout: Layout,
    /// Its components, in the order of [`Component::ALL`].
    pub components: Vec<ComponentSummary>,
    /// The tokenizer's folder.
    pub tokenizer: PathBuf,
    /// Weight files in all: in the native layout components share them.
    pub files: usize,
    /// Tensors that the files hold and the model does not need.
    pub left_out: Vec<LeftOut>,
}

/// A tensor that is not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its file.
    pub file: PathBuf,
}

/// What one component's files hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComponentSummary {
    /// The component.
    pub component: Component,
    /// Weight files.
    pub files: usize,
    /// Stored tensors.
    pub tensors: usize,
    /// Stored numbers.
    pub parameters: u64,
    /// Stored bytes by dtype.
    pub bytes_by_dtype: BTreeMap<String, u64>,
}

impl Checkpoint {
    /// Returns what the checkpoint holds; only headers are read.
    pub fn summary(&self) -> CheckpointSummary {
        CheckpointSummary {
            path: self.path().to_owned(),
            layout: self.layout(),
            components: self.components().iter().map(ComponentFolder::summary).collect(),
            tokenizer: self.tokenizer().to_owned(),
            files: self.components().iter().flat_map(ComponentFolder::files).collect::<BTreeSet<_>>().len(),
            left_out: self.left_out().into_iter().map(LeftOut::of).collect(),
        }
    }
}

impl LeftOut {
    fn of(entry: TensorEntry<'_>) -> Self {
        Self { name: entry.name.to_owned(), bytes: entry.bytes, file: entry.file.to_owned() }
    }
}

impl ComponentFolder {
    /// Returns what the component's files hold; only headers are read.
    pub fn summary(&self) -> ComponentSummary {
        let entries = self.entries();
        let mut bytes_by_dtype = BTreeMap::new();
        for entry in &entries {
            *bytes_by_dtype.entry(entry.dtype.to_string()).or_default() += entry.bytes;
        }
        ComponentSummary {
            component: self.component(),
            files: self.files().len(),
            tensors: entries.len(),
            parameters: entries.iter().map(|entry| entry.shape.iter().map(|dim| *dim as u64).product::<u64>()).sum(),
            bytes_by_dtype,
        }
    }
}

impl ComponentSummary {
    /// Stored bytes in all.
    pub fn bytes(&self) -> u64 {
        self.bytes_by_dtype.values().sum()
    }
}

impl CheckpointSummary {
    /// Stored tensors in all.
    pub fn tensors(&self) -> usize {
        self.components.iter().map(|component| component.tensors).sum()
    }

    /// Stored numbers in all.
    pub fn parameters(&self) -> u64 {
        self.components.iter().map(|component| component.parameters).sum()
    }

    /// Stored bytes in all.
    pub fn bytes(&self) -> u64 {
        self.components.iter().map(ComponentSummary::bytes).sum()
    }
}

impl fmt::Display for CheckpointSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} layout", self.path.display(), self.layout)?;
        writeln!(f, "{:<18} {:>5} {:>7} {:>14} {:>15}  dtype", "component", "files", "tensors", "parameters", "bytes")?;
        for component in &self.components {
            let ComponentSummary { component: name, files, tensors, parameters, bytes_by_dtype } = component;
            let dtypes: Vec<&str> = bytes_by_dtype.keys().map(String::as_str).collect();
            let (name, bytes, dtypes) = (name.folder(), component.bytes(), dtypes.join(" + "));
            writeln!(f, "{name:<18} {files:>5} {tensors:>7} {parameters:>14} {bytes:>15}  {dtypes}")?;
        }
        let Self { files, .. } = self;
        let (tensors, parameters, bytes) = (self.tensors(), self.parameters(), self.bytes());
        write!(f, "{:<18} {files:>5} {tensors:>7} {parameters:>14} {bytes:>15}", "all")?;
        let bytes: u64 = self.left_out.iter().map(|tensor| tensor.bytes).sum();
        match (self.left_out.first(), self.left_out.last()) {
            (Some(first), Some(last)) => write!(
                f,
                "\nleft out, an encoder's: {} tensors of {bytes} bytes in {}, from {} to {}",
                self.left_out.len(),
                first.file.display(),
                first.name,
                last.name
            ),
            _ => Ok(()),
        }
    }
}

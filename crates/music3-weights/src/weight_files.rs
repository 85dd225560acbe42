//! The weight files of a component, whatever their format.

use std::path::Path;

use crate::{
    error::WeightsError,
    pth::PthFile,
    shards::Shards,
    source::{TensorEntry, TensorSource, TensorView},
};

/// Opened weight files.
#[derive(Debug)]
pub(crate) enum WeightFiles {
    Safetensors(Shards),
    Pth(PthFile),
}

impl WeightFiles {
    /// Their paths.
    pub(crate) fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Safetensors(shards) => shards.files().iter().map(|file| file.path()).collect(),
            Self::Pth(file) => vec![file.path()],
        }
    }

    fn source(&self) -> &dyn TensorSource {
        match self {
            Self::Safetensors(shards) => shards,
            Self::Pth(file) => file,
        }
    }
}

impl TensorSource for WeightFiles {
    fn entries(&self) -> Vec<TensorEntry<'_>> {
        self.source().entries()
    }

    fn tensor(&self, name: &str) -> Result<TensorView<'_>, WeightsError> {
        self.source().tensor(name)
    }

    fn prefetch(&self, name: &str) {
        self.source().prefetch(name);
    }

    fn release(&self, name: &str) {
        self.source().release(name);
    }
}

//! Files mapped into memory, and where tensors lie in them.

use std::{
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
};

use memmap2::{Mmap, MmapMut};
use safetensors::Dtype;

use crate::{
    error::WeightsError,
    file_error::FileError,
    json::open_regular,
    source::{TensorEntry, TensorSource, TensorView},
};

/// Maps a file, and nothing but a file.
pub(crate) fn map_file(path: &Path) -> Result<Mmap, FileError> {
    let failed = |source| FileError::Io { path: path.to_owned(), source };
    let file = open_regular(path)?;
    if file.metadata().map_err(failed)?.len() == 0 {
        // Some systems refuse to map nothing.
        return map_bytes(path, &[]);
    }
    #[allow(
        unsafe_code,
        reason = "a mapping is the only way to read one tensor of a 10 GB file at a time without \
        a second copy; it is read-only, and the one assumption is that nobody shortens a checkpoint in use"
    )]
    // SAFETY: the mapping is never written to, and all reads go through slices of it whose ranges were checked
    // against its length. A file cut short by someone else while it is mapped ends the process with a bus error.
    unsafe { Mmap::map(&file) }.map_err(failed)
}

/// Takes bytes that are on no disk.
pub(crate) fn map_bytes(path: &Path, bytes: &[u8]) -> Result<Mmap, FileError> {
    let copied = MmapMut::map_anon(bytes.len()).and_then(|mut map| {
        map.copy_from_slice(bytes);
        map.make_read_only()
    });
    copied.map_err(|source| FileError::Io { path: path.to_owned(), source })
}

/// A mapped file and the tensors that were found in it.
#[derive(Debug)]
pub(crate) struct MappedTensors {
    pub(crate) path: PathBuf,
    pub(crate) map: Mmap,
    pub(crate) tensors: BTreeMap<String, Stored>,
}

impl TensorSource for MappedTensors {
    fn entries(&self) -> Vec<TensorEntry<'_>> {
        self.tensors.iter().map(|(name, stored)| stored.entry(name, &self.path)).collect()
    }

    fn tensor(&self, name: &str) -> Result<TensorView<'_>, WeightsError> {
        match self.tensors.get_key_value(name) {
            Some((name, stored)) => {
                Ok(TensorView { entry: stored.entry(name, &self.path), data: &self.map[stored.range.clone()] })
            }
            None => Err(FileError::NoTensor { path: self.path.clone(), name: name.to_owned() }.into()),
        }
    }

    fn prefetch(&self, name: &str) {
        if let Some(stored) = self.tensors.get(name) {
            stored.prefetch(&self.map);
        }
    }

    fn release(&self, name: &str) {
        if let Some(stored) = self.tensors.get(name) {
            stored.release(&self.map);
        }
    }
}

/// A tensor of a mapped file.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// Its bytes, within the file.
    pub(crate) range: Range<usize>,
}

impl Stored {
    pub(crate) fn entry<'a>(&'a self, name: &'a str, file: &'a Path) -> TensorEntry<'a> {
        TensorEntry { name, dtype: self.dtype, shape: &self.shape, bytes: self.range.len() as u64, file }
    }

    /// Asks the system to read the tensor early.
    pub(crate) fn prefetch(&self, map: &Mmap) {
        #[cfg(unix)]
        if !self.range.is_empty() {
            // Advice: where the system does not take it, the pages are read when they are touched.
            _ = map.advise_range(memmap2::Advice::WillNeed, self.range.start, self.range.len());
        }
        #[cfg(not(unix))]
        let _ = map;
    }

    /// Lets the system take the tensor's pages back.
    #[allow(unsafe_code, reason = "the advice is marked unsafe because on other mappings it drops what was written")]
    pub(crate) fn release(&self, map: &Mmap) {
        #[cfg(unix)]
        if !self.range.is_empty() {
            // SAFETY: the mapping is read-only and of a file, so pages that are dropped are read from it again.
            // Advice: where the system does not take it, the pages stay until the file is closed.
            _ = unsafe {
                map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, self.range.start, self.range.len())
            };
        }
        #[cfg(not(unix))]
        let _ = map;
    }
}

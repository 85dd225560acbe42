//! One safetensors file, mapped into memory and checked before anything in it is believed.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use memmap2::Mmap;
use safetensors::{SafeTensorError, SafeTensors};
use serde::de::IgnoredAny;

use crate::{
    error::WeightsError,
    file_error::FileError,
    header_reason::reason,
    json::{Pairs, recognise},
    mapped::{MappedTensors, Stored, map_bytes, map_file},
    problem::Problem,
    source::{TensorEntry, TensorSource, TensorView},
};

/// Bytes of the length field that a safetensors file begins with.
const LENGTH_FIELD: u64 = 8;

/// The largest header that is read. The language model's largest shard has one of 12 kB.
const MAX_HEADER: u64 = 16 << 20;

/// A safetensors file. Opening it reads the header; a tensor's bytes are read when they are used.
#[derive(Debug)]
pub struct SafetensorsFile {
    mapped: MappedTensors,
    notes: BTreeMap<String, String>,
}

/// What a header says: its tensors, and the notes under `__metadata__`.
struct Header {
    tensors: BTreeMap<String, Stored>,
    notes: BTreeMap<String, String>,
}

impl SafetensorsFile {
    /// Maps the file and checks its header.
    ///
    /// # Errors
    /// When it is not a whole, valid safetensors file.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, WeightsError> {
        let path = path.into();
        let map = map_file(&path)?;
        if map.len() < LENGTH_FIELD as usize {
            let found = if map.is_empty() { "an empty file" } else { "a file of fewer than 8 bytes" };
            return Err(FileError::Content { path, expected: "a safetensors file", found }.into());
        }
        Self::checked(path, map)
    }

    /// Takes the bytes of a safetensors file that is on no disk; `path` says where its tensors come from.
    ///
    /// # Errors
    /// As [`open`](Self::open), and when there is no memory for them.
    pub fn from_bytes(path: impl Into<PathBuf>, bytes: &[u8]) -> Result<Self, WeightsError> {
        let path = path.into();
        if bytes.len() < LENGTH_FIELD as usize {
            let found = "fewer than 8 bytes";
            return Err(FileError::Content { path, expected: "a safetensors file", found }.into());
        }
        let map = map_bytes(&path, bytes)?;
        Self::checked(path, map)
    }

    fn checked(path: PathBuf, map: Mmap) -> Result<Self, WeightsError> {
        let header = check_prefix(&path, &map)?;
        check_duplicates(&path, &map[LENGTH_FIELD as usize..header])?;
        let Header { tensors, notes } = read_header(&path, &map)?;
        Ok(Self { mapped: MappedTensors { path, map, tensors }, notes })
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.mapped.path
    }

    /// The note of this name that the file's writer left in its header.
    pub fn note(&self, name: &str) -> Option<&str> {
        self.notes.get(name).map(String::as_str)
    }

    /// The names of its tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.mapped.tensors.keys().map(String::as_str)
    }

    /// Whether it holds a tensor of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.mapped.tensors.contains_key(name)
    }

    /// The tensors whose names begin with `prefix`, under their names without it.
    pub fn with_prefix(&self, prefix: impl Into<String>) -> Prefixed<'_> {
        Prefixed { file: self, prefix: prefix.into(), without: BTreeSet::new() }
    }
}

impl TensorSource for SafetensorsFile {
    fn entries(&self) -> Vec<TensorEntry<'_>> {
        self.mapped.entries()
    }

    fn tensor(&self, name: &str) -> Result<TensorView<'_>, WeightsError> {
        self.mapped.tensor(name)
    }

    fn prefetch(&self, name: &str) {
        self.mapped.prefetch(name);
    }

    fn release(&self, name: &str) {
        self.mapped.release(name);
    }
}

/// Part of a file's tensors: those with a prefix, without it. See [`SafetensorsFile::with_prefix`].
#[derive(Debug, Clone)]
pub struct Prefixed<'a> {
    file: &'a SafetensorsFile,
    prefix: String,
    without: BTreeSet<String>,
}

impl<'a> Prefixed<'a> {
    /// Leaves out one more tensor, named without the prefix.
    #[must_use]
    pub fn without(mut self, name: impl Into<String>) -> Self {
        self.without.insert(name.into());
        self
    }

    /// The names without the prefix, in order.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        let names = self.file.mapped.tensors.keys().filter_map(|name| name.strip_prefix(self.prefix.as_str()));
        names.filter(|name| !self.without.contains(*name))
    }
}

impl TensorSource for Prefixed<'_> {
    fn entries(&self) -> Vec<TensorEntry<'_>> {
        let all = self.file.mapped.tensors.iter();
        let named = all.filter_map(|(name, stored)| Some((name.strip_prefix(self.prefix.as_str())?, stored)));
        let kept = named.filter(|(name, _)| !self.without.contains(*name));
        kept.map(|(name, stored)| stored.entry(name, &self.file.mapped.path)).collect()
    }

    fn tensor(&self, name: &str) -> Result<TensorView<'_>, WeightsError> {
        let view = self.file.tensor(&format!("{}{name}", self.prefix))?;
        match self.without.contains(name) {
            true => Err(FileError::NoTensor { path: self.file.mapped.path.clone(), name: name.to_owned() }.into()),
            false => Ok(view),
        }
    }

    fn prefetch(&self, name: &str) {
        self.file.prefetch(&format!("{}{name}", self.prefix));
    }

    fn release(&self, name: &str) {
        self.file.release(&format!("{}{name}", self.prefix));
    }
}

/// Checks the length field against the file and the limit; returns where the header ends.
fn check_prefix(path: &Path, map: &[u8]) -> Result<usize, FileError> {
    let path = path.to_owned();
    let (field, rest) = map.split_at(LENGTH_FIELD as usize);
    let claimed = u64::from_le_bytes(field.try_into().expect("split_at gives that many bytes"));
    let (header, file) = (claimed.saturating_add(LENGTH_FIELD), map.len() as u64);
    if header <= file && claimed <= MAX_HEADER && rest.first() == Some(&b'{') {
        return Ok(header as usize);
    }
    // Only now: the length field of a good file may look like the beginning of anything.
    match recognise(map) {
        Some(found) => Err(FileError::Content { path, expected: "a safetensors file", found }),
        None if header > file => Err(FileError::HeaderPastEnd { path, header, file }),
        None if claimed > MAX_HEADER => {
            let what = "the safetensors header";
            Err(FileError::TooLarge { path, what, found: claimed, limit: MAX_HEADER })
        }
        None => Err(FileError::Content { path, expected: "a safetensors file", found: "a header that is not JSON" }),
    }
}

/// Parses the header with the format's own crate, which checks dtypes, shapes and offsets.
fn read_header(path: &Path, map: &[u8]) -> Result<Header, FileError> {
    let (header, metadata) = match SafeTensors::read_metadata(map) {
        Ok(read) => read,
        Err(SafeTensorError::MetadataIncompleteBuffer) => return Err(data_length(path, map)),
        Err(SafeTensorError::InvalidHeaderDeserialization(source)) => {
            return Err(FileError::Json { path: path.to_owned(), source });
        }
        Err(source) => {
            let reason = reason(header_bytes(map), &source).unwrap_or_else(|| source.to_string());
            return Err(FileError::Header { path: path.to_owned(), reason, source });
        }
    };
    let start = LENGTH_FIELD as usize + header;
    let stored = metadata.tensors().into_iter().map(|(name, info)| {
        let (begin, end) = info.data_offsets;
        let range = start + begin..start + end;
        (name, Stored { dtype: info.dtype, shape: info.shape.clone(), range })
    });
    let notes = metadata.metadata().iter().flatten().map(|(name, note)| (name.clone(), note.clone()));
    Ok(Header { notes: notes.collect(), tensors: stored.collect() })
}

/// Says how many bytes are missing or too many, which the format's crate does not.
fn data_length(path: &Path, map: &[u8]) -> FileError {
    let header = header_bytes(map);
    let data = &map[LENGTH_FIELD as usize + header.len()..];
    match serde_json::from_slice::<safetensors::tensor::Metadata>(header) {
        Ok(metadata) => FileError::DataLength {
            path: path.to_owned(),
            expected: metadata.data_len() as u64,
            found: data.len() as u64,
        },
        Err(source) => FileError::Json { path: path.to_owned(), source },
    }
}

/// The header of a file whose length field was checked.
fn header_bytes(map: &[u8]) -> &[u8] {
    let (field, rest) = map.split_at(LENGTH_FIELD as usize);
    let header = u64::from_le_bytes(field.try_into().expect("split_at gives that many bytes")) as usize;
    &rest[..header.min(rest.len())]
}

/// Finds names that the header gives twice.
fn check_duplicates(path: &Path, header: &[u8]) -> Result<(), WeightsError> {
    let pairs: Pairs<IgnoredAny> =
        serde_json::from_slice(header).map_err(|source| FileError::Json { path: path.to_owned(), source })?;
    let duplicate = |name: &str| Problem::Duplicate { file: path.to_owned(), name: name.to_owned(), other: None };
    WeightsError::unless_empty(pairs.repeated().into_iter().map(duplicate).collect())
}

//! One `.pth` file: a zip archive of a pickle, which describes tensors, and of the storages they are views of. It is
//! mapped, nothing in it is run, and its tensors are read where they lie.

mod archive;
mod opcode;
mod pickle;
mod pickle_error;
mod value;
mod write;

use std::{
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
};

use memmap2::Mmap;

pub(crate) use self::write::{PthLayout, PthTensor};
use self::{
    archive::Archive,
    value::{PickledTensor, Store, Value},
};
pub use self::{archive::ArchiveError, pickle_error::PickleError};
use crate::{
    error::WeightsError,
    file_error::FileError,
    json::recognise,
    mapped::{MappedTensors, Stored, map_bytes, map_file},
    problem::Problem,
    source::{TensorEntry, TensorSource, TensorView},
};

/// Dictionaries in dictionaries; a state dict in a training checkpoint is the second level.
const MAX_DEPTH: usize = 4;

/// More than any file of this model has, by far.
const MOST_NAMES: usize = 1 << 14;

/// Bytes of a dictionary's longest key.
const LONGEST_KEY: usize = 256;

/// Under these keys a checkpoint of a training run keeps the state dict.
const WRAPPERS: [&str; 3] = ["state_dict", "model_state_dict", "model"];

/// A `.pth` file. Opening it reads the archive's directory and the pickle; a tensor's bytes are read when they are used.
#[derive(Debug)]
pub struct PthFile {
    mapped: MappedTensors,
}

impl PthFile {
    /// Maps the file and reads what its pickle says.
    ///
    /// # Errors
    /// When it is not a whole file that `torch.save` wrote, or holds anything but tensors that lie in it in one piece.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, WeightsError> {
        let path = path.into();
        let map = map_file(&path)?;
        Self::checked(path, map)
    }

    /// Takes the bytes of a file that is on no disk; `path` says where its tensors come from.
    ///
    /// # Errors
    /// As [`open`](Self::open), and when there is no memory for them.
    pub fn from_bytes(path: impl Into<PathBuf>, bytes: &[u8]) -> Result<Self, WeightsError> {
        let path = path.into();
        let map = map_bytes(&path, bytes)?;
        Self::checked(path, map)
    }

    fn checked(path: PathBuf, map: Mmap) -> Result<Self, WeightsError> {
        if !map.starts_with(b"PK\x03\x04") {
            let expected = "a .pth file of torch.save";
            let found = if map.is_empty() { Some("an empty file") } else { recognise(&map) };
            return Err(FileError::Content { path, expected, found: found.unwrap_or("no zip archive") }.into());
        }
        let archive = Archive::read(&map).map_err(|source| FileError::Archive { path: path.clone(), source })?;
        let tensors = Contents { path: &path, map: &map, archive: &archive }.tensors()?;
        Ok(Self { mapped: MappedTensors { path, map, tensors } })
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.mapped.path
    }

    /// The names of its tensors, in order. A dictionary in a dictionary gives names with a point between the keys.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.mapped.tensors.keys().map(String::as_str)
    }
}

impl TensorSource for PthFile {
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

/// An archive whose pickle is read.
struct Contents<'a> {
    path: &'a Path,
    map: &'a [u8],
    archive: &'a Archive,
}

impl<'a> Contents<'a> {
    fn tensors(&self) -> Result<BTreeMap<String, Stored>, WeightsError> {
        let (root, bytes) = self.pickle()?;
        let pickled = |source| FileError::Pickle { path: self.path.to_owned(), source };
        let (value, store) = pickle::read(bytes).map_err(pickled)?;
        let Value::Dict(dict) = value else {
            return Err(pickled(PickleError::NoDict { found: kind(value) }).into());
        };
        let mut names = Names { store: &store, found: Vec::new(), visited: 0 };
        names.collect(unwrapped(&store, dict), "", 0).map_err(pickled)?;
        let (mut tensors, mut problems) = (BTreeMap::new(), Vec::new());
        for (name, tensor) in names.found {
            match self.stored(&name, &store, &store.tensors[tensor], root) {
                Ok(stored) => {
                    if tensors.insert(name.clone(), stored).is_some() {
                        problems.push(Problem::Duplicate { file: self.path.to_owned(), name, other: None });
                    }
                }
                Err(error) => problems.push(error.into()),
            }
        }
        WeightsError::unless_empty(problems)?;
        Ok(tensors)
    }

    /// Finds the pickle; returns the folder it lies in within the archive, and its bytes.
    fn pickle(&self) -> Result<(&'a str, &'a [u8]), FileError> {
        let archived = |source| FileError::Archive { path: self.path.to_owned(), source };
        let root = self.archive.names().find_map(|name| name.strip_suffix("/data.pkl"));
        let root = root.ok_or_else(|| archived(ArchiveError::NoEntry { entry: "data.pkl".to_owned() }))?;
        if let Some(order) = self.archive.find(&format!("{root}/byteorder"))
            && self.map[order.clone()] != *b"little"
        {
            let found = "tensors in another byte order; save the file on an ordinary computer";
            return Err(FileError::Content { path: self.path.to_owned(), expected: "little-endian tensors", found });
        }
        let range = self.archive.entry(&format!("{root}/data.pkl")).map_err(archived)?;
        Ok((root, &self.map[range]))
    }

    /// Where a tensor lies in the file, if it does in one piece.
    fn stored(&self, name: &str, store: &Store<'_>, tensor: &PickledTensor, root: &str) -> Result<Stored, FileError> {
        let refused = |reason: String| FileError::Tensor { path: self.path.to_owned(), name: name.to_owned(), reason };
        let storage = &store.storages[tensor.storage];
        let entry = format!("{root}/data/{}", storage.key);
        let place =
            self.archive.entry(&entry).map_err(|source| FileError::Archive { path: self.path.to_owned(), source })?;
        let value_bytes = (storage.dtype.bitsize() / 8) as u64;
        if storage.values.checked_mul(value_bytes) != Some(place.len() as u64) {
            return Err(refused(format!(
                "is said to be in {} values of {}, and its storage has {} bytes",
                storage.values,
                storage.dtype,
                place.len()
            )));
        }
        let Some(values) = tensor.shape.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim)) else {
            return Err(refused(format!("has shape {:?}, whose product is too large", tensor.shape)));
        };
        if !is_contiguous(tensor) {
            return Err(refused(format!(
                "has shape {:?} and strides {:?}; save it with .contiguous()",
                tensor.shape, tensor.strides
            )));
        }
        let end = tensor.offset.checked_add(values).filter(|end| *end <= storage.values);
        let Some(end) = end else {
            return Err(refused(format!(
                "has shape {:?} from value {}, and its storage has {}",
                tensor.shape, tensor.offset, storage.values
            )));
        };
        // Both are within the storage, which is within the file.
        let byte = |value: u64| place.start + (value * value_bytes) as usize;
        let range: Range<usize> = byte(tensor.offset)..byte(end);
        Ok(Stored { dtype: storage.dtype, shape: tensor.shape.iter().map(|dim| *dim as usize).collect(), range })
    }
}

/// Whether the values lie in row-major order without gaps. The stride of a dimension of one is of no account.
fn is_contiguous(tensor: &PickledTensor) -> bool {
    let mut wanted = 1;
    tensor.shape.contains(&0)
        || tensor.shape.iter().zip(&tensor.strides).rev().all(|(dim, stride)| {
            let fits = *dim == 1 || *stride == wanted;
            wanted *= dim;
            fits
        })
}

/// The dictionary of tensors: the one given, or the one that a training run wrapped.
fn unwrapped(store: &Store<'_>, dict: usize) -> usize {
    let inner = store.dicts[dict].iter().find_map(|(key, value)| match (key, value) {
        (Value::Text(key), Value::Dict(inner)) if WRAPPERS.contains(key) => Some(*inner),
        _ => None,
    });
    inner.unwrap_or(dict)
}

/// The names of the tensors in dictionaries.
struct Names<'a> {
    store: &'a Store<'a>,
    found: Vec<(String, usize)>,
    /// Entries looked at: one dictionary may be in many places, so that a few bytes name endless tensors.
    visited: usize,
}

impl Names<'_> {
    /// Takes the tensors of a dictionary and of the dictionaries in it. Anything else in it is no weight.
    fn collect(&mut self, dict: usize, prefix: &str, depth: usize) -> Result<(), PickleError> {
        for (key, value) in &self.store.dicts[dict] {
            self.visited += 1;
            let Value::Text(key) = key else { continue };
            if self.visited > MOST_NAMES || key.len() > LONGEST_KEY {
                return Err(PickleError::Names);
            }
            match value {
                Value::Tensor(tensor) => self.found.push((format!("{prefix}{key}"), *tensor)),
                Value::Dict(_) if depth == MAX_DEPTH => return Err(PickleError::Depth),
                Value::Dict(inner) => self.collect(*inner, &format!("{prefix}{key}."), depth + 1)?,
                _ => {}
            }
        }
        Ok(())
    }
}

fn kind(value: Value<'_>) -> &'static str {
    match value {
        Value::Tensor(_) => "one tensor",
        Value::List(_) | Value::Tuple(_) => "a list",
        Value::Text(_) => "a text",
        _ => "a single value",
    }
}

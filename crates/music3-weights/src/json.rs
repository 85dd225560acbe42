//! JSON files from outside: bounded, inside the checkpoint folder, and with repeated keys noticed.

use std::{collections::BTreeSet, fmt, fs, io::Read, marker::PhantomData, path::Path};

use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};

use crate::file_error::FileError;

/// The largest JSON file that is read. The language model's index has 33 kB.
const MAX_JSON: u64 = 16 << 20;

/// Reads a JSON file of `folder`.
pub(crate) fn read_json<T: DeserializeOwned>(folder: &Path, path: &Path) -> Result<T, FileError> {
    check_inside(folder, path)?;
    let failed = |source| FileError::Io { path: path.to_owned(), source };
    let mut file = open_regular(path)?;
    let found = file.metadata().map_err(failed)?.len();
    if found > MAX_JSON {
        return Err(FileError::TooLarge { path: path.to_owned(), what: "the JSON text", found, limit: MAX_JSON });
    }
    let mut bytes = Vec::new();
    file.by_ref().take(MAX_JSON).read_to_end(&mut bytes).map_err(failed)?;
    let found = if bytes.is_empty() { Some("an empty file") } else { recognise(&bytes) };
    match found.filter(|found| *found != JSON) {
        Some(found) => Err(FileError::Content { path: path.to_owned(), expected: "a JSON text", found }),
        None => serde_json::from_slice(&bytes).map_err(|source| FileError::Json { path: path.to_owned(), source }),
    }
}

/// What [`recognise`] calls a JSON object.
pub(crate) const JSON: &str = "a JSON text";

/// Names what is often found in the place of a file of a checkpoint.
pub(crate) fn recognise(bytes: &[u8]) -> Option<&'static str> {
    let text = bytes.trim_ascii_start();
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    match () {
        () if starts(b"version https://git-lfs") => {
            Some("a Git LFS pointer; fetch the file itself with `git lfs pull`")
        }
        () if starts(b"GGUF") => Some("a GGUF file; the original weights are needed"),
        () if starts(b"PK\x03\x04") => Some("a zip archive, perhaps a PyTorch file"),
        () if starts(b"\x80\x02") => {
            Some("a Python pickle, perhaps an old PyTorch file; save it again with a current torch")
        }
        () if starts(b"\x1f\x8b") => Some("a gzip archive; unpack it"),
        () if text.starts_with(b"<") => Some("a web page; the download failed, repeat it"),
        () if text.starts_with(b"{") => Some(JSON),
        () => None,
    }
}

/// Opens a file, and nothing else: opening a pipe would wait for its writer.
pub(crate) fn open_regular(path: &Path) -> Result<fs::File, FileError> {
    let failed = |source| FileError::Io { path: path.to_owned(), source };
    let kind = fs::metadata(path).map_err(failed)?.file_type();
    if kind.is_file() {
        return fs::File::open(path).map_err(failed);
    }
    let found = if kind.is_dir() { "a folder" } else { "a device or a pipe" };
    Err(FileError::NotAFile { path: path.to_owned(), found })
}

/// Refuses a path that leads out of `folder` through a link.
///
/// The hub's cache is the exception: there `snapshots/<revision>/` consists of links into the `blobs` folder beside
/// `snapshots`, and only links straight into that folder pass.
pub(crate) fn check_inside(folder: &Path, path: &Path) -> Result<(), FileError> {
    let real = |path: &Path| path.canonicalize().map_err(|source| FileError::Io { path: path.to_owned(), source });
    let (folder, target) = (real(folder)?, real(path)?);
    let snapshots = folder.ancestors().find(|ancestor| ancestor.file_name().is_some_and(|name| name == "snapshots"));
    let blobs = snapshots.and_then(Path::parent).map(|cache| cache.join("blobs"));
    match target.starts_with(&folder) || (blobs.is_some() && target.parent() == blobs.as_deref()) {
        true => Ok(()),
        false => Err(FileError::OutsideFolder { path: path.to_owned(), target }),
    }
}

/// The entries of a JSON object in their order, repeated keys included: a map would keep the last in silence.
pub(crate) struct Pairs<V>(pub(crate) Vec<(String, V)>);

impl<V> Pairs<V> {
    /// The keys that occur more than once.
    pub(crate) fn repeated(&self) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        self.0.iter().map(|(key, _)| key.as_str()).filter(|key| !seen.insert(*key)).collect()
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Pairs<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor(PhantomData))
    }
}

struct PairsVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for PairsVisitor<V> {
    type Value = Pairs<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}

//! What can be wrong with a single file.

use std::path::PathBuf;

use safetensors::Dtype;

use crate::pth::{ArchiveError, PickleError};

/// A file that cannot be read as what it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system refuses to open, map or read it.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// Something else lies where a file is expected.
    #[error("{}: expected a file, found {found}", path.display())]
    NotAFile {
        /// The place.
        path: PathBuf,
        /// What lies there.
        found: &'static str,
    },
    /// A link, or a name in an index, leads out of the checkpoint folder.
    #[error("{}: leads out of the checkpoint folder, to {}; copy the file into the folder", path.display(), target.display())]
    OutsideFolder {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// A file name in an index that is not a plain name.
    #[error("{}: tensor `{tensor}` is said to be in `{name}`; expected the plain name of a .safetensors file beside the index", path.display())]
    ShardName {
        /// The index.
        path: PathBuf,
        /// The tensor whose file is named so.
        tensor: String,
        /// The name.
        name: String,
    },
    /// The content is recognised as something else.
    #[error("{}: expected {expected}, found {found}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The format it should have.
        expected: &'static str,
        /// What it holds, and the remedy where there is one.
        found: &'static str,
    },
    /// The file is shorter than its own header says.
    #[error("{}: the header takes {header} bytes, the file has {file}; the file is cut short or not a safetensors file", path.display())]
    HeaderPastEnd {
        /// The file.
        path: PathBuf,
        /// Bytes the header claims, its length field included.
        header: u64,
        /// Bytes the file has.
        file: u64,
    },
    /// A header or a JSON file larger than any of this model.
    #[error("{}: {what} takes {found} bytes; the maximum is {limit}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What is too large.
        what: &'static str,
        /// Its size in bytes.
        found: u64,
        /// The largest that is read.
        limit: u64,
    },
    /// Tensors end before or after the end of the file.
    #[error("{}: the header describes {expected} bytes of tensors, the file holds {found}; {}", path.display(), if found < expected { "it is cut short, copy it again" } else { "it holds more than its header says" })]
    DataLength {
        /// The file.
        path: PathBuf,
        /// Bytes of tensors the header describes.
        expected: u64,
        /// Bytes after the header.
        found: u64,
    },
    /// The header is not a valid safetensors header.
    #[error("{}: {reason}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the tensor's name where it is one.
        reason: String,
        /// The format library's reason.
        #[source]
        source: safetensors::SafeTensorError,
    },
    /// A `.pth` file whose zip container cannot be read.
    #[error("{}: {source}", path.display())]
    Archive {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: ArchiveError,
    },
    /// A `.pth` file whose pickle holds something else than tensors, or is damaged.
    #[error("{}: {source}", path.display())]
    Pickle {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: PickleError,
    },
    /// A tensor of a `.pth` file that cannot be read where it lies.
    #[error("{}: tensor `{name}` {reason}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Why not.
        reason: String,
    },
    /// A JSON file, or a header, that is not the JSON it should be.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where it fails, and why.
        #[source]
        source: serde_json::Error,
    },
    /// A tensor that the file does not hold was asked for.
    #[error("{}: there is no tensor `{name}`", path.display())]
    NoTensor {
        /// The file or folder.
        path: PathBuf,
        /// The name asked for.
        name: String,
    },
    /// A tensor of a dtype that no tensor library type stands for.
    #[error("{}: tensor `{name}` has dtype {dtype}, which cannot be read", path.display())]
    UnreadableDtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: Dtype,
    },
}

//! What can go wrong with audio files.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Why an audio file could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AudioError {
    /// The file cannot be written. Nothing is left under its name that was not there before.
    #[error("{} cannot be written: {}", path.display(), write_obstacle(path, cause))]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said; the message holds it, so it is no source of its own.
        cause: io::Error,
    },
    /// The path names no file.
    #[error("{} cannot be written: it names a folder, expected the name of a file", path.display())]
    NamesAFolder {
        /// The path.
        path: PathBuf,
    },
    /// Something that is not a file, such as a device or a pipe, has the name.
    #[error("{} cannot be written: something of that name is in the way that is not a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The audio does not fit into a WAV file, which ends at 4 GiB.
    #[error("{} cannot be written: {bytes} bytes of samples, a WAV file holds at most {maximum}", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Bytes of the samples in the format that was asked for.
        bytes: u64,
        /// The most bytes of samples.
        maximum: u64,
    },
    /// A sample is NaN or infinite.
    #[error("{} cannot be written: sample {index} of the {channel} channel is {sample}, expected a finite number", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// `left` or `right`.
        channel: &'static str,
        /// The sample's number, from 0.
        index: usize,
        /// The sample.
        sample: f32,
    },
    /// The file cannot be read.
    #[error("{} cannot be read as a WAV file: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the WAV library said; the message holds it, so it is no source of its own.
        cause: hound::Error,
    },
    /// The file is not stereo.
    #[error("{} has {found} channels, expected 2", path.display())]
    NotStereo {
        /// The file.
        path: PathBuf,
        /// Channels of the file.
        found: u16,
    },
}

/// Says in words what stood in the way of writing.
fn write_obstacle(path: &Path, error: &io::Error) -> String {
    let folder = folder_of(path);
    match error.kind() {
        ErrorKind::NotFound if !folder.exists() => format!("the folder {} does not exist", folder.display()),
        ErrorKind::NotADirectory => format!("{} is not a folder", folder.display()),
        ErrorKind::PermissionDenied => format!("no permission to write in the folder {}", folder.display()),
        ErrorKind::ReadOnlyFilesystem => format!("the file system of {} is read-only", folder.display()),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "the disk is full".to_owned(),
        ErrorKind::FileTooLarge => "the file system allows no file of that size".to_owned(),
        ErrorKind::InvalidFilename => "the file system does not allow that name".to_owned(),
        _ => error.to_string(),
    }
}

/// Returns the folder that a file lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

//! Files of a new checkpoint onto the disk, under a name that is not the final one.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use super::Copied;
use crate::{error::WeightsError, json::open_regular, new_folder::NewFolderError};

/// Bytes that are copied at once.
pub(super) const PIECE_BYTES: usize = 8 << 20;

/// Why a checkpoint was not converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// There is no place for the folder.
    #[error(transparent)]
    Folder(#[from] NewFolderError),
    /// The system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The checkpoint is not whole, or it changed.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The progress callback asked to stop.
    #[error("converting stopped after {written} of {total} bytes")]
    Stopped {
        /// Bytes written.
        written: u64,
        /// Bytes in all.
        total: u64,
    },
}

/// Writes into the unfinished folder and counts.
pub(super) struct Writer<'a> {
    pub(super) folder: &'a Path,
    pub(super) written: u64,
    pub(super) total: u64,
    pub(super) progress: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
}

impl Writer<'_> {
    pub(super) fn create(&self, name: &Path) -> Result<(PathBuf, File), ConvertError> {
        let path = self.folder.join(name);
        on(&path, path.parent().map_or(Ok(()), fs::create_dir_all))?;
        let created = on(&path, File::create_new(&path))?;
        Ok((path, created))
    }

    pub(super) fn text(&self, name: &Path, text: &str) -> Result<(), ConvertError> {
        let (path, mut created) = self.create(name)?;
        on(&path, created.write_all(text.as_bytes()).and_then(|()| created.sync_all()))
    }

    pub(super) fn copy(&mut self, copy: &Copied) -> Result<(), ConvertError> {
        let mut source = open_regular(&copy.from).map_err(WeightsError::from)?.take(copy.bytes);
        let (path, mut created) = self.create(&copy.to)?;
        let mut piece = vec![0; PIECE_BYTES.min(copy.bytes as usize)];
        loop {
            match on(&copy.from, source.read(&mut piece))? {
                0 => return on(&path, created.sync_all()),
                count => {
                    on(&path, created.write_all(&piece[..count]))?;
                    self.step(count)?;
                }
            }
        }
    }

    pub(super) fn step(&mut self, bytes: usize) -> Result<(), ConvertError> {
        self.written += bytes as u64;
        match (self.progress)(self.written) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(ConvertError::Stopped { written: self.written, total: self.total }),
        }
    }
}

pub(super) fn on<T>(path: &Path, result: io::Result<T>) -> Result<T, ConvertError> {
    result.map_err(|source| ConvertError::Io { path: path.to_owned(), source })
}

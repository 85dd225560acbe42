//! Planned files onto the disk: pieces are drawn and written by all threads at once.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rayon::prelude::*;

use super::{SynthCheckpoint, SynthFile, SynthTensor};

/// Bytes that are drawn and written at once; each thread holds one piece.
const PIECE_BYTES: u64 = 16 << 20;

/// Why a checkpoint was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The progress callback asked to stop.
    #[error("writing stopped after {written} of {total} bytes")]
    Stopped {
        /// Bytes of tensors written.
        written: u64,
        /// Bytes of tensors in all.
        total: u64,
    },
}

/// Part of a tensor.
struct Piece<'a> {
    path: &'a Path,
    /// Where it lies in the file.
    offset: u64,
    tensor: &'a SynthTensor,
    /// Its first value.
    first: u64,
    bytes: u64,
}

impl SynthCheckpoint {
    /// Writes everything into `folder`, which exists. `progress` is told how many bytes of tensors are written, by any
    /// thread, and stops the work by returning `Break`.
    ///
    /// The files are not forced onto the disk: what they hold can be made again.
    ///
    /// # Errors
    /// The first file that cannot be written, or that it was stopped. What was written until then stays.
    pub fn write(&self, folder: &Path, progress: &(dyn Fn(u64) -> ControlFlow<()> + Sync)) -> Result<(), WriteError> {
        for (path, text) in &self.texts {
            let path = folder.join(path);
            on(&path, make_parent(&path).and_then(|()| fs::write(&path, text)))?;
        }
        let mut paths = Vec::with_capacity(self.files.len());
        for file in &self.files {
            let path = folder.join(file.path());
            let created = make_parent(&path).and_then(|()| File::create_new(&path)).and_then(|mut created| {
                // Pieces are written in any order.
                created.set_len(file.bytes())?;
                file.fixed().iter().try_for_each(|(offset, bytes)| {
                    created.seek(SeekFrom::Start(*offset))?;
                    created.write_all(bytes)
                })
            });
            on(&path, created)?;
            paths.push(path);
        }
        let pieces: Vec<Piece<'_>> =
            self.files.iter().zip(&paths).flat_map(|(file, path)| pieces(path, file)).collect();
        let total = pieces.iter().map(|piece| piece.bytes).sum();
        let written = AtomicU64::new(0);
        pieces.into_par_iter().try_for_each_init(Vec::new, |buffer, piece| {
            on(piece.path, piece.write(buffer))?;
            let written = written.fetch_add(piece.bytes, Ordering::Relaxed) + piece.bytes;
            match progress(written) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(WriteError::Stopped { written, total }),
            }
        })
    }
}

impl Piece<'_> {
    fn write(&self, buffer: &mut Vec<u8>) -> io::Result<()> {
        let len = usize::try_from(self.bytes).map_err(io::Error::other)?;
        buffer.resize(len, 0);
        self.tensor.fill(self.first, buffer);
        // A handle of its own has a position of its own, on every system.
        let mut file = OpenOptions::new().write(true).open(self.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        file.write_all(buffer)
    }
}

fn pieces<'a>(path: &'a Path, file: &'a SynthFile) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    for (offset, tensor) in file.tensors() {
        let total = tensor.bytes();
        let starts = (0..total).step_by(PIECE_BYTES as usize);
        pieces.extend(starts.map(|start| Piece {
            path,
            offset: offset + start,
            tensor,
            first: start / tensor.value_bytes(),
            bytes: PIECE_BYTES.min(total - start),
        }));
    }
    pieces
}

fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

fn on<T>(path: &Path, result: io::Result<T>) -> Result<T, WriteError> {
    result.map_err(|source| WriteError::Io { path: path.to_owned(), source })
}

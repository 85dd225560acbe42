//! A new checkpoint's folder, which appears only when it is whole.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// Why a folder was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NewFolderError {
    /// Nothing is overwritten.
    #[error("{}: exists already; pass a name that does not exist, or remove it first", path.display())]
    Exists {
        /// The folder asked for.
        path: PathBuf,
    },
    /// The disk is too full.
    #[error(
        "{}: {:.1} GB are needed and {:.1} GB are free on that disk; pass a folder on another one",
        path.display(),
        *needed_bytes as f64 / 1e9,
        *free_bytes as f64 / 1e9
    )]
    NoSpace {
        /// The folder asked for.
        path: PathBuf,
        /// What the checkpoint takes.
        needed_bytes: u64,
        /// What is free.
        free_bytes: u64,
    },
    /// The system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

/// A folder that is filled under another name beside its own, on the same disk. Unless it is finished it is removed.
#[derive(Debug)]
pub struct NewFolder {
    out: PathBuf,
    unfinished: TempDir,
}

impl NewFolder {
    /// Begins one that will take so many bytes.
    ///
    /// # Errors
    /// `out` exists, the disk is too full, or the system refuses.
    pub fn begin(out: &Path, needed_bytes: u64) -> Result<Self, NewFolderError> {
        refuse_existing(out)?;
        let parent = match out.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let in_parent = |source| NewFolderError::Io { path: parent.to_owned(), source };
        let free_bytes = fs4::available_space(parent).map_err(in_parent)?;
        refuse_full(out, needed_bytes, free_bytes)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".unfinished-checkpoint-");
        // A temporary folder is its owner's alone; a checkpoint is not.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755));
        Ok(Self { out: out.to_owned(), unfinished: builder.tempdir_in(parent).map_err(in_parent)? })
    }

    /// Where it is filled.
    pub fn path(&self) -> &Path {
        self.unfinished.path()
    }

    /// Gives it its own name.
    ///
    /// # Errors
    /// A folder of that name appeared in the meantime, which is not replaced either, or the system refuses.
    pub fn finish(self) -> Result<(), NewFolderError> {
        refuse_existing(&self.out)?;
        let renamed = fs::rename(self.path(), &self.out);
        renamed.map_err(|source| NewFolderError::Io { path: self.out, source })?;
        // It has another name now.
        let _ = self.unfinished.keep();
        Ok(())
    }
}

fn refuse_existing(out: &Path) -> Result<(), NewFolderError> {
    match out.symlink_metadata() {
        Ok(_) => Err(NewFolderError::Exists { path: out.to_owned() }),
        Err(_) => Ok(()),
    }
}

fn refuse_full(out: &Path, needed_bytes: u64, free_bytes: u64) -> Result<(), NewFolderError> {
    if needed_bytes <= free_bytes {
        return Ok(());
    }
    Err(NewFolderError::NoSpace { path: out.to_owned(), needed_bytes, free_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_disk_that_is_too_full() {
        assert!(refuse_full(Path::new("x"), 28_500_000_000, 28_500_000_000).is_ok());
        let error = refuse_full(Path::new("x"), 28_500_000_001, 12_340_000_000).expect_err("it does not fit");
        assert_eq!(
            error.to_string(),
            "x: 28.5 GB are needed and 12.3 GB are free on that disk; pass a folder on another one"
        );
    }
}

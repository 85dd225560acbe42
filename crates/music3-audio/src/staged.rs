//! Files that appear whole or not at all.
//!
//! A file is written beside its final name, completed, brought to the disk and then renamed. Whatever stops that, power
//! cuts included, the final name holds what it held before, or the whole file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::error::{AudioError, folder_of};

/// A file that has not got its name yet. Dropped, it is deleted.
#[derive(Debug)]
pub struct Staged {
    path: PathBuf,
    beside: NamedTempFile,
}

impl Staged {
    /// Creates an empty file that will have the name `path`, in the same folder, after looking at what already has it.
    ///
    /// # Errors
    /// The folder does not exist or lets no file be made, or something that is not a file has the name.
    pub fn create(path: &Path) -> Result<Self, AudioError> {
        let failed = |cause| AudioError::Write { path: path.to_owned(), cause };
        let ends_like_a_folder = path.as_os_str().to_string_lossy().ends_with(std::path::is_separator);
        if path.file_name().is_none() || ends_like_a_folder {
            return Err(AudioError::NamesAFolder { path: path.to_owned() });
        }
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(AudioError::NamesAFolder { path: path.to_owned() }),
            // Renaming over a device would replace it.
            Ok(found) if !found.is_file() => return Err(AudioError::NotAFile { path: path.to_owned() }),
            // A missing folder shows below.
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let beside = Builder::new().prefix(".music3-").suffix(".part").make_in(folder_of(path), create_new);
        Ok(Self { path: path.to_owned(), beside: beside.map_err(failed)? })
    }

    /// Creates the file, has `write` fill it, and brings it to the disk.
    ///
    /// # Errors
    /// As [`create`](Self::create), or the file cannot be written. Nothing is left behind then.
    pub fn write(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<Self, AudioError> {
        let mut staged = Self::create(path)?;
        let failed = |cause| AudioError::Write { path: path.to_owned(), cause };
        write(staged.beside.as_file_mut()).map_err(failed)?;
        staged.beside.as_file().sync_all().map_err(failed)?;
        Ok(staged)
    }

    /// Returns where the bytes are until the file has its name.
    pub fn bytes_path(&self) -> &Path {
        self.beside.path()
    }

    /// Gives the file its name, replacing a file that had it.
    ///
    /// # Errors
    /// It cannot be renamed. Nothing is left behind then.
    pub fn complete(self) -> Result<(), AudioError> {
        let Self { path, beside } = self;
        beside.persist(&path).map(drop).map_err(|error| AudioError::Write { path, cause: error.error })
    }
}

/// Checks that a file can be written under that name, for an early refusal: the folder exists and lets files be made,
/// and nothing but a file has the name. Nothing is changed.
///
/// # Errors
/// What [`Staged::create`] would say.
pub fn check_writable(path: &Path) -> Result<(), AudioError> {
    // The file is deleted when it goes out of scope.
    Staged::create(path).map(drop)
}

/// Creates a file with the permissions of any other new file, where the temporary file's own default is its owner's only.
fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder).expect("a folder").count()
    }

    #[test]
    fn a_file_has_its_name_once_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.json");
        let staged = Staged::write(&path, |file| file.write_all(b"new")).expect("written");
        assert!(!path.exists());
        assert_eq!(fs::read(staged.bytes_path()).expect("the bytes"), b"new");
        staged.complete().expect("renamed");
        assert_eq!(fs::read(&path).expect("the file"), b"new");
        assert_eq!(names(folder.path()), 1);
    }

    #[test]
    fn what_is_not_completed_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.json");
        fs::write(&path, "old").expect("an older file");
        drop(Staged::write(&path, |file| file.write_all(b"new")).expect("written"));
        let error = Staged::write(&path, |_| Err(ErrorKind::StorageFull.into())).expect_err("a full disk");
        assert!(error.to_string().ends_with("a.json cannot be written: the disk is full"), "{error}");
        assert_eq!((fs::read(&path).expect("the file"), names(folder.path())), (b"old".to_vec(), 1));
    }
}

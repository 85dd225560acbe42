//! Unpacks a packed checkpoint into the user's cache folder.

use std::{
    fs, io,
    io::{Read, Write},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::{error::SongError, fingerprint::hex};

/// More than any packed checkpoint of this project holds; an archive that unpacks to more is refused.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// Unpacks a `.tar.gz` of a checkpoint into the user's cache folder, if it is not there intact already, and returns its
/// folder.
///
/// # Errors
/// The archive cannot be read, the cache folder is unknown or cannot be written.
pub fn unpack_file(archive: &Path) -> Result<PathBuf, SongError> {
    let bytes = fs::read(archive).map_err(|source| SongError::Unpack { path: archive.to_owned(), source })?;
    let name = archive.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    unpack_bytes(&bytes, &cache_folder()?, name.trim_end_matches(".tar.gz"))
}

/// The folder that this program's cached files go to: `XDG_CACHE_HOME` or the system's own place for them.
pub(super) fn cache_folder() -> Result<PathBuf, SongError> {
    dirs::cache_dir().map(|folder| folder.join("music3")).ok_or(SongError::NoCacheFolder)
}

/// Unpacks into `cache/NAME-HASH`, through a folder beside it that is renamed when it is whole, so that an interrupted
/// or a second run never sees half of a checkpoint.
pub(super) fn unpack_bytes(archive: &[u8], cache: &Path, name: &str) -> Result<PathBuf, SongError> {
    let hash = hex(&Sha256::digest(archive));
    let folder = cache.join(format!("{name}-{}", &hash[..16]));
    let fail = |source| SongError::Unpack { path: folder.clone(), source };
    if is_intact(archive, &folder).map_err(fail)? {
        return Ok(folder);
    }
    fs::create_dir_all(cache).map_err(fail)?;
    let fresh = tempfile::Builder::new().prefix(".unpacking-").tempdir_in(cache).map_err(fail)?;
    for_each_file(archive, |path, contents| {
        let path = fresh.path().join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file = fs::File::create(path)?;
        file.write_all(contents)?;
        file.sync_all()?;
        Ok(true)
    })
    .map_err(fail)?;
    if folder.exists() {
        // Damaged, or unpacked by another run in the meantime: the one that is whole stays.
        if is_intact(archive, &folder).map_err(fail)? {
            return Ok(folder);
        }
        fs::remove_dir_all(&folder).map_err(fail)?;
    }
    match fs::rename(fresh.keep(), &folder) {
        Ok(()) => Ok(folder),
        Err(_) if is_intact(archive, &folder).map_err(fail)? => Ok(folder),
        Err(source) => Err(fail(source)),
    }
}

/// Returns whether every file of the archive is in `folder` with the same contents.
fn is_intact(archive: &[u8], folder: &Path) -> io::Result<bool> {
    if !folder.is_dir() {
        return Ok(false);
    }
    for_each_file(archive, |path, contents| Ok(fs::read(folder.join(path)).is_ok_and(|found| found == contents)))
}

/// Calls `each` with the path and contents of every file until it returns false; returns whether it never did.
fn for_each_file(archive: &[u8], mut each: impl FnMut(&Path, &[u8]) -> io::Result<bool>) -> io::Result<bool> {
    let unpacked = flate2::read::GzDecoder::new(archive).take(MAX_UNPACKED_BYTES);
    let mut archive = tar::Archive::new(unpacked);
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path()?.into_owned();
        let inside = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !inside {
            let message = format!("the archive names a file outside its folder: {}", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let mut contents = Vec::new();
        entry.read_to_end(&mut contents)?;
        if !each(&path, &contents)? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        for (path, contents) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(contents.len() as u64);
            header.set_mode(0o644);
            // Written raw: the builder itself refuses `..`.
            let name = path.as_bytes();
            header.as_old_mut().name[..name.len()].copy_from_slice(name);
            header.set_cksum();
            builder.append(&header, *contents).expect("writing to memory");
        }
        builder.into_inner().expect("finishing").finish().expect("compressing")
    }

    #[test]
    fn unpacks_once_and_repairs_a_damaged_copy() {
        let cache = tempfile::tempdir().expect("a temporary folder");
        let packed = archive(&[("a/config.json", b"{}"), ("a/model.bin", b"123")]);
        let folder = unpack_bytes(&packed, cache.path(), "x").expect("a whole archive");
        assert_eq!(fs::read(folder.join("a/model.bin")).expect("unpacked"), b"123");
        fs::write(folder.join("a/model.bin"), b"12").expect("damage");
        assert_eq!(unpack_bytes(&packed, cache.path(), "x").expect("a repair"), folder);
        assert_eq!(fs::read(folder.join("a/model.bin")).expect("repaired"), b"123");
        assert_eq!(fs::read_dir(cache.path()).expect("the cache").count(), 1, "nothing else is left");
    }

    #[test]
    fn refuses_a_path_outside_its_folder_and_a_cut_archive() {
        let cache = tempfile::tempdir().expect("a temporary folder");
        let hostile = archive(&[("../evil", b"x")]);
        assert!(unpack_bytes(&hostile, cache.path(), "x").is_err());
        let packed = archive(&[("a/model.bin", &[7; 5000])]);
        assert!(unpack_bytes(&packed[..packed.len() / 2], cache.path(), "x").is_err());
        assert_eq!(fs::read_dir(cache.path()).expect("the cache").count(), 0, "nothing is left");
    }
}

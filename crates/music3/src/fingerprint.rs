//! Which checkpoint it was: a hash that is cheap for 28 GB and tells one set of weights from another.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use music3_weights::Checkpoint;
use sha2::{Digest, Sha256};

use crate::error::SongError;

/// Bytes that are hashed at the start and at the end of each file. Every published config and header fits.
const HASHED_BYTES: u64 = 64 << 10;

/// Returns a SHA-256 over the names, the lengths, and the first and last 64 KiB of the files that a checkpoint is read
/// from.
///
/// It does not depend on where the folder lies. Weights that were trained on differ in their last tensors and therefore
/// here; a change in the middle of a large file alone goes unnoticed.
pub(crate) fn fingerprint(checkpoint: &Checkpoint) -> Result<String, SongError> {
    let mut hash = Sha256::new();
    for path in files(checkpoint) {
        let name = path.strip_prefix(checkpoint.path()).unwrap_or(&path);
        let parts: Vec<String> =
            name.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        hash.update(parts.join("/"));
        hash_ends(&path, &mut hash).map_err(|source| SongError::Fingerprint { path, source })?;
    }
    Ok(hex(&hash.finalize()))
}

/// Returns the lower-case digits of a hash.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn files(checkpoint: &Checkpoint) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in checkpoint.components() {
        files.extend(folder.config_path().map(Path::to_owned));
        files.extend(folder.files().into_iter().map(Path::to_owned));
    }
    files.push(checkpoint.tokenizer().join("tokenizer.json"));
    files
}

fn hash_ends(path: &Path, hash: &mut Sha256) -> io::Result<()> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    hash.update(length.to_le_bytes());
    let mut bytes = Vec::new();
    (&mut file).take(HASHED_BYTES).read_to_end(&mut bytes)?;
    // What the first part does not cover, at most as much again.
    file.seek(SeekFrom::Start(length.saturating_sub(HASHED_BYTES).max(bytes.len() as u64)))?;
    file.take(HASHED_BYTES).read_to_end(&mut bytes)?;
    hash.update(&bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_and_the_length_of_a_file_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("weights");
        let hashed = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("written");
            let mut hash = Sha256::new();
            hash_ends(&path, &mut hash).expect("read");
            hex(&hash.finalize())
        };
        let size = 3 * HASHED_BYTES as usize;
        let with = |place: usize| {
            let mut bytes = vec![0; size];
            bytes[place] = 1;
            bytes
        };
        let zeros = hashed(&vec![0; size]);
        for place in [0, HASHED_BYTES as usize - 1, 2 * HASHED_BYTES as usize, size - 1] {
            assert_ne!(hashed(&with(place)), zeros, "byte {place}");
        }
        assert_eq!(hashed(&with(size / 2)), zeros, "the middle of a large file is not read");
        assert_ne!(hashed(&vec![0; size + 1]), zeros);
        assert_ne!(hashed(&with(70_000)[..80_000]), hashed(&vec![0; 80_000]), "a file of less than both parts");
        assert_ne!(hashed(b"ab"), hashed(b"aa"));
    }
}

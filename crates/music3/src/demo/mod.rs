//! The demo checkpoints: two tiny models in the published layout, carried by the program.
//!
//! With them every stage of the real pipeline runs without the 28.5 GB of published weights. One was trained on a handful
//! of tunes, which it plays; it has learned these and nothing else. The other is random and makes noise: the recorded
//! answers of upstream that the tests compare with are of that one.

mod tunes;
mod unpacking;
mod upstream_codes;

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use self::unpacking::{cache_folder, unpack_bytes};
pub use self::{
    tunes::{Note, Tune, tunes},
    unpacking::unpack_file,
    upstream_codes::{UpstreamCodes, compare_with_upstream},
};
use crate::{error::SongError, fingerprint::hex};

/// A checkpoint that the program carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Demo {
    /// Trained on the [`tunes`] by `goldens/demo/train.py`; it plays these and nothing else.
    Tunes,
    /// Random, made by `goldens/generate/demo.py`; its songs are noise.
    Random,
}

/// A packed checkpoint, and its SHA-256 as the script that made it wrote it down.
struct Packed {
    name: &'static str,
    archive: &'static [u8],
    sha256: &'static str,
}

impl Demo {
    fn packed(self) -> Packed {
        match self {
            Self::Tunes => Packed {
                name: "demo-tunes",
                archive: include_bytes!("../../../../goldens/demo/tunes-checkpoint.tar.gz"),
                sha256: include_str!("../../../../goldens/demo/tunes-checkpoint.sha256"),
            },
            Self::Random => Packed {
                name: "demo-random",
                archive: include_bytes!("../../../../goldens/demo/demo-checkpoint.tar.gz"),
                sha256: include_str!("../../../../goldens/demo/demo-checkpoint.sha256"),
            },
        }
    }
}

/// Unpacks a demo checkpoint into the user's cache folder, if it is not there intact already, and returns its folder.
///
/// # Errors
/// The cache folder is unknown or cannot be written, or the archive is not the one this build was made with.
pub fn unpack(demo: Demo) -> Result<PathBuf, SongError> {
    let packed = demo.packed();
    let expected = packed.sha256.split_whitespace().next().unwrap_or_default().to_owned();
    let found = hex(&Sha256::digest(packed.archive));
    if found != expected {
        return Err(SongError::WrongHash { found, expected });
    }
    unpack_bytes(packed.archive, &cache_folder()?, packed.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carries_the_archives_it_was_made_with() {
        for demo in [Demo::Tunes, Demo::Random] {
            let packed = demo.packed();
            let expected = packed.sha256.split_whitespace().next().expect("a hash");
            assert_eq!(hex(&Sha256::digest(packed.archive)), expected, "{demo:?}");
        }
    }
}

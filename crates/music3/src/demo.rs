//! The demo checkpoint: a tiny random model in the published layout, carried by the program.
//!
//! It exists so that every stage of the real pipeline runs without the 28.5 GB of published weights. Its weights are
//! random, so it makes noise.

use std::{
    fs, io,
    io::{Read, Write},
    path::{Path, PathBuf},
};

use music3_nn::Width;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::{
    autoregressive::FinishReason, error::SongError, fingerprint::hex, precision::Precision, request::SongRequest,
    rng::Rng, song::Song,
};

/// The packed checkpoint.
static ARCHIVE: &[u8] = include_bytes!("../../../goldens/demo/demo-checkpoint.tar.gz");

/// Its SHA-256, written by the script that made it.
static ARCHIVE_SHA256: &str = include_str!("../../../goldens/demo/demo-checkpoint.sha256");

/// What upstream draws on it, written by `goldens/generate/demo_codes.py`.
static UPSTREAM_CODES: &str = include_str!("../../../goldens/demo/demo-codes.json");

/// More than any packed checkpoint of this project holds; an archive that unpacks to more is refused.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// Unpacks the demo checkpoint into the user's cache folder, if it is not there intact already, and returns its folder.
///
/// # Errors
/// The cache folder is unknown or cannot be written, or the archive is not the one this build was made with.
pub fn unpack() -> Result<PathBuf, SongError> {
    let expected = ARCHIVE_SHA256.split_whitespace().next().unwrap_or_default().to_owned();
    let found = hex(&Sha256::digest(ARCHIVE));
    if found != expected {
        return Err(SongError::WrongHash { found, expected });
    }
    unpack_bytes(ARCHIVE, &cache_folder()?, "demo")
}

/// How a song's codes compare with upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamCodes {
    /// Every code of every frame is the same, and the songs end alike.
    Equal {
        /// Frames that were compared.
        frames: usize,
    },
    /// A frame differs, or one of the songs is longer.
    DifferFrom {
        /// The first frame that differs, from 1.
        frame: usize,
    },
}

/// The recorded runs of upstream.
#[derive(Deserialize)]
struct Recorded {
    caption: String,
    lyrics: String,
    max_seconds: f64,
    seed: u64,
    rng: Rng,
    bf16: RecordedCodes,
    f32: RecordedCodes,
}

/// One run: a row of codes per decode step, of which the first is no frame.
#[derive(Deserialize)]
struct RecordedCodes {
    ended_by_end_token: bool,
    codes: Vec<Vec<u32>>,
}

/// Compares a song that the demo checkpoint made with the one that upstream makes from the same request, under MATH
/// attention; `None` if no such run of upstream is recorded. The codes do not depend on the number of steps.
pub fn compare_with_upstream(request: &SongRequest, precision: Precision, song: &Song) -> Option<UpstreamCodes> {
    let recorded: Recorded = serde_json::from_str(UPSTREAM_CODES).expect("a file of this build, which a test reads");
    let asked = (&request.caption, &request.lyrics, request.max_seconds, request.seed, request.rng);
    if asked != (&recorded.caption, &recorded.lyrics, recorded.max_seconds, recorded.seed, recorded.rng) {
        return None;
    }
    let upstream = match precision.autoregressive() {
        Width::Bf16 => recorded.bf16,
        Width::F32 => recorded.f32,
    };
    let frames = &upstream.codes[1..];
    let differing = song.codes.iter().zip(frames).position(|(ours, upstream)| ours != upstream);
    let ended = song.finish == FinishReason::EndToken;
    Some(match differing {
        Some(index) => UpstreamCodes::DifferFrom { frame: index + 1 },
        None if song.codes.len() == frames.len() && ended == upstream.ended_by_end_token => {
            UpstreamCodes::Equal { frames: frames.len() }
        }
        None => UpstreamCodes::DifferFrom { frame: song.codes.len().min(frames.len()) + 1 },
    })
}

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
fn cache_folder() -> Result<PathBuf, SongError> {
    dirs::cache_dir().map(|folder| folder.join("music3")).ok_or(SongError::NoCacheFolder)
}

/// Unpacks into `cache/NAME-HASH`, through a folder beside it that is renamed when it is whole, so that an interrupted
/// or a second run never sees half of a checkpoint.
fn unpack_bytes(archive: &[u8], cache: &Path, name: &str) -> Result<PathBuf, SongError> {
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

    fn recorded() -> Recorded {
        serde_json::from_str(UPSTREAM_CODES).expect("recorded codes")
    }

    fn song(codes: Vec<Vec<u32>>, finish: FinishReason) -> Song {
        let audio = music3_audio::StereoAudio::new([vec![0.0], vec![0.0]], 44_100);
        Song { audio, codes, finish, prompt_tokens: None, timings: Vec::new() }
    }

    #[test]
    fn codes_are_called_equal_only_if_all_are() {
        let request = SongRequest { max_seconds: 4.0, ..SongRequest::new(recorded().caption, recorded().lyrics) };
        let codes = recorded().f32.codes[1..].to_vec();
        let compare =
            |codes: Vec<Vec<u32>>, finish| compare_with_upstream(&request, Precision::F32, &song(codes, finish));
        let cap = FinishReason::FrameCap;
        assert_eq!(compare(codes.clone(), cap), Some(UpstreamCodes::Equal { frames: 100 }));
        for (frame, codebook) in [(0, 0), (57, 7), (99, 3)] {
            let mut other = codes.clone();
            other[frame][codebook] += 1;
            assert_eq!(compare(other, cap), Some(UpstreamCodes::DifferFrom { frame: frame + 1 }));
        }
        assert_eq!(compare(codes[..60].to_vec(), cap), Some(UpstreamCodes::DifferFrom { frame: 61 }));
        let end = FinishReason::EndToken;
        assert_eq!(compare(codes.clone(), end), Some(UpstreamCodes::DifferFrom { frame: 101 }));
        let longer = [codes.clone(), codes[..1].to_vec()].concat();
        assert_eq!(compare(longer, cap), Some(UpstreamCodes::DifferFrom { frame: 101 }));
        // bf16 and f32 agree for a while and then do not: the one asked for is compared.
        let bf16 = recorded().bf16.codes[1..].to_vec();
        assert_ne!(bf16, codes);
        let mixed = compare_with_upstream(&request, Precision::Mixed, &song(bf16, cap));
        assert_eq!(mixed, Some(UpstreamCodes::Equal { frames: 100 }));
    }

    #[test]
    fn other_requests_are_not_compared() {
        let base = SongRequest { max_seconds: 4.0, ..SongRequest::new(recorded().caption, recorded().lyrics) };
        let nothing = song(Vec::new(), FinishReason::FrameCap);
        let others = [
            SongRequest { seed: 1, ..base.clone() },
            SongRequest { max_seconds: 3.0, ..base.clone() },
            SongRequest { rng: Rng::Counter, ..base.clone() },
            SongRequest { caption: "punk".into(), ..base.clone() },
            SongRequest { lyrics: "la".into(), ..base.clone() },
        ];
        for request in others {
            assert_eq!(compare_with_upstream(&request, Precision::Mixed, &nothing), None);
        }
        let steps = SongRequest { steps: 1, ..base };
        let found = compare_with_upstream(&steps, Precision::Mixed, &nothing);
        assert_eq!(found, Some(UpstreamCodes::DifferFrom { frame: 1 }));
    }

    #[test]
    fn carries_the_archive_it_was_made_with() {
        let expected = ARCHIVE_SHA256.split_whitespace().next().expect("a hash");
        assert_eq!(hex(&Sha256::digest(ARCHIVE)), expected);
    }
}

//! Everything that is needed to make a song again, as a JSON file beside the song.

use std::{
    fs::File,
    io::{self, ErrorKind, Read, Write},
    path::{Path, PathBuf},
};

use music3_audio::{AudioError, Staged};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{autoregressive::FinishReason, fingerprint::hex, precision::Precision, request::SongRequest};

/// The key that every recipe has; its value is the version of the form.
const FORM: &str = "music3_recipe";
const FORM_VERSION: u32 = 1;

/// More than two texts of 1 MiB each take, escapes included.
const MAX_BYTES: u64 = 16 << 20;

/// How a song was made, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Version of the form.
    music3_recipe: u32,
    /// The program that made the song.
    pub program: String,
    /// The checkpoint.
    pub model: RecipeModel,
    /// What was asked for.
    pub request: SongRequest,
    /// How the run stored its values.
    pub precision: Precision,
    /// The backend's name, as whoever wrote the recipe calls it.
    pub backend: String,
    /// How f32 products were computed: the name of a [`Matmul`](crate::Matmul).
    pub matmul: String,
    /// Whether plain tensor ops were used instead of kernels.
    pub reference: bool,
    /// The file of frames that the song was rendered from, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_file: Option<FramesFile>,
    /// What came of it.
    pub outcome: Outcome,
}

/// The checkpoint of a recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecipeModel {
    /// Where it is.
    pub source: ModelSource,
    /// Which one it is: [`Music3::fingerprint`](crate::Music3::fingerprint).
    pub fingerprint: String,
}

/// Where a recipe's checkpoint is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelSource {
    /// The trained one in the program.
    Demo,
    /// The random one in the program.
    RandomDemo,
    /// A folder.
    Folder(String),
}

/// A file of frames that a song was rendered from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FramesFile {
    /// Where it was.
    pub path: String,
    /// SHA-256 of the file.
    pub sha256: String,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Frames of the song.
    pub frames: usize,
    /// Why there are no more.
    pub finish: FinishReason,
    /// [`codes_sha256`] of the song's codes.
    pub codes_sha256: String,
    /// SHA-256 of the WAV file.
    pub wav_sha256: String,
}

/// Everything of a recipe that its maker knows.
#[derive(Clone, Debug)]
pub struct RecipeParts {
    /// The checkpoint.
    pub model: RecipeModel,
    /// What was asked for.
    pub request: SongRequest,
    /// How the run stored its values.
    pub precision: Precision,
    /// The backend's name.
    pub backend: String,
    /// How f32 products were computed: the name of a [`Matmul`](crate::Matmul).
    pub matmul: String,
    /// Whether plain tensor ops were used instead of kernels.
    pub reference: bool,
    /// The file of frames that the song was rendered from, if it was.
    pub frames_file: Option<FramesFile>,
    /// What came of it.
    pub outcome: Outcome,
}

/// Why a recipe was not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// The file cannot be read.
    #[error("{}: the recipe cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The file is something else.
    #[error("{}: this is no recipe; pass a song.json that `music3 generate` wrote", path.display())]
    NotARecipe {
        /// The file.
        path: PathBuf,
    },
    /// Another version of the form.
    #[error("{}: a recipe of version {found}, expected {FORM_VERSION}; use the program that wrote it", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
    },
    /// A part of the recipe is missing, unknown or of the wrong kind.
    #[error("{}: the recipe cannot be understood", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What serde found.
        #[source]
        source: serde_json::Error,
    },
    /// A file that is no recipe has the name that the recipe would get.
    #[error("{}: a file of that name is there already and is no recipe, so it is not replaced", path.display())]
    InTheWay {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] AudioError),
}

impl Recipe {
    /// Returns a recipe of this program.
    pub fn new(parts: RecipeParts) -> Self {
        let RecipeParts { model, request, precision, backend, matmul, reference, frames_file, outcome } = parts;
        let program = format!("music3 {}", env!("CARGO_PKG_VERSION"));
        Self {
            music3_recipe: FORM_VERSION,
            program,
            model,
            request,
            precision,
            backend,
            matmul,
            reference,
            frames_file,
            outcome,
        }
    }

    /// Reads a recipe.
    ///
    /// # Errors
    /// The file cannot be read, is something else, or has a part that this version does not know: a recipe of which a
    /// part is passed over would give another song.
    pub fn read(path: &Path) -> Result<Self, RecipeError> {
        let text = read_text(path).map_err(|source| RecipeError::Read { path: path.to_owned(), source })?;
        let path = path.to_owned();
        let value: Value = match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(source) if text.contains(FORM) => return Err(RecipeError::Content { path, source }),
            Err(_) => return Err(RecipeError::NotARecipe { path }),
        };
        match value.get(FORM) {
            None => Err(RecipeError::NotARecipe { path }),
            Some(version) if *version != FORM_VERSION => Err(RecipeError::Version { path, found: version.to_string() }),
            Some(_) => serde_json::from_str(&text).map_err(|source| RecipeError::Content { path, source }),
        }
    }

    /// Refuses to put a recipe where a file that is none has the name.
    ///
    /// # Errors
    /// [`RecipeError::InTheWay`]. A recipe of any version may be replaced, as a song may.
    pub fn refuse_in_the_way(path: &Path) -> Result<(), RecipeError> {
        match Self::read(path) {
            Err(RecipeError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(()),
            Err(RecipeError::Read { .. } | RecipeError::NotARecipe { .. }) => {
                Err(RecipeError::InTheWay { path: path.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Writes the recipe beside the name that [`Staged::complete`] gives it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn stage(&self, path: &Path) -> Result<Staged, RecipeError> {
        let text = serde_json::to_string_pretty(self).expect("every part of a recipe has a JSON form");
        Ok(Staged::write(path, |file| writeln!(file, "{text}"))?)
    }
}

/// Returns the SHA-256 of a song's codes, frame by frame, c0 first, each as four bytes, the lowest first.
pub fn codes_sha256(codes: &[Vec<u32>]) -> String {
    let mut hash = Sha256::new();
    codes.iter().flatten().for_each(|code| hash.update(code.to_le_bytes()));
    hex(&hash.finalize())
}

/// Returns the SHA-256 of a file.
///
/// # Errors
/// It cannot be read.
pub fn file_sha256(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hash)?;
    Ok(hex(&hash.finalize()))
}

fn read_text(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("it has more than {MAX_BYTES} bytes")));
    }
    // A text that is no UTF-8 is no recipe, and what is read as one says so.
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe() -> Recipe {
        Recipe::new(RecipeParts {
            model: RecipeModel { source: ModelSource::Folder("weights".into()), fingerprint: "ab".into() },
            request: SongRequest {
                max_seconds: 1.16,
                seed: u64::MAX,
                ..SongRequest::new("folk \"x\"", "[verse]\n\u{1}la")
            },
            precision: Precision::Mixed,
            backend: "flex".into(),
            matmul: "strict".into(),
            reference: false,
            frames_file: None,
            outcome: Outcome {
                frames: 28,
                finish: FinishReason::FrameCap,
                codes_sha256: codes_sha256(&[vec![1, 2]]),
                wav_sha256: String::new(),
            },
        })
    }

    fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("song.json");
        std::fs::write(&path, text).expect("written");
        (folder, path)
    }

    #[test]
    fn what_is_written_reads_back() {
        let (_folder, path) = written("");
        recipe().stage(&path).and_then(|staged| Ok(staged.complete()?)).expect("written");
        assert_eq!(Recipe::read(&path).expect("a recipe"), recipe());
        Recipe::refuse_in_the_way(&path).expect("a recipe may be replaced");
    }

    #[test]
    fn every_length_of_whole_frames_reads_back_to_the_bit() {
        for frames in 1..=9000 {
            let seconds = f64::from(frames) / 25.0;
            let text = serde_json::to_string(&seconds).expect("a number");
            assert_eq!(serde_json::from_str::<f64>(&text).expect("a number").to_bits(), seconds.to_bits(), "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong_with_a_file() {
        let good = serde_json::to_string(&recipe()).expect("JSON");
        let newer = good.replace("\"music3_recipe\":1", "\"music3_recipe\":2");
        let unknown = good.replace("\"steps\":30", "\"steps\":30,\"tempo\":120");
        let missing = good.replace("\"seed\":18446744073709551615,", "");
        let wrong = good.replace("\"precision\":\"mixed\"", "\"precision\":\"f64\"");
        let table = [
            ("", "this is no recipe"),
            ("{\"a\": 1}", "this is no recipe"),
            ("[1]", "this is no recipe"),
            (&good[..good.len() - 1], "cannot be understood: EOF"),
            (&newer, "version 2, expected 1"),
            (&unknown, "unknown field `tempo`"),
            (&missing, "missing field `seed`"),
            (&wrong, "unknown variant `f64`"),
        ];
        for (text, said) in table {
            let (_folder, path) = written(text);
            let error = Recipe::read(&path).expect_err(said);
            let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            let message = format!("{error}: {source}");
            assert!(message.contains(said), "{message}");
        }
    }

    #[test]
    fn only_recipes_and_nothing_may_be_replaced() {
        let (folder, path) = written("{\"name\": \"my song\"}");
        assert!(matches!(Recipe::refuse_in_the_way(&path), Err(RecipeError::InTheWay { .. })));
        assert!(matches!(Recipe::refuse_in_the_way(folder.path()), Err(RecipeError::InTheWay { .. })));
        Recipe::refuse_in_the_way(&folder.path().join("other.json")).expect("nothing is there");
        std::fs::write(&path, "{\"music3_recipe\": 77}").expect("written");
        Recipe::refuse_in_the_way(&path).expect("a newer recipe");
    }

    #[test]
    fn codes_are_hashed_in_order() {
        // sha256sum of the bytes 01 00 00 00 02 00 00 00.
        let expected = "34fb5c825de7ca4aea6e712f19d439c1da0c92c37b423936c5f618545ca4fa1f";
        assert_eq!(codes_sha256(&[vec![1], vec![2]]), expected);
        assert_ne!(codes_sha256(&[vec![2, 1]]), expected);
    }
}

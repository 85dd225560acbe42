//! What a recipe or a file of codes brings along, under what the command line says.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use music3::{
    ModelSource, Outcome, Precision, Recipe, SavedFrames, Song, SongRequest, codes_sha256, demo::Demo, file_sha256,
};

use super::order::Source;
use crate::{
    args::{self, AgainArgs, BackendArg, MatmulArg, ProductArgs},
    failure::{Failure, chain},
};

/// The recipe that a song is made from.
#[derive(Debug)]
pub(crate) struct Again {
    pub(crate) path: PathBuf,
    pub(crate) recipe: Recipe,
}

/// What the command line builds on.
#[derive(Debug, Default)]
pub(crate) struct Base {
    pub(crate) request: Option<SongRequest>,
    pub(crate) precision: Option<Precision>,
    pub(crate) backend: Option<BackendArg>,
    pub(crate) products: ProductArgs,
    pub(crate) checkpoint: Option<Source>,
    pub(crate) again: Option<Again>,
    pub(crate) frames: Option<SavedFrames>,
    pub(crate) frames_path: Option<PathBuf>,
}

impl Base {
    /// Reads the files that the arguments name.
    ///
    /// # Errors
    /// One of them cannot be read or used.
    pub(crate) fn read(args: &AgainArgs) -> Result<Self, Failure> {
        let mut base = match &args.recipe {
            Some(path) => Self::of_recipe(path)?,
            None => Self { frames_path: args.from_codes.clone(), ..Self::default() },
        };
        if let Some(path) = &base.frames_path {
            let named = |error: music3::FramesError| Failure::usage(format!("--from-codes: {}", chain(&error)));
            let frames = SavedFrames::read(path).map_err(named)?;
            let origin = frames.origin();
            base.request.get_or_insert_with(|| origin.request.clone());
            base.precision.get_or_insert(origin.precision);
            base.frames = Some(frames);
        }
        Ok(base)
    }

    fn of_recipe(path: &Path) -> Result<Self, Failure> {
        let named = |message: String| Failure::usage(format!("--recipe: {message}"));
        let recipe = Recipe::read(path).map_err(|error| named(chain(&error)))?;
        let backend = args::backend(&recipe.backend).map_err(|_| {
            let (path, backend) = (path.display(), &recipe.backend);
            named(format!("{path}: there is no backend `{backend}`; pass one with --backend"))
        })?;
        let matmul = MatmulArg::from_str(&recipe.matmul, false).map_err(|_| {
            let (path, matmul) = (path.display(), &recipe.matmul);
            named(format!("{path}: there are no products of the kind `{matmul}`; pass one with --matmul"))
        })?;
        if let Some(frames) = &recipe.frames_file {
            refuse_other_file(path, Path::new(&frames.path), &frames.sha256)?;
        }
        Ok(Self {
            request: Some(recipe.request.clone()),
            precision: Some(recipe.precision),
            backend: Some(backend),
            products: ProductArgs { matmul: Some(matmul), reference: recipe.reference },
            checkpoint: Some(match &recipe.model.source {
                ModelSource::Demo => Source::Demo(Demo::Tunes),
                ModelSource::RandomDemo => Source::Demo(Demo::Random),
                ModelSource::Folder(folder) => Source::Folder(folder.into()),
            }),
            frames_path: recipe.frames_file.as_ref().map(|frames| PathBuf::from(&frames.path)),
            again: Some(Again { path: path.to_owned(), recipe }),
            frames: None,
        })
    }
}

/// Refuses a file of codes that is not the one that a recipe means.
fn refuse_other_file(recipe: &Path, path: &Path, expected: &str) -> Result<(), Failure> {
    let (recipe, file) = (recipe.display(), path.display());
    match file_sha256(path) {
        Ok(found) if found == expected => Ok(()),
        Ok(_) => Err(Failure::usage(format!(
            "--recipe: {recipe}: the song was rendered from {file}, which holds something else now; use --from-codes with \
             the file it was"
        ))),
        Err(error) => Err(Failure::usage(format!(
            "--recipe: {recipe}: the song was rendered from {file}, which cannot be read: {error}"
        ))),
    }
}

/// Whether a song that was made again is the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Sameness {
    codes: bool,
    samples: bool,
}

impl Sameness {
    /// Compares a song with the recorded one.
    pub(crate) fn of(song: &Song, wav_sha256: &str, recorded: &Outcome) -> Self {
        let codes = song.finish == recorded.finish && codes_sha256(&song.codes) == recorded.codes_sha256;
        Self { codes, samples: wav_sha256 == recorded.wav_sha256 }
    }

    /// Says so in words.
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self { codes: true, samples: true } => "the codes and the samples are the recorded ones",
            Self { codes: true, samples: false } => "the codes are the recorded ones, the samples are not",
            Self { codes: false, .. } => "the codes are not the recorded ones, so this is another song",
        }
    }
}

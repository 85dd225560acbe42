//! The files that a run writes: where they go, and that they appear whole or not at all.

use std::path::{Path, PathBuf, absolute};

use music3::{
    Recipe, Song,
    audio::{SampleFormat, check_writable, stage_wav},
    file_sha256,
};

use crate::{
    args::GenerateArgs,
    failure::{Failure, chain},
    interrupt::Interrupt,
};

/// The song's file unless told otherwise.
const OUTPUT: &str = "song.wav";

/// Files that people may expect other formats in.
const OTHER_FORMATS: [&str; 9] = ["aac", "aif", "aiff", "flac", "json", "m4a", "mp3", "ogg", "opus"];

/// The files that a run writes.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) output: PathBuf,
    pub(crate) recipe: Option<PathBuf>,
    pub(crate) codes: Option<PathBuf>,
}

impl Files {
    /// Refuses, before hours of work, a name under which no file can be written, or under which one is that is read.
    pub(crate) fn new(args: &GenerateArgs, frames: Option<&Path>) -> Result<Self, Failure> {
        let again = &args.again;
        let output = match (&args.output, &again.recipe) {
            (Some(output), _) => output.clone(),
            (None, Some(recipe)) => beside(recipe),
            (None, None) => OUTPUT.into(),
        };
        refuse_format(&output)?;
        let recipe = (!again.no_recipe).then(|| output.with_extension("json"));
        let files = Self { output, recipe, codes: again.save_codes.clone() };
        let read = [again.recipe.as_deref(), frames, args.lyrics_file.as_deref()];
        files.refuse_doubles(&read)?;
        let refused = |name: &str, error: &dyn std::error::Error| {
            Failure::usage(format!("{name}: {}; pass another file name", chain(error)))
        };
        check_writable(&files.output).map_err(|error| refused("--output", &error))?;
        if let Some(recipe) = &files.recipe {
            let named = |error: &dyn std::error::Error| {
                Failure::usage(format!(
                    "the song's recipe: {}; pass another name with --output, or --no-recipe",
                    chain(error)
                ))
            };
            Recipe::refuse_in_the_way(recipe).map_err(|error| named(&error))?;
            check_writable(recipe).map_err(|error| named(&error))?;
        }
        if let Some(codes) = &files.codes {
            check_writable(codes).map_err(|error| refused("--save-codes", &error))?;
        }
        Ok(files)
    }

    /// Refuses two uses of one file.
    fn refuse_doubles(&self, read: &[Option<&Path>]) -> Result<(), Failure> {
        let written = [
            ("the song", Some(&self.output)),
            ("its recipe", self.recipe.as_ref()),
            ("its codes", self.codes.as_ref()),
        ];
        let written: Vec<(&str, &Path)> =
            written.into_iter().filter_map(|(what, path)| Some((what, path?.as_path()))).collect();
        for (index, (what, path)) in written.iter().enumerate() {
            if let Some((other, _)) = written[..index].iter().find(|(_, other)| is_same(path, other)) {
                let path = path.display();
                return Err(Failure::usage(format!(
                    "{path}: {other} and {what} would be one file; pass another file name"
                )));
            }
            if read.iter().flatten().any(|read| is_same(path, read)) {
                let path = path.display();
                return Err(Failure::usage(format!(
                    "{path}: {what} would replace a file that is read; pass another file name with --output"
                )));
            }
        }
        Ok(())
    }

    /// Writes a song, and what `describe` says of it and the hash of its file as its recipe.
    ///
    /// # Errors
    /// A file cannot be written, or Ctrl-C was pressed. Neither file is left behind then.
    pub(crate) fn write(
        &self,
        song: &Song,
        interrupt: &Interrupt,
        describe: impl FnOnce(&str) -> Recipe,
    ) -> Result<Written, Failure> {
        tracing::debug!("writing {}", self.output.display());
        // 1. Both are on the disk before either has its name, so that a full disk leaves neither.
        let wav = stage_wav(&self.output, &song.audio, SampleFormat::default())?;
        let unreadable = |error| Failure::run(format!("{}: cannot be read back: {error}", self.output.display()));
        let wav_sha256 = file_sha256(wav.bytes_path()).map_err(unreadable)?;
        let recipe = match &self.recipe {
            Some(path) => Some(describe(&wav_sha256).stage(path).map_err(music3::SongError::from)?),
            None => None,
        };
        // 2. The last moment to stop.
        if interrupt.asked() {
            return Err(Failure::Interrupted("stopped while writing; no song was written".to_owned()));
        }
        wav.complete()?;
        recipe.map_or(Ok(()), |recipe| recipe.complete())?;
        Ok(Written { wav_sha256 })
    }
}

/// A song's file.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) wav_sha256: String,
}

/// Returns where the song of a recipe goes when it is made again: beside the first, which stays.
fn beside(recipe: &Path) -> PathBuf {
    let stem = recipe.file_stem().unwrap_or_default().to_string_lossy();
    recipe.with_file_name(format!("{stem}-again.wav"))
}

fn is_same(one: &Path, other: &Path) -> bool {
    one == other || matches!((absolute(one), absolute(other)), (Ok(one), Ok(other)) if one == other)
}

fn refuse_format(path: &Path) -> Result<(), Failure> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    match extension.filter(|extension| OTHER_FORMATS.contains(&extension.as_str())) {
        None => Ok(()),
        Some(extension) => Err(Failure::usage(format!(
            "--output {}: only WAV is written, not {extension}; pass a name that ends in .wav",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_song_made_again_goes_beside_the_first() {
        assert_eq!(beside(Path::new("songs/take.json")), Path::new("songs/take-again.wav"));
        assert_eq!(beside(Path::new("song.json")), Path::new("song-again.wav"));
    }

    #[test]
    fn one_file_has_many_spellings() {
        assert!(is_same(Path::new("a.wav"), Path::new("./a.wav")));
        assert!(is_same(Path::new("a.wav"), &absolute("a.wav").expect("a folder")));
        assert!(!is_same(Path::new("a.wav"), Path::new("b/a.wav")));
    }
}

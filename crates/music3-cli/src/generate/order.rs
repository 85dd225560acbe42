//! What was asked for, after everything that can be checked without a model.

use std::path::{Path, PathBuf};

use music3::{ControlTokens, DEFAULT_MAX_SECONDS, Precision, SongRequest, audio::check_writable};

use super::follow::Display;
use crate::{
    args::{BackendArg, CheckpointArgs, GenerateArgs, ProductArgs},
    failure::{Failure, chain},
    terminal::is_watched,
    text,
};

/// What the demo is asked for unless told otherwise.
pub(crate) const DEMO_CAPTION: &str = "A gentle folk song with acoustic guitar, soft drums and a warm female voice";

/// What the demo sings unless told otherwise.
pub(crate) const DEMO_LYRICS: &str =
    "[verse]\nRain on the window, tea going cold\n[chorus]\nStay for a little, the night is not old";

/// Long enough to hear, short enough to wait for.
const DEMO_SECONDS: f64 = 4.0;

/// Files that people may expect other formats in.
const OTHER_FORMATS: [&str; 8] = ["aac", "aif", "aiff", "flac", "m4a", "mp3", "ogg", "opus"];

/// A checkpoint to use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The one in the program.
    Demo,
    /// A folder.
    Folder(PathBuf),
}

impl Source {
    /// Reads the arguments; a folder must be there.
    pub(crate) fn new(args: CheckpointArgs) -> Result<Self, Failure> {
        match args.model {
            None => Ok(Self::Demo),
            Some(folder) if folder.exists() => Ok(Self::Folder(folder)),
            Some(folder) => Err(no_such_folder(&folder)),
        }
    }

    /// Returns the checkpoint's folder, after unpacking what is packed.
    pub(crate) fn unpacked(&self) -> Result<PathBuf, Failure> {
        match self {
            Self::Demo => Ok(music3::demo::unpack()?),
            Self::Folder(folder) => Ok(folder.clone()),
        }
    }
}

/// Says that a checkpoint folder is not there.
pub(crate) fn no_such_folder(folder: &Path) -> Failure {
    Failure::usage(format!(
        "{}: there is no such folder; pass the folder with the weights, or --demo for the demo model",
        folder.display()
    ))
}

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) request: SongRequest,
    pub(crate) checkpoint: Source,
    pub(crate) backend: BackendArg,
    pub(crate) precision: Precision,
    pub(crate) products: ProductArgs,
    pub(crate) memory_limit_bytes: Option<u64>,
    pub(crate) output: PathBuf,
    pub(crate) quiet: bool,
    pub(crate) json: bool,
}

impl Order {
    /// Checks the arguments in this order: texts, length, output, checkpoint folder.
    pub(crate) fn new(args: GenerateArgs) -> Result<Self, Failure> {
        let demo = args.checkpoint.demo;
        let lyrics = match &args.lyrics_file {
            Some(path) => text::read(path)?,
            None => args.lyrics.unwrap_or_else(|| DEMO_LYRICS.to_owned()),
        };
        let caption = args.caption.unwrap_or_else(|| DEMO_CAPTION.to_owned());
        let default_seconds = if demo { DEMO_SECONDS } else { DEFAULT_MAX_SECONDS };
        let request = SongRequest {
            max_seconds: args.max_seconds.unwrap_or(default_seconds),
            steps: args.steps,
            seed: args.seed,
            control_tokens: match args.allow_special_tokens {
                true => ControlTokens::AsUpstream,
                false => ControlTokens::Refuse,
            },
            ..SongRequest::new(caption, lyrics)
        };
        request.validate()?;
        check_output(&args.output)?;
        Ok(Self {
            request,
            checkpoint: Source::new(args.checkpoint)?,
            backend: args.backend,
            precision: args.precision.into(),
            products: args.products,
            memory_limit_bytes: args.memory,
            output: args.output,
            quiet: args.quiet,
            json: args.json,
        })
    }

    /// Returns whether anything but errors goes to standard error.
    pub(crate) fn speaks(&self) -> bool {
        !self.quiet
    }

    /// Returns how progress is shown.
    pub(crate) fn display(&self) -> Display {
        match (self.quiet, is_watched()) {
            (true, _) => Display::Nothing,
            (false, true) => Display::Bars,
            (false, false) => Display::Lines,
        }
    }
}

/// Refuses, before hours of work, a name under which no WAV file can be written.
fn check_output(path: &Path) -> Result<(), Failure> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    if let Some(extension) = extension.filter(|extension| OTHER_FORMATS.contains(&extension.as_str())) {
        return Err(Failure::usage(format!(
            "--output {}: only WAV is written, not {extension}; pass a name that ends in .wav",
            path.display()
        )));
    }
    check_writable(path).map_err(|error| Failure::usage(format!("--output: {}; pass another file name", chain(&error))))
}

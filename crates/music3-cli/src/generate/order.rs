//! What was asked for, after everything that can be checked without a model.

use std::path::{Path, PathBuf};

use music3::{ControlTokens, DEFAULT_MAX_SECONDS, Precision, SavedFrames, SongRequest, demo::Demo};

use super::{
    again::{Again, Base},
    files::Files,
    follow::Display,
};
use crate::{
    args::{BackendArg, CheckpointArgs, GenerateArgs, ProductArgs},
    demo_args::DemoArg,
    failure::Failure,
    terminal::is_watched,
    text,
};

/// What the random demo is asked for unless told otherwise.
pub(crate) const DEMO_CAPTION: &str = "A gentle folk song with acoustic guitar, soft drums and a warm female voice";

/// What the random demo sings unless told otherwise.
pub(crate) const DEMO_LYRICS: &str =
    "[verse]\nRain on the window, tea going cold\n[chorus]\nStay for a little, the night is not old";

/// Longer than any tune of the demo, which ends by itself.
const TUNE_SECONDS: f64 = 8.0;

/// Long enough to hear noise, short enough to wait for.
const NOISE_SECONDS: f64 = 4.0;

/// A checkpoint to use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// One that is in the program.
    Demo(Demo),
    /// A folder.
    Folder(PathBuf),
}

impl Source {
    /// Returns what the arguments name, or else what a recipe names; a folder must be there.
    fn new(args: CheckpointArgs, recorded: Option<Self>) -> Result<Self, Failure> {
        let source = match (args.model, recorded) {
            (Some(folder), _) => Self::Folder(folder),
            (None, Some(recorded)) if args.demo.is_none() => recorded,
            (None, _) => Self::Demo(args.demo.map_or(Demo::Tunes, DemoArg::demo)),
        };
        match &source {
            Self::Folder(folder) if !folder.exists() => Err(no_such_folder(folder)),
            _ => Ok(source),
        }
    }

    /// Returns the checkpoint's folder, after unpacking what is packed.
    pub(crate) fn unpacked(&self) -> Result<PathBuf, Failure> {
        match self {
            Self::Demo(demo) => Ok(music3::demo::unpack(*demo)?),
            Self::Folder(folder) => Ok(folder.clone()),
        }
    }
}

/// Says that a checkpoint folder is not there.
pub(crate) fn no_such_folder(folder: &Path) -> Failure {
    Failure::usage(format!(
        "{}: there is no such folder; pass the folder that the weights were downloaded to, or --demo for the demo model",
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
    pub(crate) files: Files,
    /// The recipe that the song is made from.
    pub(crate) again: Option<Again>,
    /// The frames that it is rendered from.
    pub(crate) frames: Option<SavedFrames>,
    pub(crate) quiet: bool,
    pub(crate) json: bool,
}

impl Order {
    /// Checks the arguments in this order: what is made again, texts, length, files, checkpoint folder.
    pub(crate) fn new(args: GenerateArgs) -> Result<Self, Failure> {
        let base = Base::read(&args.again)?;
        if let Some(file) = &base.frames_path {
            refuse_without_effect(&args, file)?;
        }
        let mut request = match base.request {
            Some(request) => request,
            None => default_request(args.checkpoint.demo),
        };
        override_with(&mut request, &args)?;
        request.validate()?;
        let files = Files::new(&args, base.frames_path.as_deref())?;
        Ok(Self {
            request,
            checkpoint: Source::new(args.checkpoint, base.checkpoint)?,
            backend: args.backend.or(base.backend).unwrap_or(BackendArg::Auto),
            precision: args.precision.map(Into::into).or(base.precision).unwrap_or_default(),
            products: base.products.overridden_by(args.products),
            memory_limit_bytes: args.memory,
            files,
            again: base.again,
            frames: base.frames,
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

/// Returns what is asked for unless told otherwise. Without `--demo` the command line has both texts.
fn default_request(demo: Option<DemoArg>) -> SongRequest {
    match demo.map(|demo| demo.tune()) {
        Some(Some(tune)) => SongRequest { max_seconds: TUNE_SECONDS, ..SongRequest::new(tune.caption, tune.lyrics) },
        Some(None) => SongRequest { max_seconds: NOISE_SECONDS, ..SongRequest::new(DEMO_CAPTION, DEMO_LYRICS) },
        None => SongRequest { max_seconds: DEFAULT_MAX_SECONDS, ..SongRequest::new(DEMO_CAPTION, DEMO_LYRICS) },
    }
}

/// Puts what the command line says in the place of what stands there.
fn override_with(request: &mut SongRequest, args: &GenerateArgs) -> Result<(), Failure> {
    if let Some(caption) = &args.caption {
        request.caption.clone_from(caption);
    }
    if let Some(path) = &args.lyrics_file {
        request.lyrics = text::read(path)?;
    } else if let Some(lyrics) = &args.lyrics {
        request.lyrics.clone_from(lyrics);
    }
    request.max_seconds = args.max_seconds.unwrap_or(request.max_seconds);
    request.steps = args.steps.unwrap_or(request.steps);
    request.seed = args.seed.unwrap_or(request.seed);
    request.rng = args.rng.map_or(request.rng, Into::into);
    if args.allow_special_tokens {
        request.control_tokens = ControlTokens::AsUpstream;
    }
    Ok(())
}

/// Refuses arguments that only the language model could follow, where it does not run.
fn refuse_without_effect(args: &GenerateArgs, file: &Path) -> Result<(), Failure> {
    let given = [
        ("--caption", args.caption.is_some()),
        ("--lyrics", args.lyrics.is_some()),
        ("--lyrics-file", args.lyrics_file.is_some()),
        ("--max-seconds", args.max_seconds.is_some()),
        ("--allow-special-tokens", args.allow_special_tokens),
        ("--save-codes", args.again.save_codes.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((name, _)) => Err(Failure::usage(format!(
            "{name} does nothing here: the song is rendered from the codes in {}; leave one of the two out",
            file.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn asked_for(line: &[&str]) -> SongRequest {
        let args = Cli::try_parse_from([&["music3", "generate"], line].concat()).expect("a good command line");
        let Command::Generate(args) = args.command else { panic!("generate") };
        let mut request = default_request(args.checkpoint.demo);
        override_with(&mut request, &args).expect("nothing to read");
        request
    }

    #[test]
    fn the_demo_asks_for_what_upstream_was_asked_for() {
        let song = music3::Song {
            audio: music3::audio::StereoAudio::new([vec![0.0], vec![0.0]], 44_100),
            codes: Vec::new(),
            finish: music3::FinishReason::FrameCap,
            prompt_tokens: None,
            timings: Vec::new(),
        };
        for tune in music3::demo::tunes() {
            let request = asked_for(&["--demo", &tune.name]);
            assert_eq!(request.lyrics, tune.lyrics);
            let compared = music3::demo::compare_with_upstream(&request, Precision::default(), &song);
            assert!(compared.is_some(), "goldens/demo/demo-codes.json lacks {}; run demo_codes.py", tune.name);
        }
    }

    #[test]
    fn the_demo_plays_its_first_tune_or_what_it_is_told() {
        let first = &music3::demo::tunes()[0];
        assert_eq!(asked_for(&["--demo"]).caption, first.caption);
        let told = asked_for(&["--demo", "--caption", "punk"]);
        assert_eq!((told.caption.as_str(), &told.lyrics), ("punk", &first.lyrics));
        assert_eq!(asked_for(&["--demo", "random"]).max_seconds, NOISE_SECONDS);
    }
}

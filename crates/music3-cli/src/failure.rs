//! Why the program stops, in one line and an exit code.

use std::{fmt::Display, process::ExitCode};

use clap::error::ErrorKind;
use music3::{FramesError, SongError, audio::AudioError};
use music3_text::TextError;

use crate::terminal::say;

/// Why the program stops early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked for cannot be done, whatever the model.
    Usage(String),
    /// It was tried and failed.
    Run(String),
    /// Ctrl-C.
    Interrupted(String),
}

impl Failure {
    /// Exit code of wrong use.
    pub(crate) const USAGE: u8 = 2;
    /// Exit code of a failure.
    pub(crate) const RUN: u8 = 1;
    /// Exit code after Ctrl-C: 128 and the signal's number.
    pub(crate) const INTERRUPTED: u8 = 130;

    /// Returns wrong use.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self::Usage(message.to_string())
    }

    /// Returns a failure.
    pub(crate) fn run(message: impl Display) -> Self {
        Self::Run(message.to_string())
    }

    /// Prints the message and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let (message, code) = match self {
            Self::Usage(message) => (message, Self::USAGE),
            Self::Run(message) => (message, Self::RUN),
            Self::Interrupted(message) => (message, Self::INTERRUPTED),
        };
        say(format_args!("music3: {message}"));
        ExitCode::from(code)
    }
}

impl From<SongError> for Failure {
    fn from(error: SongError) -> Self {
        let remedy = match &error {
            SongError::Text(TextError::Blank { part: music3_text::TextPart::Caption }) => "; give it with --caption",
            SongError::Text(TextError::Blank { part: music3_text::TextPart::Lyrics }) => {
                "; give it with --lyrics or --lyrics-file"
            }
            SongError::Text(TextError::TooLong { .. }) => "; shorten the lyrics or the caption",
            SongError::Duration(_) => "; --max-seconds takes seconds, such as 30",
            _ => "",
        };
        let message = format!("{}{remedy}", chain(&error));
        match error {
            SongError::Frames(FramesError::OtherModel { .. } | FramesError::Code { .. }) => Self::Usage(message),
            SongError::Text(TextError::Blank { .. } | TextError::ControlToken { .. } | TextError::TooLong { .. })
            | SongError::Duration(_)
            | SongError::NoSteps => Self::Usage(message),
            SongError::Cancelled { .. } => Self::Interrupted(format!("{message}; no song was written")),
            _ => Self::Run(message),
        }
    }
}

impl From<AudioError> for Failure {
    fn from(error: AudioError) -> Self {
        Self::run(chain(&error))
    }
}

/// Returns the error with its causes, in one message; a cause that the message names already is not said again.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        cause = error.source();
    }
    message
}

/// Prints help and version as clap has them, and what is wrong with a command line in one line.
pub(crate) fn refuse_usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Nobody reads it if it cannot be written.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(Failure::USAGE)
        }
        _ => Failure::Usage(one_line(&error.render().to_string())).report(),
    }
}

/// Clap's message is a paragraph, advice, and the usage; the first two make the line.
fn one_line(message: &str) -> String {
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let usage = message.lines().find_map(|line| line.strip_prefix("Usage: "));
    let told: Vec<&str> = message
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage: ") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .map(|line| line.strip_prefix("tip: ").unwrap_or(line))
        .collect();
    let command: Vec<&str> =
        usage.unwrap_or("music3").split_whitespace().take_while(|word| !word.starts_with(['-', '<', '['])).collect();
    let mut line = String::new();
    for part in told {
        let separator = match (line.is_empty(), line.ends_with(':')) {
            (true, _) => "",
            (false, true) => " ",
            (false, false) => "; ",
        };
        line = format!("{line}{separator}{part}");
    }
    format!("{line}; see `{} --help`", command.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_one_line_of_claps_paragraphs() {
        let message = "error: unexpected argument '--lyric' found\n\n  tip: a similar argument exists: '--lyrics'\n\n\
                       Usage: music3 generate --lyrics <TEXT>\n\nFor more information, try '--help'.\n";
        assert_eq!(
            one_line(message),
            "unexpected argument '--lyric' found; a similar argument exists: '--lyrics'; see `music3 generate --help`"
        );
        let message = "error: the following required arguments were not provided:\n  --caption <TEXT>\n\n\
                       Usage: music3 generate --caption <TEXT> <--demo|--model <DIR>>\n";
        assert_eq!(
            one_line(message),
            "the following required arguments were not provided: --caption <TEXT>; see `music3 generate --help`"
        );
    }

    #[test]
    fn says_each_cause_once() {
        let cause = std::io::Error::other("no such thing");
        let error = SongError::Unpack { path: "a/b".into(), source: cause };
        let expected = "a/b: the packed checkpoint cannot be unpacked there; set XDG_CACHE_HOME to a folder that can be \
                        written: no such thing";
        assert_eq!(chain(&error), expected);
    }
}

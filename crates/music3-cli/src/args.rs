//! The command line.

use std::path::PathBuf;

use clap::{ArgAction, ArgGroup, Args, Parser, Subcommand, ValueEnum};
use music3::{Precision, rng::Rng};

pub(crate) use crate::again_args::AgainArgs;

const EXAMPLES: &str = "\
Examples:
  music3 generate --demo
      Try the program: a tiny random model makes four seconds of noise in song.wav.
  music3 generate --model weights --caption \"dreamy synth pop, female voice\" --lyrics-file song.txt
      Make a song of up to a minute with the published weights.
  music3 inspect weights
      See what a checkpoint folder holds and how much memory a song needs.
  music3 check goldens
      Compare this port with recorded answers of the original implementation.

Exit codes: 0 done, 1 failed, 2 cannot be done as asked, 130 stopped by Ctrl-C.";

const GENERATE_EXAMPLES: &str = "\
Examples:
  music3 generate --demo
  music3 generate --demo --max-seconds 10 --seed 7 --output noise.wav
  music3 generate --model weights --caption \"slow folk ballad, male voice\" --lyrics-file song.txt --max-seconds 90
  cat song.txt | music3 generate --model weights --caption \"punk, fast\" --lyrics-file - --json
  music3 generate --recipe song.json
  music3 generate --model weights --caption folk --lyrics la --save-codes song.frames
  music3 generate --model weights --from-codes song.frames --steps 60 --precision f32 --output better.wav

Lyrics have a tag such as [verse], [chorus] or [bridge] on a line of its own above the lines it is for.
The published weights are MiniMaxAI/MiniMax-Music3 (28.5 GB); README.md says how to get them.";

const CHECK_EXAMPLES: &str = "\
Examples:
  music3 check goldens
  music3 check goldens/tiny/vocoder.hop512.f32.json --backend ndarray
  music3 check goldens --precision f32 --dump computed --json > report.json

Exit codes: 0 all passed, 1 one failed, 2 one cannot be read or is for an unknown component.";

/// Far more than make a difference to hear.
const MAX_STEPS: usize = 1000;

/// Makes songs from lyrics and a description with MiniMax-Music3, on Burn.
#[derive(Debug, Parser)]
#[command(name = "music3", version, after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Log more on standard error: -v what is chosen, -vv details, -vvv everything.
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = 900)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a song: lyrics and a description in, a stereo WAV file at 44.1 kHz out.
    Generate(GenerateArgs),
    /// Show what a checkpoint folder holds: components, dimensions, sizes, memory.
    Inspect(InspectArgs),
    /// Compare this port with recorded answers of the original implementation.
    Check(CheckArgs),
}

/// Which checkpoint.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("checkpoint").args(["demo", "model"]))]
#[command(group = ArgGroup::new("origin").required(true).multiple(true).args(["demo", "model", "recipe"]))]
pub(crate) struct CheckpointArgs {
    /// Use the demo model that the program carries. It is tiny and random: every stage runs, and the result is noise.
    #[arg(long)]
    pub(crate) demo: bool,
    /// Folder with the published weights, in the diffusers layout.
    #[arg(long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = GENERATE_EXAMPLES, group = ArgGroup::new("words").args(["lyrics", "lyrics_file"]))]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    pub(crate) checkpoint: CheckpointArgs,
    /// Describe the music: genre, mood, voices, instruments [default with --demo: a folk song].
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["demo", "recipe", "from_codes"], allow_hyphen_values = true)]
    pub(crate) caption: Option<String>,
    /// The words to sing [default with --demo: a verse].
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["demo", "lyrics_file", "recipe", "from_codes"], allow_hyphen_values = true)]
    pub(crate) lyrics: Option<String>,
    /// Read the words from a UTF-8 text file; - is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) lyrics_file: Option<PathBuf>,
    /// Let control tokens spelled in the texts, such as <|im_end|>, reach the model as tokens instead of refusing them.
    #[arg(long)]
    pub(crate) allow_special_tokens: bool,
    /// Length at most; the model may end earlier, and 360 is the limit [default: 60, with --demo 4].
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    pub(crate) max_seconds: Option<f64>,
    /// Steps of the flow per window of 8 seconds; fewer is faster and rougher [default: 30].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = steps)]
    pub(crate) steps: Option<usize>,
    /// Start of the random numbers; the same seed gives the same song [default: 0].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = seed)]
    pub(crate) seed: Option<u64>,
    /// Where the random numbers come from [default: torch].
    #[arg(long, value_enum)]
    pub(crate) rng: Option<RngArg>,
    /// Where to compute [default: auto]. auto takes cuda if this build has it and a device answers, else the fastest CPU
    /// backend.
    #[arg(long, value_enum)]
    pub(crate) backend: Option<BackendArg>,
    /// How values are stored [default: mixed]. mixed is as published: language model in bf16, the rest in f32.
    #[arg(long, value_enum)]
    pub(crate) precision: Option<PrecisionArg>,
    /// Memory that the run may use, in GB; a run that needs more is refused [default: what is free].
    #[arg(long, value_name = "GB", allow_negative_numbers = true, value_parser = gigabytes)]
    pub(crate) memory: Option<u64>,
    /// The WAV file to write [default: song.wav; with --recipe, a name made of the recipe's]. Nothing appears under this
    /// name before the song is complete.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) again: AgainArgs,
    /// Print nothing but errors, and the path of the song.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Print a report as JSON on standard output, instead of the song's path.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("checkpoint").required(true).args(["demo", "folder"]))]
pub(crate) struct InspectArgs {
    /// Folder with a checkpoint in the diffusers layout.
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Look into the demo model that the program carries.
    #[arg(long)]
    pub(crate) demo: bool,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub(crate) struct CheckArgs {
    /// Case files (JSON); a folder stands for all that are in it.
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Where to compute.
    #[arg(long, value_enum, default_value_t = BackendArg::Auto)]
    pub(crate) backend: BackendArg,
    /// Compute everything in this precision, instead of each case's own.
    #[arg(long, value_enum)]
    pub(crate) precision: Option<PrecisionArg>,
    /// Print the table as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write what was computed into this folder, one file per case.
    #[arg(long, value_name = "DIR")]
    pub(crate) dump: Option<PathBuf>,
    /// Replay whole runs on this checkpoint folder, instead of each run's own.
    #[arg(long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
}

/// Where to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendArg {
    /// cuda if this build has it and a device answers, else flex.
    Auto,
    /// Fast portable CPU backend.
    Flex,
    /// Plain CPU backend, for comparing to the bit.
    Ndarray,
    /// NVIDIA GPU.
    Cuda,
}

/// How values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrecisionArg {
    /// As published: language model, depth decoder and condition encoder bf16, transformer and vocoder f32.
    Mixed,
    /// Everything f32.
    F32,
    /// Everything bf16.
    Bf16,
}

/// Where the random numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RngArg {
    /// Torch's CPU generator: a seed means the song that it means upstream.
    Torch,
    /// A counter-based generator: no draw of a song depends on another.
    Counter,
}

impl From<RngArg> for Rng {
    fn from(rng: RngArg) -> Self {
        match rng {
            RngArg::Torch => Self::Torch,
            RngArg::Counter => Self::Counter,
        }
    }
}

impl From<PrecisionArg> for Precision {
    fn from(precision: PrecisionArg) -> Self {
        match precision {
            PrecisionArg::Mixed => Self::Mixed,
            PrecisionArg::F32 => Self::F32,
            PrecisionArg::Bf16 => Self::Bf16,
        }
    }
}

/// Reads a length; which lengths make a song is the library's to say.
fn seconds(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "expected a number of seconds, such as 30".to_owned())
}

fn steps(text: &str) -> Result<usize, String> {
    let steps = text.parse().ok().filter(|steps| (1..=MAX_STEPS).contains(steps));
    steps.ok_or_else(|| format!("expected a whole number from 1 to {MAX_STEPS}"))
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
}

/// Reads gigabytes; returns bytes.
fn gigabytes(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(count) if count > 0.0 && count.is_finite() => Ok((count * 1e9) as u64),
        _ => Err("expected a number of gigabytes above zero, such as 16".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}

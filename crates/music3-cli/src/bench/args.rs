//! The command line of `music3 bench`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use crate::{
    args::{BACKEND_HELP, BackendArg, PrecisionArg, ProductArgs, backend, steps},
    synth::DimsArg,
};

/// More of anything would be a slip of the finger.
const MOST: usize = 1_000_000;

const EXAMPLES: &str = "\
Examples:
  music3 bench dit --random published --latents 688 --repeat 5
  music3 bench lm --random published --context 2000 --backend cuda --json
  music3 bench song --model weights --seconds 10

Loops of 1 to R calls are timed, each waited for at its end only: the slope of their times is what a call costs, the
intercept what a loop costs once. R more calls are waited for one by one, for median, least and most. Songs are not looped.";

/// What is timed. Only what it needs is built.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum BenchCommand {
    /// The flow-matching transformer: one forward.
    Dit(DitArgs),
    /// The language model: one decode step of both rows with the head over the audio rows and the draw, or a prefill.
    Lm(LmArgs),
    /// The depth decoder: one frame, seven steps with their draws.
    Depth(DepthArgs),
    /// The condition encoder: the frames of one window.
    Condition(ConditionArgs),
    /// The vocoder: the latents of one window.
    Vocoder(VocoderArgs),
    /// A whole song, with all components loaded beforehand.
    Song(SongArgs),
}

/// What every benchmark is told.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("weights").required(true).args(["demo", "model", "random"]))]
pub(crate) struct CommonArgs {
    /// Use the random demo model that the program carries.
    #[arg(long)]
    pub(crate) demo: bool,
    /// Folder with weights in either layout.
    #[arg(long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
    /// Draw the weights on the device, at these dimensions, and read none.
    #[arg(long, value_enum, value_name = "DIMS")]
    pub(crate) random: Option<DimsArg>,
    /// Calls in the longest loop, and calls that are waited for; with 0 the first call is reported [default: 5, for a song 1].
    #[arg(long, value_name = "R", value_parser = count_or_none)]
    pub(crate) repeat: Option<usize>,
    /// Calls before the first loop, after the one that is reported as the first.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count_or_none)]
    pub(crate) warmup: usize,
    #[arg(long, value_name = "BACKEND", default_value = "auto", value_parser = backend, help = BACKEND_HELP)]
    pub(crate) backend: BackendArg,
    /// How values are stored. mixed is as published: language model in bf16, the rest in f32.
    #[arg(long, value_enum, default_value_t = PrecisionArg::Mixed)]
    pub(crate) precision: PrecisionArg,
    #[command(flatten)]
    pub(crate) products: ProductArgs,
    /// Start of the random numbers, for inputs, draws and drawn weights.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Print everything as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DitArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Rows: 2 is the pair that guidance needs, 1 one of them.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = count)]
    pub(crate) rows: usize,
    /// Latents; a window of eight seconds has 689.
    #[arg(long, value_name = "N", default_value_t = 689, value_parser = count)]
    pub(crate) latents: usize,
}

#[derive(Debug, Args)]
pub(crate) struct LmArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Positions that were read before each step.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = count_or_none)]
    pub(crate) context: usize,
    /// Time reading a prompt of so many tokens, both rows, instead of a step.
    #[arg(long, value_name = "TOKENS", conflicts_with = "context", value_parser = count)]
    pub(crate) prefill: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct DepthArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ConditionArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Frames; a window of eight seconds has 200.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = count)]
    pub(crate) frames: usize,
}

#[derive(Debug, Args)]
pub(crate) struct VocoderArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Latents; a window of eight seconds has 689.
    #[arg(long, value_name = "N", default_value_t = 689, value_parser = count)]
    pub(crate) latents: usize,
}

#[derive(Debug, Args)]
pub(crate) struct SongArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Length at most; the model may end earlier.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Steps of the flow per window.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = steps)]
    pub(crate) steps: usize,
}

impl BenchCommand {
    /// Returns what every benchmark is told.
    pub(crate) fn common(&self) -> &CommonArgs {
        match self {
            Self::Dit(args) => &args.common,
            Self::Lm(args) => &args.common,
            Self::Depth(args) => &args.common,
            Self::Condition(args) => &args.common,
            Self::Vocoder(args) => &args.common,
            Self::Song(args) => &args.common,
        }
    }

    /// Returns how many calls the longest loop has, and how many are waited for.
    pub(crate) fn repeat(&self) -> usize {
        let default = if matches!(self, Self::Song(_)) { 1 } else { 5 };
        self.common().repeat.unwrap_or(default)
    }
}

fn count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=MOST).contains(count));
    count.ok_or_else(|| format!("expected a whole number from 1 to {MOST}"))
}

fn count_or_none(text: &str) -> Result<usize, String> {
    if text == "0" { Ok(0) } else { count(text) }
}

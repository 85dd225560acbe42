//! The command line.

use std::path::PathBuf;

use clap::{ArgAction, ArgGroup, Args, Parser, Subcommand, ValueEnum};
use music3::{ComputePath, Matmul, Precision, rng::Rng};

pub(crate) use crate::again_args::AgainArgs;
use crate::{
    bench::BenchCommand, completions::CompletionsArgs, convert::ConvertArgs, demo_args::DemoArg, plot::PlotArgs,
    synth::SynthArgs, verify::VerifyArgs,
};

const EXAMPLES: &str = "\
Examples:
  music3 generate --demo
      Try the program: a tiny model that knows four tunes plays one of them into song.wav.
  music3 generate --model weights --caption \"dreamy synth pop, female voice\" --lyrics-file song.txt
      Make a song of up to a minute with the published weights.
  music3 plot song.wav
      See the song: waveform, spectrogram and levels, in song.png.
  music3 inspect weights
      See what a checkpoint folder holds and how much memory a song needs.
  music3 check goldens
      Compare this port with recorded answers of the original implementation.
  music3 bench dit --random published --repeat 5
      Time the transformer at its published size, with weights drawn on the spot.
  music3 verify --model weights --capture song.json
      Hold this port against the original at full dimensions; goldens/generate/capture.py records the song.

Exit codes: 0 done, 1 failed, 2 cannot be done as asked, 130 stopped by Ctrl-C.";

const GENERATE_EXAMPLES: &str = "\
Examples:
  music3 generate --demo
  music3 generate --demo ode-to-joy --output joy.wav
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
  music3 check goldens/tiny --backend flex --beside ndarray
  music3 check goldens --precision f32 --dump computed --json > report.json

Exit codes: 0 all passed, 1 one failed, 2 one cannot be read or is for an unknown component, 130 stopped by Ctrl-C.";

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
    /// Write a checkpoint of either layout in the diffusers layout.
    Convert(ConvertArgs),
    /// Compare this port with recorded answers of the original implementation.
    Check(CheckArgs),
    /// Time one component, or a whole song, and compare with what the machine can do.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Write a checkpoint of random values in the published layout.
    SynthCheckpoint(SynthArgs),
    /// Compare this port with a whole run of the original implementation on the same weights, stage by stage.
    Verify(VerifyArgs),
    /// Draw a song: waveform, spectrogram, levels, joins of windows, samples at full scale.
    Plot(PlotArgs),
    /// Print what makes a shell complete this program's commands and options.
    Completions(CompletionsArgs),
}

/// Which checkpoint.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("checkpoint").args(["demo", "model"]))]
#[command(group = ArgGroup::new("origin").required(true).multiple(true).args(["demo", "model", "recipe"]))]
pub(crate) struct CheckpointArgs {
    /// Use the demo model that the program carries, and ask it for a tune [default: twinkle]. It is tiny and has learned
    /// these tunes and nothing else; `random` is another, whose songs are noise.
    #[arg(long, value_name = "TUNE", value_enum, num_args = 0..=1, default_missing_value = "twinkle")]
    pub(crate) demo: Option<DemoArg>,
    /// Folder with the published weights, in either layout.
    #[arg(long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = GENERATE_EXAMPLES, group = ArgGroup::new("words").args(["lyrics", "lyrics_file"]))]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    pub(crate) checkpoint: CheckpointArgs,
    /// Describe the music: genre, mood, voices, instruments [default with --demo: the tune's].
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["demo", "recipe", "from_codes"], allow_hyphen_values = true)]
    pub(crate) caption: Option<String>,
    /// The words to sing [default with --demo: the tune's].
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["demo", "lyrics_file", "recipe", "from_codes"], allow_hyphen_values = true)]
    pub(crate) lyrics: Option<String>,
    /// Read the words from a UTF-8 text file; - is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) lyrics_file: Option<PathBuf>,
    /// Let control tokens spelled in the texts, such as <|im_end|>, reach the model as tokens instead of refusing them.
    #[arg(long)]
    pub(crate) allow_special_tokens: bool,
    /// Length at most; the model may end earlier, and 360 is the limit [default: 60; with --demo 8, and 4 for random].
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
    #[arg(long, value_name = "BACKEND", value_parser = backend, help = format!("{BACKEND_HELP} [default: auto]"))]
    pub(crate) backend: Option<BackendArg>,
    /// How values are stored [default: mixed]. mixed is as published: language model in bf16, the rest in f32.
    #[arg(long, value_enum)]
    pub(crate) precision: Option<PrecisionArg>,
    #[command(flatten)]
    pub(crate) products: ProductArgs,
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
    /// Folder with a checkpoint in either layout.
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Look into the demo model that the program carries; `random` is another.
    #[arg(long, value_name = "TUNE", value_enum, num_args = 0..=1, default_missing_value = "twinkle")]
    pub(crate) demo: Option<DemoArg>,
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
    #[arg(long, value_name = "BACKEND", default_value = "auto", value_parser = backend, help = BACKEND_HELP)]
    pub(crate) backend: BackendArg,
    /// Run the cases on a second backend too, and compare how far each is from upstream; the exit code is the first one's.
    /// cuda-fused, in a build that has it, is CUDA with Burn's fusion of kernels.
    #[arg(long, value_name = "BACKEND", value_parser = backend, conflicts_with = "dump")]
    pub(crate) beside: Option<BackendArg>,
    /// Compute everything in this precision, instead of each case's own.
    #[arg(long, value_enum)]
    pub(crate) precision: Option<PrecisionArg>,
    #[command(flatten)]
    pub(crate) products: ProductArgs,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackendArg {
    /// cuda if this build has it and a device answers, else flex.
    Auto,
    /// Fast portable CPU backend.
    Flex,
    /// Plain CPU backend, for comparing to the bit.
    Ndarray,
    /// NVIDIA GPU, by its number.
    Cuda(usize),
    /// The same with Burn's fusion of kernels, for comparing cases only.
    CudaFused(usize),
}

pub(crate) const BACKEND_HELP: &str = "Where to compute: flex (fast, any CPU), ndarray (CPU, for comparing to the bit), cuda or \
    cuda:N (NVIDIA GPU, by its number), or auto: cuda if this build has it and a device answers, else flex";

/// How products are computed, for every command that runs a model.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ProductArgs {
    /// How f32 products are computed on a GPU [default: strict]. strict is exact; split is nearly as exact, on the tensor
    /// cores; tf32 is rougher and faster.
    #[arg(long, value_enum)]
    pub(crate) matmul: Option<MatmulArg>,
    /// Compute with plain tensor ops instead of this program's own kernels: slower, for comparing.
    #[arg(long)]
    pub(crate) reference: bool,
}

impl ProductArgs {
    /// Returns how f32 products are to be computed.
    pub(crate) fn matmul(self) -> Matmul {
        self.matmul.unwrap_or_default().into()
    }

    /// Returns these choices, with those of the command line in their place where it makes one.
    pub(crate) fn overridden_by(self, line: Self) -> Self {
        Self { matmul: line.matmul.or(self.matmul), reference: line.reference || self.reference }
    }

    /// Returns the form of the model's ops that was asked for.
    pub(crate) fn path(self) -> ComputePath {
        if self.reference { ComputePath::Plain } else { ComputePath::Kernels }
    }
}

/// How f32 products are computed on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MatmulArg {
    /// f32 operands, products and sums.
    #[default]
    Strict,
    /// Each operand in two f16 parts, sums in f32.
    Split,
    /// Operands rounded to TF32.
    Tf32,
}

impl From<MatmulArg> for Matmul {
    fn from(matmul: MatmulArg) -> Self {
        match matmul {
            MatmulArg::Strict => Self::Strict,
            MatmulArg::Split => Self::Split,
            MatmulArg::Tf32 => Self::Tf32,
        }
    }
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

/// Reads a backend's name, with the number of a GPU where there is one.
pub(crate) fn backend(text: &str) -> Result<BackendArg, String> {
    match text.split_once(':') {
        None if text == "auto" => Ok(BackendArg::Auto),
        None if text == "flex" => Ok(BackendArg::Flex),
        None if text == "ndarray" => Ok(BackendArg::Ndarray),
        None if text == "cuda" => Ok(BackendArg::Cuda(0)),
        None if text == "cuda-fused" => Ok(BackendArg::CudaFused(0)),
        Some((name @ ("cuda" | "cuda-fused"), number)) => {
            let number = number.parse().map_err(|_| "expected the number of a GPU behind cuda:, such as cuda:1")?;
            Ok(if name == "cuda" { BackendArg::Cuda(number) } else { BackendArg::CudaFused(number) })
        }
        _ => Err("expected auto, flex, ndarray, cuda or cuda:N".to_owned()),
    }
}

pub(crate) fn steps(text: &str) -> Result<usize, String> {
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
    fn reads_backends_with_and_without_a_number() {
        assert_eq!(backend("cuda"), Ok(BackendArg::Cuda(0)));
        assert_eq!(backend("cuda:3"), Ok(BackendArg::Cuda(3)));
        assert_eq!(backend("cuda-fused:1"), Ok(BackendArg::CudaFused(1)));
        assert_eq!(backend("ndarray"), Ok(BackendArg::Ndarray));
        for wrong in ["cuda:", "cuda:-1", "cuda:one", "flex:0", "CUDA", ""] {
            assert!(backend(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}

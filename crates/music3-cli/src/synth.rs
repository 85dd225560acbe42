//! `music3 synth-checkpoint`: a checkpoint of random values in the published layout.

use std::{
    ops::ControlFlow,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use music3::synth::{Dims, RandomCheckpoint, SynthError};
use music3_weights::{Layout, NewFolderError, WriteError};

use crate::{
    failure::{Failure, chain},
    figures,
    interrupt::Interrupt,
    terminal::{answer, bytes_bar, say},
};

const EXAMPLES: &str = "\
Examples:
  music3 synth-checkpoint random --dims demo
  music3 synth-checkpoint /scratch/random --dims published --seed 1
      28.5 GB; then: music3 inspect /scratch/random, music3 bench song --model /scratch/random

The values are random: every stage runs, and a song is noise. The tokenizer is the demo model's.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SynthArgs {
    /// The folder to make. Nothing appears under this name before the checkpoint is complete.
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// The size of every component.
    #[arg(long, value_enum)]
    pub(crate) dims: DimsArg,
    /// How the weights are packed; the same seed gives the same values in both.
    #[arg(long, value_enum, default_value_t = LayoutArg::Diffusers)]
    pub(crate) layout: LayoutArg,
    /// Start of the random numbers; the same seed gives the same checkpoint.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Print nothing but errors, and the path of the checkpoint.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// The size of every component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DimsArg {
    /// The demo model's: 26 MB.
    Demo,
    /// The published ones: 28.5 GB.
    Published,
}

impl From<DimsArg> for Dims {
    fn from(dims: DimsArg) -> Self {
        match dims {
            DimsArg::Demo => Self::Demo,
            DimsArg::Published => Self::Published,
        }
    }
}

/// How the weights are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutArg {
    /// A folder for each component.
    Diffusers,
    /// qwen_7B, flowmatching_vae.pth and dav.pth.
    Native,
}

impl From<LayoutArg> for Layout {
    fn from(layout: LayoutArg) -> Self {
        match layout {
            LayoutArg::Diffusers => Self::Diffusers,
            LayoutArg::Native => Self::Native,
        }
    }
}

/// Makes the checkpoint.
pub(crate) fn run(args: SynthArgs) -> Result<ExitCode, Failure> {
    let interrupt = Interrupt::listen();
    let checkpoint = RandomCheckpoint::of_layout(args.dims.into(), args.layout.into(), args.seed).map_err(failure)?;
    let total = checkpoint.bytes();
    let bar = if args.quiet { ProgressBar::hidden() } else { bytes_bar("writing", total) };
    let furthest = AtomicU64::new(0);
    let start = Instant::now();
    let outcome = checkpoint.write(&args.out, &|written| {
        // Threads report out of order.
        bar.set_position(furthest.fetch_max(written, Ordering::Relaxed).max(written));
        if interrupt.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.finish_and_clear();
    outcome.map_err(failure)?;
    if !args.quiet {
        let secs = start.elapsed().as_secs_f64();
        let rate = figures::bytes((total as f64 / secs.max(1e-9)) as u64);
        say(format_args!(
            "{} in {secs:.1} s, {rate}/s; its values are random, so a song is noise",
            figures::bytes(total)
        ));
    }
    answer(args.out.display())?;
    Ok(ExitCode::SUCCESS)
}

fn failure(error: SynthError) -> Failure {
    let message = chain(&error);
    match error {
        SynthError::Folder(NewFolderError::Exists { .. }) => Failure::usage(message),
        SynthError::Write(WriteError::Stopped { .. }) => {
            Failure::Interrupted(format!("{message}; nothing is left of it"))
        }
        _ => Failure::run(message),
    }
}

//! `music3 convert`: a checkpoint of either layout into a folder of the diffusers layout.

use std::{ops::ControlFlow, path::PathBuf, process::ExitCode, time::Instant};

use clap::Args;
use indicatif::ProgressBar;
use music3::SongError;
use music3_weights::{Checkpoint, Conversion, ConvertError, NewFolderError};

use crate::{
    failure::{Failure, chain},
    figures,
    generate::no_such_folder,
    interrupt::Interrupt,
    terminal::{answer, bytes_bar, say},
};

const EXAMPLES: &str = "\
Examples:
  music3 convert native-weights weights
  music3 convert weights copy

From the native layout (qwen_7B, flowmatching_vae.pth, dav.pth) every tensor gets its diffusers name; the encoder in
dav.pth is left out. A folder of the diffusers layout is checked and copied as it is.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// Folder with a checkpoint in either layout.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The folder to make. Nothing appears under this name before the checkpoint is complete.
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Print nothing but errors, and the path of the new folder.
    #[arg(short, long)]
    quiet: bool,
}

/// Converts a checkpoint.
pub(crate) fn run(args: ConvertArgs) -> Result<ExitCode, Failure> {
    if !args.folder.exists() {
        return Err(no_such_folder(&args.folder));
    }
    let interrupt = Interrupt::listen();
    let checkpoint = Checkpoint::open(&args.folder).map_err(SongError::from)?;
    let conversion = Conversion::plan(&checkpoint).map_err(SongError::from)?;
    let total = conversion.bytes();
    let bar = if args.quiet { ProgressBar::hidden() } else { bytes_bar("converting", total) };
    let start = Instant::now();
    let outcome = conversion.write(&args.out, &mut |written| {
        bar.set_position(written);
        if interrupt.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.finish_and_clear();
    outcome.map_err(failure)?;
    if !args.quiet {
        let secs = start.elapsed().as_secs_f64();
        let rate = figures::bytes((total as f64 / secs.max(1e-9)) as u64);
        let (from, bytes) = (checkpoint.layout(), figures::bytes(total));
        say(format_args!("{bytes} from the {from} layout in {secs:.1} s, {rate}/s"));
    }
    answer(args.out.display())?;
    Ok(ExitCode::SUCCESS)
}

fn failure(error: ConvertError) -> Failure {
    let message = chain(&error);
    match error {
        ConvertError::Folder(NewFolderError::Exists { .. }) => Failure::usage(message),
        ConvertError::Stopped { .. } => Failure::Interrupted(format!("{message}; nothing is left of it")),
        _ => Failure::run(message),
    }
}

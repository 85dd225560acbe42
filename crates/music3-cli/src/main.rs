//! The `music3` program: parse, run, exit code.

mod again_args;
mod args;
mod backends;
mod bench;
mod check;
mod completions;
mod convert;
mod demo_args;
mod failure;
mod figures;
mod generate;
mod inspect;
mod interrupt;
mod memory;
mod panics;
mod plot;
mod synth;
mod terminal;
mod text;
mod verify;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::{
    args::{Cli, Command},
    failure::Failure,
};

fn main() -> ExitCode {
    panics::report_in_one_line();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::refuse_usage(&error),
    };
    log(cli.verbose);
    let outcome = panics::caught(|| match cli.command {
        Command::Generate(args) => generate::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Check(args) => check::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Bench(command) => bench::run(command),
        Command::SynthCheckpoint(args) => synth::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Plot(args) => plot::run(args),
        Command::Completions(args) => completions::run(&args),
    });
    match outcome {
        Some(Ok(code)) => code,
        Some(Err(failure)) => failure.report(),
        // The hook has said what happened.
        None => ExitCode::from(Failure::RUN),
    }
}

/// Sends the log to standard error; `RUST_LOG` overrides `-v`.
fn log(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(terminal::is_watched())
        .without_time()
        .init();
}

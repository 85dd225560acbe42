//! The project's own commands. `cargo xtask ci` runs every check, `cargo xtask tidy` those that no Rust tool knows.

#![expect(clippy::print_stdout, reason = "this program reports to a terminal")]

mod ci;
mod fuzz;
mod hostile;
mod mutants;
mod tidy;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

/// The project's own commands.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs every check, cheapest first, and stops at the first that fails.
    Ci {
        /// Runs only this step; may be given more than once.
        #[arg(long, value_name = "STEP")]
        only: Vec<ci::Step>,
    },
    /// Checks the rules of the tree that no Rust tool knows; STYLE.md and ARCHITECTURE.md name them.
    Tidy,
    /// Writes docs/examples.md again: what the examples print.
    Docs,
    /// Shows that the cases notice wrong forms of the port: builds and runs each one in a copy of the tree.
    Mutants(mutants::Options),
    /// Feeds random files to the readers of a checkpoint's files; needs cargo-fuzz and the nightly toolchain.
    Fuzz(fuzz::Options),
    /// Measures what hostile files cost, and writes weights-mapping/hostile.md anew.
    Hostile,
}

fn main() -> ExitCode {
    let root = workspace_root();
    let outcome = match Arguments::parse().command {
        Command::Ci { only } => ci::run(&root, &only),
        Command::Tidy => tidy::run(&root),
        Command::Docs => ci::write_docs(&root),
        Command::Mutants(options) => mutants::run(&root, &options),
        Command::Fuzz(options) => fuzz::run(&root, &options),
        Command::Hostile => hostile::run(&root),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the folder of the workspace's `Cargo.toml`, wherever the command was called from.
fn workspace_root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

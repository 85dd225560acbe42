//! `music3 completions`: what makes a shell complete this program's commands and options.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{args::Cli, failure::Failure, terminal::answer};

const EXAMPLES: &str = "\
Examples:
  music3 completions bash > ~/.local/share/bash-completion/completions/music3
  music3 completions zsh > ~/.zfunc/_music3          # with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  music3 completions fish > ~/.config/fish/completions/music3.fish";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Prints the shell's script.
pub(crate) fn run(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "music3", &mut script);
    answer(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

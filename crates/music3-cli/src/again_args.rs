//! Arguments of `generate` for making a song again, in whole or in part.

use std::path::PathBuf;

use clap::Args;

/// A song that is made again, and what is kept for making it again.
#[derive(Debug, Args)]
pub(crate) struct AgainArgs {
    /// Make the song of a recipe (song.json) again; other arguments override what it says.
    #[arg(long, value_name = "FILE", conflicts_with = "from_codes")]
    pub(crate) recipe: Option<PathBuf>,
    /// Write no recipe beside the song.
    #[arg(long)]
    pub(crate) no_recipe: bool,
    /// Keep the codes, and the hidden states they were drawn from, in a file. It is written before the song is rendered.
    #[arg(long, value_name = "FILE")]
    pub(crate) save_codes: Option<PathBuf>,
    /// Render a song from such a file, without the language model: with what it was made with, or with other --steps,
    /// --precision, --seed.
    #[arg(long, value_name = "FILE")]
    pub(crate) from_codes: Option<PathBuf>,
}

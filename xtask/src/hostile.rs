//! `cargo xtask hostile`: the table of hostile files, measured anew.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};

/// Runs the test that opens the files and has it write the table.
pub(crate) fn run(root: &Path) -> Result<()> {
    // With the program beside it the crates are compiled as for the other tests.
    let status = Command::new("cargo")
        .args(["test", "--package", "music3-weights", "--package", "music3-cli", "--test", "hostile"])
        .env("MUSIC3_HOSTILE_TABLE", "1")
        .current_dir(root)
        .status()
        .context("cargo could not be started")?;
    if !status.success() {
        bail!("the test of hostile files failed");
    }
    Ok(())
}

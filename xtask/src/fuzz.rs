//! `cargo xtask fuzz`: each fuzz target for some minutes, and how many files it opened.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

/// Where files are kept in memory, on systems that have it.
const MEMORY: &str = "/dev/shm";

/// What to run.
#[derive(Args)]
pub(crate) struct Options {
    /// Minutes for each target.
    #[arg(long, value_name = "N", default_value_t = 10)]
    minutes: u64,
    /// Runs only this target; may be given more than once.
    #[arg(long, value_name = "TARGET")]
    only: Vec<Target>,
}

/// A fuzz target, by its name in fuzz/Cargo.toml.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Safetensors files.
    Header,
    /// Indices of shards.
    Index,
    /// Pickles.
    Pickle,
    /// Whole .pth files.
    Archive,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Index => "index",
            Self::Pickle => "pickle",
            Self::Archive => "archive",
        }
    }
}

/// Runs the targets one after the other; a crash, a hang or a file that takes too much memory fails the command.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let targets = if options.only.is_empty() { Target::value_variants() } else { options.only.as_slice() };
    let lock = root.join("fuzz/Cargo.lock");
    if !lock.exists() {
        // The versions that everything else is tested with.
        fs::copy(root.join("Cargo.lock"), &lock).with_context(|| format!("{} could not be written", lock.display()))?;
    }
    println!("| target | minutes | files opened | last line |\n|---|---|---|---|");
    for target in targets {
        let name = target.name();
        let corpus = root.join("fuzz/corpus").join(name);
        fs::create_dir_all(&corpus).with_context(|| format!("{} could not be made", corpus.display()))?;
        // Found inputs go into the first folder, the second one is only read.
        let mut command = Command::new("cargo");
        if Path::new(MEMORY).is_dir() {
            // The index is a file; on a disk a hundred times fewer of them are opened.
            command.env("TMPDIR", MEMORY);
        }
        let output = command
            .args(["+nightly", "fuzz", "run", "--sanitizer", "none", name])
            .arg(&corpus)
            .arg(root.join("fuzz/seeds").join(name))
            .arg("--")
            .arg(format!("-max_total_time={}", options.minutes * 60))
            .args(["-timeout=5", "-rss_limit_mb=1024", "-max_len=16384", "-print_final_stats=1"])
            .current_dir(root)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
            .context("cargo could not be started; `cargo install cargo-fuzz` brings the fuzzer")?;
        let log = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            bail!("{name} failed:\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
        let executed = log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        let last = log.lines().rfind(|line| line.contains("DONE")).unwrap_or_default();
        println!("| {name} | {} | {} | {} |", options.minutes, executed.unwrap_or("not told").trim(), last.trim());
    }
    Ok(())
}

//! The steps of `cargo xtask ci`, cheapest first.

use std::{
    fmt::Write as _,
    path::Path,
    process::{Command, ExitStatus},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::tidy;

/// The CUDA version whose driver interface is compiled against. It is named here so that no toolkit has to be
/// installed to find it out; libraries are looked for when the program runs.
const CUDA_VERSION: &str = "13000";

/// One step; the order is the order they run in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// Formatting.
    Fmt,
    /// The rules of the tree that no Rust tool knows.
    Tidy,
    /// Lints of all targets, warnings denied.
    Clippy,
    /// The documentation, warnings denied.
    Doc,
    /// All tests on the backends that need no device.
    Test,
    /// Lints of all targets with the CUDA backend; neither a GPU nor a toolkit is needed.
    Cuda,
    /// Every feature by itself, and none.
    Features,
    /// An application outside the workspace: run on one backend, type-checked on CUDA.
    Consumer,
}

impl Step {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns what the step runs: cargo's arguments and environment, or nothing where the step is built in.
    fn commands(self) -> Vec<Invocation> {
        match self {
            Self::Fmt => vec![
                Invocation::of("fmt --all --check"),
                Invocation::of("fmt --manifest-path examples/consumer/Cargo.toml --check"),
            ],
            Self::Tidy => Vec::new(),
            Self::Clippy => vec![Invocation::of("clippy --locked --workspace --all-targets -- --deny warnings")],
            Self::Doc => vec![Invocation {
                environment: &[("RUSTDOCFLAGS", "--deny warnings")],
                ..Invocation::of("doc --locked --workspace --no-deps")
            }],
            Self::Test => vec![Invocation::of("test --locked --workspace")],
            Self::Cuda => {
                vec![
                    Invocation::of("clippy --locked --workspace --all-targets --features cuda -- --deny warnings")
                        .on_cuda(),
                ]
            }
            // Only the library is without any feature; what the others are made of is checked with each. The examples
            // name two backends.
            Self::Features => vec![
                Invocation::of("check --locked --package music3 --no-default-features"),
                Invocation::of(
                    "check --locked --workspace --exclude music3-examples --no-default-features --features flex",
                ),
                Invocation::of(
                    "check --locked --workspace --exclude music3-examples --no-default-features --features ndarray",
                ),
                Invocation::of(
                    "check --locked --workspace --exclude music3-examples --no-default-features --features cuda",
                )
                .on_cuda(),
                Invocation::of("check --locked --package music3-cli --features cuda-fused").on_cuda(),
            ],
            // It has a target folder of its own: built as another application would build it, nothing is shared.
            Self::Consumer => vec![
                Invocation::of(
                    "run --locked --manifest-path examples/consumer/Cargo.toml --target-dir target/consumer",
                ),
                Invocation::of(
                    "clippy --locked --manifest-path examples/consumer/Cargo.toml --target-dir target/consumer \
                     --no-default-features --features cuda -- --deny warnings",
                )
                .on_cuda(),
            ],
        }
    }

    /// Returns what a failure of the step means, as the end of a sentence.
    fn failure(self) -> &'static str {
        match self {
            Self::Fmt => "some files are not formatted; `cargo fmt --all` formats them",
            Self::Tidy => "a rule of the tree is broken; the lines above name each place",
            Self::Clippy => "the code does not compile or a lint fired",
            Self::Doc => "the documentation does not build without warnings",
            Self::Test => "a test failed or did not compile",
            Self::Cuda => "with the CUDA backend the code does not compile or a lint fired",
            Self::Features => "with one feature alone the code does not compile",
            Self::Consumer => {
                "an application that uses the library does not compile or does not run; after a change of dependencies, \
                 `cargo check --manifest-path examples/consumer/Cargo.toml` mends its lock file"
            }
        }
    }
}

/// A cargo command.
struct Invocation {
    arguments: &'static str,
    environment: &'static [(&'static str, &'static str)],
}

impl Invocation {
    /// Returns a command of arguments that hold no spaces.
    fn of(arguments: &'static str) -> Self {
        Self { arguments, environment: &[] }
    }

    fn on_cuda(self) -> Self {
        Self { environment: &[("CUDARC_CUDA_VERSION", CUDA_VERSION)], ..self }
    }

    fn run(&self, root: &Path) -> anyhow::Result<()> {
        let status = cargo()
            .args(self.arguments())
            .envs(self.environment.iter().copied())
            .current_dir(root)
            .status()
            .with_context(|| format!("`{self}` could not be started"))?;
        verdict(self, status)
    }

    fn arguments(&self) -> impl Iterator<Item = &'static str> {
        self.arguments.split_whitespace()
    }
}

impl std::fmt::Display for Invocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, value) in self.environment {
            write!(f, "{name}='{value}' ")?;
        }
        write!(f, "cargo {}", self.arguments().collect::<Vec<_>>().join(" "))
    }
}

/// Runs the steps, or only those named, in the order of [`Step`]; stops at the first that fails.
pub(crate) fn run(root: &Path, only: &[Step]) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for &step in selected(only).iter() {
        let name = step.name();
        println!("== {name}");
        let start = Instant::now();
        let outcome = execute(root, step);
        let time = start.elapsed();
        println!("== {name}: {} after {}", if outcome.is_ok() { "passed" } else { "FAILED" }, seconds(time));
        outcome.with_context(|| format!("step `{name}` failed: {}", step.failure()))?;
        times.push((name, time));
    }
    println!("\n{}", summary(&times, only.is_empty()));
    Ok(())
}

/// Runs the test that holds docs/examples.md against the examples, and lets it write the page instead.
pub(crate) fn write_docs(root: &Path) -> anyhow::Result<()> {
    Invocation::of("build --locked --workspace --examples").run(root)?;
    let test = Invocation::of("test --locked --workspace --test examples_run docs::");
    Invocation { environment: &[("MUSIC3_WRITE_DOCS", "1")], ..test }.run(root)
}

fn selected(only: &[Step]) -> Vec<Step> {
    Step::value_variants().iter().copied().filter(|step| only.is_empty() || only.contains(step)).collect()
}

fn execute(root: &Path, step: Step) -> anyhow::Result<()> {
    if step == Step::Tidy {
        return tidy::run(root);
    }
    step.commands().iter().try_for_each(|invocation| {
        println!("== {}: {invocation}", step.name());
        invocation.run(root)
    })
}

/// Returns the cargo that runs this program: another one could be another toolchain.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn verdict(invocation: &Invocation, status: ExitStatus) -> anyhow::Result<()> {
    if !status.success() {
        bail!("`{invocation}` ended with {status}");
    }
    Ok(())
}

/// Returns the closing lines: each step's time, and what a run without a GPU leaves out.
fn summary(times: &[(String, Duration)], all: bool) -> String {
    let mut text = String::new();
    for (name, time) in times {
        let _ = writeln!(text, "{name:<8}{:>10}", seconds(*time));
    }
    let total = times.iter().map(|(_, time)| *time).sum();
    let _ = writeln!(text, "{:<8}{:>10}", "in all", seconds(total));
    text.push_str(if all { "every step passed; " } else { "the steps named passed; " });
    text.push_str("tests on a CUDA device are a step of their own: cargo test --workspace --features cuda");
    text
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_every_step_unless_some_are_named_and_keeps_the_order() {
        assert_eq!(selected(&[]), Step::value_variants());
        assert_eq!(selected(&[Step::Test, Step::Fmt]), [Step::Fmt, Step::Test]);
    }

    #[test]
    fn a_command_that_fails_fails_its_step() {
        let refused = cargo().arg("--no-such-option").output().expect("cargo runs this test").status;
        let error = verdict(&Invocation::of("test"), refused).expect_err("it failed");
        assert!(error.to_string().starts_with("`cargo test` ended with "), "{error}");
    }

    #[test]
    fn names_what_was_run_so_that_it_can_be_repeated() {
        let shown: Vec<String> = Step::Doc.commands().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["RUSTDOCFLAGS='--deny warnings' cargo doc --locked --workspace --no-deps"]);
    }

    #[test]
    fn every_step_but_the_built_in_one_has_a_command() {
        for step in selected(&[]) {
            assert_eq!(step.commands().is_empty(), step == Step::Tidy, "{step:?}");
        }
    }
}

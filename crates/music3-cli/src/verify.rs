//! `music3 verify`: whole runs of upstream on a checkpoint, replayed on the same weights and judged stage by stage.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use burn::tensor::backend::Backend;
use clap::Args;
use music3_check::{
    ArrayOrder, CasePath, CaseReport, Options, Origin, Report, RunStage, Status, WeightsOrigin, capture_path,
    render_case, render_stages, stages, worst_failures,
};
use serde::Serialize;

use crate::{
    args::{self, BackendArg, PrecisionArg, ProductArgs},
    backends::{Selected, Task},
    failure::Failure,
    interrupt::Interrupt,
    panics,
    terminal::{answer, say},
};

const EXAMPLES: &str = "\
Examples:
  music3 verify --model weights --capture upstream.json
  music3 verify --model weights --capture short.json long.json --backend cuda --json > report.json

A capture is a run of the original implementation on the same weights; `goldens/generate/capture.py --with-math` records
one. Each is replayed twice: with its codes and noise, every stage compared, and from its request and seed alone.

Exit codes: 0 every stage within its bounds, 1 one is not, 2 not run: no weights, no capture, or one that bounds nothing;
130 stopped by Ctrl-C.";

/// What `music3 verify` takes. Neither path is required by the parser: a missing one is reported as not run.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// Folder with the weights that the captures were made with, in either layout.
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Captures: their JSON files, or folders of NumPy files with a capture.json.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    capture: Vec<PathBuf>,
    /// Also read NumPy files that are stored column by column. Without this they are refused.
    #[arg(long)]
    column_major: bool,
    #[arg(long, value_name = "BACKEND", default_value = "auto", value_parser = args::backend, help = args::BACKEND_HELP)]
    backend: BackendArg,
    #[command(flatten)]
    products: ProductArgs,
    /// Compute everything in this precision, instead of each capture's own.
    #[arg(long, value_enum)]
    precision: Option<PrecisionArg>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// Also write the report as JSON into this file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Also print every output, not only the stages and the worst failure of each.
    #[arg(long, conflicts_with = "json")]
    outputs: bool,
}

/// Replays the captures; the exit code is the worst of them.
pub(crate) fn run(args: VerifyArgs) -> Result<ExitCode, Failure> {
    let json = args.json;
    let ready = match Ready::new(&args) {
        Ok(ready) => ready,
        Err(reason) => return not_run(&reason, json),
    };
    let interrupt = Interrupt::listen();
    let backend = Selected::choose(args.backend)?;
    let options = Options {
        precision: args.precision.map(Into::into),
        model: Some(ready.model.clone()),
        array_order: if args.column_major { ArrayOrder::EitherMajor } else { ArrayOrder::RowMajor },
        matmul: args.products.matmul(),
        path: args.products.path(),
        stop: interrupt.flag(),
        ..Options::default()
    };
    if !json {
        answer(format_args!("backend {}, weights {}", backend.name(), ready.model.display()))?;
    }
    let verifying = Verifying { captures: &ready.captures, options, shown: Shown::of(&args) };
    let report = backend.dispatch(verifying)?;
    if report.interrupted {
        let (done, all) = (report.cases.len(), ready.captures.len());
        return Err(Failure::Interrupted(format!("verify was stopped after {done} of {all} captures")));
    }
    let verdict = Verdict::of(&report);
    let as_json = to_json(&report, &ready, backend, verdict);
    if let Some(file) = &args.report {
        let failed = |error| Failure::run(format!("{}: the report cannot be written: {error}", file.display()));
        std::fs::write(file, format!("{as_json}\n")).map_err(failed)?;
    }
    answer(if json { &as_json } else { verdict.line() })?;
    if !json && looks_like_other_weights(&report) {
        answer("every stage after the prompt is far off: was the capture made with these weights?")?;
    }
    Ok(ExitCode::from(verdict.exit_code()))
}

/// Weights and captures that are there.
struct Ready {
    model: PathBuf,
    captures: Vec<CasePath>,
}

impl Ready {
    /// # Errors
    /// What is missing, in words.
    fn new(args: &VerifyArgs) -> Result<Self, String> {
        let model = args.model.clone().ok_or("there are no weights; name their folder with --model")?;
        if model.is_file() && args.capture.iter().any(|capture| capture.is_dir()) {
            return Err(format!(
                "--model names the file {}, and --capture a folder: were the two swapped?",
                model.display()
            ));
        }
        if !model.is_dir() {
            return Err(format!(
                "there are no weights: {} is not a folder; README.md says how to get them",
                model.display()
            ));
        }
        if args.capture.is_empty() {
            return Err("there is no capture; name one with --capture, goldens/generate/capture.py makes it".to_owned());
        }
        let found = |path: &PathBuf| {
            let (named, path) = (path, capture_path(path));
            match path.exists() {
                true => twin_is_beside(&path).map(|()| CasePath { path, origin: Origin::Named }),
                false if named.exists() => Err(format!("{} is no capture; pass the JSON file of one", named.display())),
                false => Err(format!("there is no capture {}; goldens/generate/capture.py makes one", path.display())),
            }
        };
        let captures = args.capture.iter().map(found).collect::<Result<_, _>>()?;
        Ok(Self { model, captures })
    }
}

/// Looks for what a capture names as its MATH twin before the weights are opened.
fn twin_is_beside(capture: &Path) -> Result<(), String> {
    let text = std::fs::read(capture).unwrap_or_default();
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let Some(twin) = json["math"].as_str() else { return Ok(()) };
    let missing = ["json", "safetensors"].map(|kind| capture.with_file_name(format!("{twin}.{kind}")));
    match missing.iter().find(|file| !file.exists()) {
        Some(file) => Err(format!(
            "{} names a MATH twin, but {} is not there; copy it, or record again with --with-math",
            capture.display(),
            file.display()
        )),
        None => Ok(()),
    }
}

/// Says loudly that nothing was compared; that is no success.
fn not_run(reason: &str, json: bool) -> Result<ExitCode, Failure> {
    say(format_args!("music3: verify: NOT RUN: {reason}"));
    if json {
        let report = serde_json::json!({ "status": "not_run", "reason": reason, "exit_code": Failure::USAGE });
        answer(format_args!("{report:#}"))?;
    }
    Ok(ExitCode::from(Failure::USAGE))
}

/// How much is printed while captures are replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// Nothing: the report comes as JSON.
    Nothing,
    Stages,
    StagesAndOutputs,
}

impl Shown {
    fn of(args: &VerifyArgs) -> Self {
        match (args.json, args.outputs) {
            (true, _) => Self::Nothing,
            (false, true) => Self::StagesAndOutputs,
            (false, false) => Self::Stages,
        }
    }

    fn print(self, case: &CaseReport) -> Result<(), Failure> {
        let whole = match self {
            Self::Nothing => return Ok(()),
            Self::StagesAndOutputs => case.clone(),
            Self::Stages => worst_failures(case),
        };
        answer(render_case(&whole).trim_end())?;
        if case.rows.is_empty() {
            return Ok(());
        }
        let bounds = match case.weights {
            Some(WeightsOrigin::Published) => "those for the published weights",
            Some(WeightsOrigin::Random) | None => "those for random weights",
        };
        answer(format_args!("  f32 bounds: {bounds}"))?;
        let table = render_stages(&stages(case));
        table.lines().try_for_each(|line| answer(format_args!("  {line}")))
    }
}

/// The work of replaying captures, on any backend.
struct Verifying<'a> {
    captures: &'a [CasePath],
    options: Options,
    shown: Shown,
}

impl Task for Verifying<'_> {
    type Output = Result<Report, Failure>;

    fn run<B: Backend>(self, device: B::Device) -> Self::Output {
        let mut printed = Ok(());
        let mut print = |case: &CaseReport| {
            if printed.is_ok() {
                printed = self.shown.print(case);
            }
        };
        let report = panics::silenced(|| music3_check::run::<B>(self.captures, &self.options, &device, &mut print));
        printed?;
        report.map_err(Failure::run)
    }
}

/// What became of all captures together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Verified,
    Failed,
    Unreadable,
    /// Nothing in a capture says how far is too far.
    NotJudged,
}

impl Verdict {
    fn of(report: &Report) -> Self {
        match report.exit_code() {
            0 if report.cases.iter().all(CaseReport::is_judged) => Self::Verified,
            0 => Self::NotJudged,
            1 => Self::Failed,
            _ => Self::Unreadable,
        }
    }

    fn exit_code(self) -> u8 {
        match self {
            Self::Verified => 0,
            Self::Failed => Failure::RUN,
            Self::Unreadable | Self::NotJudged => Failure::USAGE,
        }
    }

    fn line(self) -> &'static str {
        match self {
            Self::Verified => "VERIFIED: every stage of every capture is within its bounds",
            Self::Failed => "FAILED: a stage is not within its bounds",
            Self::Unreadable => "NOT RUN: a capture or the weights cannot be read",
            Self::NotJudged => {
                "NOT JUDGED: a capture holds nothing that says how far is too far; record it with --with-math"
            }
        }
    }
}

/// Returns whether a capture has its prompt right and nothing else.
fn looks_like_other_weights(report: &Report) -> bool {
    report.cases.iter().any(|case| {
        let stages = stages(case);
        let (prompt, others): (Vec<_>, Vec<_>) = stages.iter().partition(|stage| stage.stage == RunStage::Plan);
        let all_right = prompt.iter().all(|stage| stage.failed == 0);
        let all_wrong = others.iter().all(|stage| stage.judged > 0 && stage.failed == stage.judged);
        all_right && others.len() > 2 && all_wrong
    })
}

fn to_json(report: &Report, ready: &Ready, backend: Selected, verdict: Verdict) -> String {
    let captures: Vec<_> = report
        .cases
        .iter()
        .map(|case| serde_json::json!({ "stages": stages(case), "judged": case.is_judged(), "report": case }))
        .collect();
    let value = serde_json::json!({
        "status": verdict,
        "exit_code": verdict.exit_code(),
        "backend": backend.name(),
        "model": ready.model.display().to_string(),
        "captures": captures,
        "free": report.free,
        "unreadable": report.count(Status::Unreadable),
    });
    format!("{value:#}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn only_a_capture_that_was_judged_is_verified() {
        let mut report = Report::default();
        assert_eq!(Verdict::of(&report), Verdict::Unreadable, "nothing was replayed");
        report.cases.push(CaseReport::unjudged(Path::new("a.json")));
        assert_eq!(Verdict::of(&report), Verdict::NotJudged);
        assert_ne!(Verdict::of(&report).exit_code(), 0);
    }
}

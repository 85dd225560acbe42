//! Cases in, reports out.

use std::{
    any::Any,
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use burn::tensor::backend::Backend;
use music3::{ComputePath, Matmul, Precision};

use crate::{
    CheckError,
    case::CaseFile,
    collect::{CasePath, Origin},
    components::{Computed, Context, compute},
    dump,
    gate::RuleName,
    judge::judge,
    kind::CaseKind,
    numpy::ArrayOrder,
    output::DtypeRule,
    report::{CaseReport, FreeRun, Report, Status},
    row::Row,
};

/// How cases are run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What everything is computed in, instead of each case's own dtype.
    pub precision: Option<Precision>,
    /// The folder that what was computed is written to.
    pub dump: Option<PathBuf>,
    /// The checkpoint folder that captures are replayed on, instead of each capture's own.
    pub model: Option<PathBuf>,
    /// How f32 products are computed.
    pub matmul: Matmul,
    /// Whether kernels are used where there are some, or plain tensor ops only.
    pub path: ComputePath,
    /// How the arrays of a capture may be stored that is a folder of NumPy files.
    pub array_order: ArrayOrder,
    /// Set by whoever wants the run to stop after the unit in work.
    pub stop: Arc<AtomicBool>,
}

impl Options {
    pub(crate) fn stop_asked(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

/// Runs cases one after another; `done` is called with each report as it comes.
pub fn run<B: Backend>(
    cases: &[CasePath],
    options: &Options,
    device: &B::Device,
    done: &mut dyn FnMut(&CaseReport),
) -> Report {
    let mut report = Report::default();
    let mut dumped = HashSet::new();
    for CasePath { path, origin } in cases {
        let case = match CaseFile::open_with(path, options.array_order) {
            // Two dumps of one name would leave only the second.
            Ok(case) if options.dump.is_some() && !dumped.insert(case.stem()) => {
                let error = CheckError::DumpClash { stem: case.stem() };
                CaseReport::stopped(path, Status::Unreadable, error.to_string())
            }
            Ok(case) => run_case::<B>(&case, options, device),
            Err(CheckError::NoComponent { path, .. }) if *origin == Origin::Folder => {
                report.not_cases.push(path);
                continue;
            }
            Err(error) => CaseReport::stopped(path, Status::Unreadable, error.to_string()),
        };
        // What a stopped case found so far is not what it would have found.
        if options.stop_asked() {
            report.interrupted = true;
            break;
        }
        done(&case);
        report.cases.push(case);
    }
    report.judge_free_runs();
    report
}

/// Runs one case.
pub fn run_case<B: Backend>(case: &CaseFile, options: &Options, device: &B::Device) -> CaseReport {
    let start = Instant::now();
    let precision = options.precision.unwrap_or(case.precision());
    // A wrong shape is a documented panic of every forward, and a backend panics where its device is missing.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        options.path.scope(|| options.matmul.scope(|| run_unguarded::<B>(case, options, device)))
    }));
    let report = CaseReport::stopped(case.path(), Status::Passed, String::new());
    let report = match outcome {
        Ok(Ok(Outcome { rows, mut notes, free })) => {
            notes.extend(full_scale_note(&rows));
            CaseReport { rows, notes, free, error: None, ..report }
        }
        Ok(Err(error @ CheckError::Stopped { .. })) => failed(report, Status::Failed, error.to_string()),
        Ok(Err(error)) => failed(report, Status::Unreadable, error.to_string()),
        Err(panic) => failed(report, Status::Failed, format!("stopped: {}", message(&*panic))),
    };
    let status = match report.has_failed_row() {
        true => Status::Failed,
        false => report.status,
    };
    CaseReport {
        component: Some(case.kind()),
        dtype: Some(case.precision()),
        precision: Some(precision),
        weights: Some(case.weights()),
        status,
        seconds: start.elapsed().as_secs_f64(),
        ..report
    }
}

/// What a case found out, before it is a report.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) rows: Vec<Row>,
    pub(crate) notes: Vec<String>,
    pub(crate) free: Option<FreeRun>,
}

fn run_unguarded<B: Backend>(case: &CaseFile, options: &Options, device: &B::Device) -> Result<Outcome, CheckError> {
    let precision = options.precision.unwrap_or(case.precision());
    let context = Context::<B> { case, precision, device };
    if case.kind() == CaseKind::Pipeline {
        return crate::pipeline::replay(&context, options);
    }
    let mut notes = Vec::new();
    let dtypes = match precision == case.precision() {
        true => DtypeRule::Upstream,
        false => {
            notes.push(format!("computed in {precision}, compared with upstream's {}", case.precision()));
            DtypeRule::Chosen
        }
    };
    let rows = match compute(&context)? {
        Computed::Tensors { answers, mut rows } => {
            if let Some(folder) = &options.dump {
                let named = answers.iter().map(|(name, values)| (format!("out.{name}"), values));
                dump::write_tensors(folder, &case.stem(), named)?;
            }
            rows.extend(judge(case, &answers, dtypes)?);
            rows
        }
        Computed::Table { rows, answers } => {
            dump_answers(options.dump.as_deref(), case, &answers)?;
            rows
        }
    };
    Ok(Outcome { rows, notes, free: None })
}

/// Says how outputs were judged whose share of equal values says nothing.
fn full_scale_note(rows: &[Row]) -> Option<String> {
    let share_is_chance =
        |row: &&Row| row.bound.is_some_and(|bound| bound.rule == RuleName::FullScale && bound.differing.is_none());
    let count = rows.iter().filter(share_is_chance).count();
    (count > 0).then(|| {
        format!(
            "full scale: f32, judged by mean and max |d|, as the share that is identical is chance: {count} outputs"
        )
    })
}

fn dump_answers(folder: Option<&Path>, case: &CaseFile, answers: &serde_json::Value) -> Result<(), CheckError> {
    match folder {
        Some(folder) => dump::write_json(folder, &case.stem(), answers),
        None => Ok(()),
    }
}

fn failed(report: CaseReport, status: Status, error: String) -> CaseReport {
    CaseReport { status, error: Some(error), ..report }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Bound;

    #[test]
    fn the_note_counts_f32_outputs_of_full_scale_only() {
        let row = |rule, differing| {
            let bound = Bound { rule, relative: 0.0, max: Some(1.0), mean: Some(1.0), differing };
            Row { bound: Some(bound), ..Row::new("latents_0_0", "math", "f32") }
        };
        let judged = [row(RuleName::FullScale, Some(0.9)), row(RuleName::F32, None), Row::new("codes", "math", "i64")];
        assert_eq!(full_scale_note(&judged), None);
        let note = full_scale_note(&[row(RuleName::FullScale, None), row(RuleName::FullScale, Some(0.9))]);
        assert!(note.is_some_and(|note| note.ends_with("chance: 1 outputs")));
    }
}

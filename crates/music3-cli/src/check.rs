//! `music3 check`: cases in, a table out.

use std::process::ExitCode;

use burn::tensor::backend::Backend;
use music3_check::{CasePath, Options, Report, beside_json, collect, render_beside, render_case, render_summary};

use crate::{
    args::CheckArgs,
    backends::{Arm, Task},
    failure::Failure,
    generate::no_such_folder,
    interrupt::Interrupt,
    panics,
    terminal::{answer, say},
};

/// Runs the cases; its exit code is the report's.
pub(crate) fn run(args: CheckArgs) -> Result<ExitCode, Failure> {
    let cases = collect(&args.paths).map_err(Failure::usage)?;
    if let Some(model) = args.model.as_ref().filter(|model| !model.is_dir()) {
        return Err(no_such_folder(model));
    }
    if cases.is_empty() {
        return Err(Failure::usage("there is no JSON file in what was named; pass case files or a folder of them"));
    }
    let interrupt = Interrupt::listen();
    let arm = Arm::choose(args.backend)?;
    let beside = args.beside.map(Arm::choose).transpose()?;
    let options = Options {
        precision: args.precision.map(Into::into),
        dump: args.dump,
        model: args.model,
        matmul: args.products.matmul(),
        path: args.products.path(),
        stop: interrupt.flag(),
        ..Options::default()
    };
    let checking = Checking { cases, options, json: args.json };
    let report = checking.clone().on(arm)?;
    checking.refuse_interrupted(&report)?;
    if let Some(beside) = beside {
        return compare(checking, (arm, &report), beside);
    }
    if args.json { answer(report.to_json()) } else { answer(render_summary(&report).trim_end()) }?;
    Ok(ExitCode::from(report.exit_code()))
}

/// Runs the cases on a second backend, and says how the two differ. If that is interrupted, what was found so far is
/// compared all the same: a backend that is only looked at may take long.
fn compare(checking: Checking, (arm, report): (Arm, &Report), beside: Arm) -> Result<ExitCode, Failure> {
    let json = checking.json;
    if !json {
        answer(render_summary(report).trim_end())?;
    }
    let count = checking.cases.len();
    let other = checking.on(beside)?;
    let arms = [(arm, report), (beside, &other)].map(|(arm, report)| music3_check::Arm { name: arm.name(), report });
    if json {
        answer(beside_json(arms))?;
    } else {
        answer(render_summary(&other).trim_end())?;
        answer(format!("\n{}", render_beside(arms).trim_end()))?;
    }
    if other.interrupted {
        say(format_args!("{} was stopped after {} of {count} files", beside.name(), other.cases.len()));
    }
    Ok(ExitCode::from(report.exit_code()))
}

/// The work of running cases, on any backend.
#[derive(Clone)]
struct Checking {
    cases: Vec<CasePath>,
    options: Options,
    json: bool,
}

impl Checking {
    fn on(self, arm: Arm) -> Result<Report, Failure> {
        if !self.json {
            say(format_args!("backend {}, {} files", arm.name(), self.cases.len()));
        }
        arm.dispatch(self)
    }

    fn refuse_interrupted(&self, report: &Report) -> Result<(), Failure> {
        if !report.interrupted {
            return Ok(());
        }
        let (done, count) = (report.cases.len() + report.not_cases.len(), self.cases.len());
        Err(Failure::Interrupted(format!("check was stopped after {done} of {count} files")))
    }
}

impl Task for Checking {
    type Output = Result<Report, Failure>;

    fn run<B: Backend>(self, device: B::Device) -> Self::Output {
        let mut printed = Ok(());
        let mut print = |case: &music3_check::CaseReport| {
            if !self.json && printed.is_ok() {
                printed = answer(render_case(case).trim_end());
            }
        };
        // A case that panics is reported as failed, with what it said.
        let report = panics::silenced(|| music3_check::run::<B>(&self.cases, &self.options, &device, &mut print));
        printed?;
        report.map_err(Failure::run)
    }
}

//! `music3 check`: cases in, a table out.

use std::process::ExitCode;

use burn::tensor::backend::Backend;
use music3_check::{CasePath, Options, Report, collect, render_case, render_summary};

use crate::{
    args::CheckArgs,
    backends::{Selected, Task},
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
    let backend = Selected::choose(args.backend)?;
    let count = cases.len();
    let options = Options {
        precision: args.precision.map(Into::into),
        dump: args.dump,
        model: args.model,
        matmul: args.products.matmul(),
        path: args.products.path(),
        stop: interrupt.flag(),
        ..Options::default()
    };
    if !args.json {
        say(format_args!("backend {}, {} files", backend.name(), cases.len()));
    }
    let report = backend.dispatch(Checking { cases, options, json: args.json })?;
    if report.interrupted {
        let done = report.cases.len() + report.not_cases.len();
        return Err(Failure::Interrupted(format!("check was stopped after {done} of {count} files")));
    }
    if args.json { answer(report.to_json()) } else { answer(render_summary(&report).trim_end()) }?;
    Ok(ExitCode::from(report.exit_code()))
}

/// The work of running cases, on any backend.
struct Checking {
    cases: Vec<CasePath>,
    options: Options,
    json: bool,
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

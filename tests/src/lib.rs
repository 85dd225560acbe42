//! What the test targets share: finding goldens, running them, and damaging copies of them.

mod damaged;

use std::path::PathBuf;

use burn::tensor::backend::Backend;
use music3_check::{CasePath, Options, Report, collect, render_table, run};

pub use damaged::{Damaged, Stored};

/// Returns a path in the folder of goldens.
pub fn goldens(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../goldens")).join(path)
}

/// Returns every case in a folder of goldens whose file name begins with `prefix`.
///
/// # Panics
/// If there is none: a check whose reference is missing has not passed.
pub fn goldens_of(folder: &str, prefix: &str) -> Vec<CasePath> {
    let mut cases = collect(&[goldens(folder)]).unwrap_or_else(|error| panic!("{error}"));
    cases.retain(|case| case.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)));
    assert!(
        !cases.is_empty(),
        "no golden {folder}/{prefix}*; run `python goldens/generate/make.py` (goldens/generate/README.md says with what)"
    );
    cases
}

/// Runs cases; the report is printed, which the test harness shows when a test fails.
pub fn report<B: Backend>(cases: &[CasePath], options: &Options, device: &B::Device) -> Report {
    let report = run::<B>(cases, options, device, &mut |_| ());
    eprint!("{}", render_table(&report));
    report
}

/// Runs cases, each in its own dtype, and asserts that all of them pass.
///
/// # Panics
/// If one does not.
pub fn assert_passes<B: Backend>(cases: &[CasePath], device: &B::Device) {
    let report = report::<B>(cases, &Options::default(), device);
    assert_eq!(report.exit_code(), 0, "see the table above");
}

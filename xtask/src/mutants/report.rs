//! What `music3 check --json` says.

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;

use super::list::CASES;

/// A report on cases.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    cases: Vec<Case>,
    #[serde(default)]
    free: Vec<FreeGroup>,
    exit_code: u8,
}

#[derive(Debug, Deserialize)]
struct Case {
    path: String,
    component: Option<String>,
    dtype: Option<String>,
    status: Status,
    rows: Vec<Row>,
    error: Option<String>,
    free: Option<FreeRun>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Status {
    Passed,
    Failed,
    Unreadable,
}

#[derive(Debug, Deserialize)]
struct Row {
    verdict: String,
    used: Value,
}

#[derive(Debug, Deserialize)]
struct FreeRun {
    gate: bool,
    outcome: String,
}

#[derive(Debug, Deserialize)]
struct FreeGroup {
    folder: String,
    dtype: String,
    passed: bool,
}

/// What became of one case.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    /// Its name: the path below the folder of the cases, without the ending.
    pub(super) case: String,
    /// What it is for.
    pub(super) component: String,
    /// How it failed, if it did.
    pub(super) red: Option<Red>,
}

/// How a case failed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Red {
    /// Outputs exceeded their bounds, at most by this factor; infinite where no factor says it, as with a NaN, another
    /// shape, or a text that differs.
    Outputs {
        /// How many outputs, and of how many.
        failed: usize,
        /// How many outputs were judged.
        judged: usize,
        /// The largest factor.
        factor: f64,
    },
    /// The computation stopped.
    Stopped(String),
    /// The codes of a run from its seed are others.
    Codes,
}

impl Report {
    /// Reads a report.
    ///
    /// # Errors
    /// When it is none, or a case could not be read: nothing is known then.
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let report: Self = serde_json::from_str(text).context("its report is not as expected")?;
        if let Some(case) = report.cases.iter().find(|case| case.status == Status::Unreadable) {
            bail!("{}: {}", case.path, case.error.as_deref().unwrap_or("it could not be read"));
        }
        let red = report.cases.iter().any(|case| report.red(case).is_some());
        if report.cases.is_empty() || red != (report.exit_code != 0) {
            bail!("its report of {} cases ends with {}, which does not fit", report.cases.len(), report.exit_code);
        }
        Ok(report)
    }

    /// Returns what became of each case, in the order they were run.
    pub(super) fn outcomes(&self) -> anyhow::Result<Vec<Outcome>> {
        self.cases
            .iter()
            .map(|case| {
                Ok(Outcome {
                    case: name(&case.path)?,
                    component: case.component.clone().with_context(|| format!("{} has no component", case.path))?,
                    red: self.red(case),
                })
            })
            .collect()
    }

    fn red(&self, case: &Case) -> Option<Red> {
        if let Some(error) = &case.error {
            return Some(Red::Stopped(error.clone()));
        }
        let failed = case.rows.iter().filter(|row| row.verdict == "failed");
        if case.status != Status::Passed {
            // Numbers that JSON does not know are written as text, and what has no bound has none.
            let factor = failed.clone().map(|row| row.used.as_f64().unwrap_or(f64::INFINITY)).fold(0.0, f64::max);
            let judged = case.rows.iter().filter(|row| matches!(row.verdict.as_str(), "passed" | "failed")).count();
            return Some(Red::Outputs { failed: failed.count(), judged, factor });
        }
        // Free runs are judged by the folder and the dtype, and those that differ are why a group fails.
        let free = case.free.as_ref().filter(|free| free.gate && free.outcome == "differs")?;
        let of_this = |group: &&FreeGroup| {
            Some(&group.dtype) == case.dtype.as_ref() && case.path.starts_with(&format!("{}/", group.folder))
        };
        let failed = self.free.iter().find(of_this).is_some_and(|group| !group.passed);
        (failed && free.gate).then_some(Red::Codes)
    }
}

fn name(path: &str) -> anyhow::Result<String> {
    let below = path.replace('\\', "/");
    let below = below.strip_prefix(CASES).and_then(|rest| rest.strip_prefix('/'));
    let name = below.and_then(|rest| rest.strip_suffix(".json"));
    Ok(name.with_context(|| format!("the report names {path}, which was not asked for"))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(path: &str, status: &str, rest: &str) -> String {
        format!(
            r#"{{"path": "goldens/{path}.json", "component": "snake", "dtype": "f32", "status": "{status}",
                "seconds": 0.1, "notes": [], {rest}}}"#
        )
    }

    fn read(cases: &[String], exit_code: u8) -> anyhow::Result<Report> {
        let free = r#"[{"folder": "goldens/captures", "dtype": "f32", "passed": false, "runs": 1}]"#;
        Report::read(&format!(
            r#"{{"cases": [{}], "not_cases": [], "free": {free}, "exit_code": {exit_code}}}"#,
            cases.join(", ")
        ))
    }

    const PASSED: &str = r#""rows": [{"verdict": "passed", "used": 0.5, "name": "x"}], "error": null, "free": null"#;

    #[test]
    fn says_how_each_case_failed() {
        let rows = r#""rows": [{"verdict": "failed", "used": 40.0}, {"verdict": "passed", "used": 0.1},
            {"verdict": "pooled", "used": null}, {"verdict": "failed", "used": 7.0}], "error": null, "free": null"#;
        let nan = r#""rows": [{"verdict": "failed", "used": "inf"}], "error": null, "free": null"#;
        let stopped = r#""rows": [], "error": "no frames", "free": null"#;
        let codes = r#""rows": [], "error": null, "free": {"outcome": "differs", "gate": true, "detail": "at 3"}"#;
        let report = read(
            &[
                case("tiny/a", "passed", PASSED),
                case("tiny/b", "failed", rows),
                case("tiny/c", "failed", nan),
                case("tiny/d", "failed", stopped),
                case("captures/e", "passed", codes),
            ],
            1,
        );
        let outcomes = report.and_then(|report| report.outcomes()).expect("a report");
        let names: Vec<&str> = outcomes.iter().map(|outcome| outcome.case.as_str()).collect();
        assert_eq!(names, ["tiny/a", "tiny/b", "tiny/c", "tiny/d", "captures/e"]);
        let reds: Vec<Option<Red>> = outcomes.into_iter().map(|outcome| outcome.red).collect();
        let expected = [
            None,
            Some(Red::Outputs { failed: 2, judged: 3, factor: 40.0 }),
            Some(Red::Outputs { failed: 1, judged: 1, factor: f64::INFINITY }),
            Some(Red::Stopped("no frames".to_owned())),
            Some(Red::Codes),
        ];
        assert_eq!(reds, expected);
    }

    #[test]
    fn a_case_that_cannot_be_read_says_nothing() {
        let unreadable = r#""rows": [], "error": "no such tensor", "free": null"#;
        let error = read(&[case("tiny/a", "unreadable", unreadable)], 2).expect_err("nothing is known");
        assert!(error.to_string().contains("no such tensor"), "{error}");
    }

    #[test]
    fn refuses_a_report_that_contradicts_its_exit_code() {
        assert!(read(&[case("tiny/a", "passed", PASSED)], 1).is_err());
        assert!(read(&[], 0).is_err());
        assert!(Report::read("thread 'main' panicked").is_err());
    }
}

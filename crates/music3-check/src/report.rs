//! What a run of cases found out.

use std::path::{Path, PathBuf};

use music3::Precision;
use serde::Serialize;

use crate::{
    case::WeightsOrigin,
    gate::RuleName,
    kind::CaseKind,
    row::{Row, Verdict},
};

/// What became of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Every gate was passed.
    Passed,
    /// A gate was not passed, or the computation stopped.
    Failed,
    /// It could not be read, or is for a component that is not known.
    Unreadable,
}

/// What a case found out.
#[derive(Debug, Clone, Serialize)]
pub struct CaseReport {
    /// The JSON file.
    pub path: PathBuf,
    /// What it is for; nothing where it could not be read.
    pub component: Option<CaseKind>,
    /// What upstream computed it in.
    pub dtype: Option<Precision>,
    /// What it was computed in here.
    pub precision: Option<Precision>,
    /// What became of it.
    pub status: Status,
    /// Its outputs.
    pub rows: Vec<Row>,
    /// What else there is to say.
    pub notes: Vec<String>,
    /// Where the weights come from that upstream computed it with; nothing where it could not be read.
    pub weights: Option<WeightsOrigin>,
    /// Why it could not be read or stopped.
    pub error: Option<String>,
    /// How the free run of a capture went.
    pub free: Option<FreeRun>,
    /// How long it took.
    pub seconds: f64,
}

impl CaseReport {
    /// Returns the report of a case that could not be read or stopped.
    pub(crate) fn stopped(path: &Path, status: Status, error: String) -> Self {
        Self {
            path: path.to_owned(),
            component: None,
            dtype: None,
            precision: None,
            weights: None,
            status,
            rows: Vec::new(),
            notes: Vec::new(),
            error: Some(error),
            free: None,
            seconds: 0.0,
        }
    }

    /// Returns whether a bound was applied that upstream's values leave room in: a capture may hold so little that
    /// everything in it is only reported.
    pub fn is_judged(&self) -> bool {
        let bounded = |row: &Row| {
            let rule = row.bound.map(|bound| bound.rule);
            rule.is_some_and(|rule| !matches!(rule, RuleName::Exact | RuleName::Unbounded))
        };
        let free = |free: &FreeRun| free.gate && free.outcome != FreeOutcome::NotApplicable;
        self.status != Status::Unreadable && (self.rows.iter().any(bounded) || self.free.as_ref().is_some_and(free))
    }

    /// Returns the report of a case that has passed without anything being compared.
    pub fn unjudged(path: &Path) -> Self {
        Self { error: None, ..Self::stopped(path, Status::Passed, String::new()) }
    }

    /// Returns whether a row failed.
    pub(crate) fn has_failed_row(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == Verdict::Failed)
    }
}

/// How a free run of a capture went: from its request and seed alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FreeRun {
    /// What became of it.
    pub outcome: FreeOutcome,
    /// Whether it is judged, together with the others of its folder.
    pub gate: bool,
    /// What there is to say: where the codes first differ, and by what margin; or why it does not apply.
    pub detail: String,
}

/// The outcome of a free run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FreeOutcome {
    /// Every code equals upstream's.
    Equal,
    /// A code differs.
    Differs,
    /// Upstream's draws cannot be repeated.
    NotApplicable,
}

/// The free runs of one folder and dtype, judged together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FreeGroup {
    /// The folder.
    pub folder: PathBuf,
    /// The dtype of its captures.
    pub dtype: Precision,
    /// How many were run.
    pub runs: usize,
    /// How many gave upstream's codes.
    pub equal: usize,
    /// The share that must.
    pub required: f64,
    /// Whether enough did.
    pub passed: bool,
}

/// What a run of cases found out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// The cases, in the order they were run.
    pub cases: Vec<CaseReport>,
    /// JSON files in folders that are no cases.
    pub not_cases: Vec<PathBuf>,
    /// The free runs, folder by folder.
    pub free: Vec<FreeGroup>,
    /// Whether it was stopped before its end; the case in work and those after it are not among the cases.
    pub interrupted: bool,
}

/// Free runs in f32: 19 of 20 must give upstream's codes; with a bf16 half, 14 of 20.
fn required_share(dtype: Precision) -> f64 {
    match dtype {
        Precision::F32 => 19.0 / 20.0,
        Precision::Mixed | Precision::Bf16 => 14.0 / 20.0,
    }
}

impl Report {
    /// Returns 0 when every case passed, 1 when one failed, 2 when one could not be read or is for an unknown component,
    /// or when there was none: a check that checked nothing has not passed.
    pub fn exit_code(&self) -> u8 {
        let any = |status| self.cases.iter().any(|case| case.status == status);
        if self.cases.is_empty() || any(Status::Unreadable) {
            2
        } else if any(Status::Failed) || self.free.iter().any(|group| !group.passed) {
            1
        } else {
            0
        }
    }

    /// Returns how many cases have a status.
    pub fn count(&self, status: Status) -> usize {
        self.cases.iter().filter(|case| case.status == status).count()
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> String {
        format!("{:#}", self.to_value())
    }

    pub(crate) fn to_value(&self) -> serde_json::Value {
        let mut value = serde_json::to_value(self).expect("every part of a report has a JSON form");
        value["exit_code"] = self.exit_code().into();
        value
    }

    /// Judges the free runs of each folder together.
    pub(crate) fn judge_free_runs(&mut self) {
        let mut groups = Vec::<FreeGroup>::new();
        for case in &self.cases {
            let (Some(free), Some(dtype)) = (&case.free, case.dtype) else { continue };
            if !free.gate || free.outcome == FreeOutcome::NotApplicable {
                continue;
            }
            let folder = case.path.parent().unwrap_or(Path::new(""));
            let known = groups.iter().position(|group| group.folder == folder && group.dtype == dtype);
            let index = known.unwrap_or_else(|| {
                let required = required_share(dtype);
                groups.push(FreeGroup { folder: folder.to_owned(), dtype, runs: 0, equal: 0, required, passed: true });
                groups.len() - 1
            });
            groups[index].runs += 1;
            groups[index].equal += usize::from(free.outcome == FreeOutcome::Equal);
        }
        for group in &mut groups {
            group.passed = group.equal as f64 >= group.required * group.runs as f64;
        }
        self.free = groups;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(status: Status) -> CaseReport {
        CaseReport { error: None, ..CaseReport::stopped(Path::new("folder/case.json"), status, String::new()) }
    }

    fn free(outcome: FreeOutcome) -> CaseReport {
        let free = FreeRun { outcome, gate: true, detail: String::new() };
        CaseReport { free: Some(free), dtype: Some(Precision::F32), ..case(Status::Passed) }
    }

    #[test]
    fn the_exit_code_is_that_of_the_worst_case() {
        let code = |statuses: &[Status]| {
            Report { cases: statuses.iter().map(|status| case(*status)).collect(), ..Report::default() }.exit_code()
        };
        assert_eq!(code(&[Status::Passed, Status::Passed]), 0);
        assert_eq!(code(&[Status::Passed, Status::Failed]), 1);
        assert_eq!(code(&[Status::Unreadable, Status::Failed, Status::Passed]), 2);
        assert_eq!(code(&[]), 2, "nothing was checked");
    }

    #[test]
    fn free_runs_are_judged_by_their_share() {
        let mut cases: Vec<_> = (0..19).map(|_| free(FreeOutcome::Equal)).collect();
        cases.push(free(FreeOutcome::Differs));
        cases.push(free(FreeOutcome::NotApplicable));
        let mut report = Report { cases, ..Report::default() };
        report.judge_free_runs();
        assert_eq!((report.free[0].equal, report.free[0].runs, report.exit_code()), (19, 20, 0));
        report.cases.push(free(FreeOutcome::Differs));
        report.judge_free_runs();
        assert_eq!(report.exit_code(), 1);
    }

    #[test]
    fn json_keeps_what_is_not_finite() {
        let mut case = case(Status::Failed);
        let mut row = Row::new("x", "out", "f32");
        row.used = Some(f64::INFINITY);
        case.rows.push(row);
        let text = Report { cases: vec![case], ..Report::default() }.to_json();
        let value: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        assert_eq!(value["cases"][0]["rows"][0]["used"], "inf");
        assert_eq!(value["exit_code"], 1);
    }
}

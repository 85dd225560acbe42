//! Two backends beside each other: how far each is from upstream, and where they were judged differently.

use std::{collections::BTreeMap, fmt::Write};

use music3::Precision;

use crate::{
    kind::CaseKind,
    report::{CaseReport, Report, Status},
    row::{Row, Verdict},
    summary::{Summary, render_share},
};

/// A backend and what cases found out on it.
#[derive(Debug, Clone, Copy)]
pub struct Arm<'a> {
    /// What the backend is called.
    pub name: &'a str,
    /// What was found out.
    pub report: &'a Report,
}

impl Arm<'_> {
    /// Returns its report as JSON, with the backend's name.
    fn to_value(self) -> serde_json::Value {
        let mut value = self.report.to_value();
        value["backend"] = self.name.into();
        value
    }

    fn case(&self, case: &CaseReport) -> Option<&CaseReport> {
        self.report.cases.iter().find(|other| other.path == case.path)
    }
}

/// Returns both reports as one JSON object, `{"backends": […]}`.
pub fn beside_json(arms: [Arm<'_>; 2]) -> String {
    format!("{:#}", serde_json::json!({ "backends": arms.map(Arm::to_value) }))
}

/// Returns a Markdown table with a row per component and precision and, for each backend, how many cases it failed, the
/// share of values equal to the bit, the largest mean and the largest single difference from upstream of any output, and
/// how much of its bound the worst output uses. Below it stands every output that the backends were judged differently in.
///
/// Cases that were run on one of them only are left out.
pub fn render_beside(arms: [Arm<'_>; 2]) -> String {
    let [first, second] = arms;
    let both: Vec<[&CaseReport; 2]> =
        first.report.cases.iter().filter_map(|case| Some([case, second.case(case)?])).collect();
    let mut rows = BTreeMap::<(CaseKind, String), [Column; 2]>::new();
    for pair in &both {
        let Some(kind) = pair[0].component else { continue };
        let precision = pair[0].precision.as_ref().map(Precision::to_string).unwrap_or_default();
        let columns = rows.entry((kind, precision)).or_default();
        for (column, case) in columns.iter_mut().zip(pair) {
            column.add(case);
        }
    }
    let [a, b] = arms.map(|arm| arm.name);
    let head = |name: &str| format!("{name}: failed | identical | mean \\|d\\| ≤ | max \\|d\\| ≤ | of the bound");
    let mut text = format!("| component | precision | cases | {} | {} |\n{}|\n", head(a), head(b), "|---".repeat(13));
    for ((kind, precision), columns) in rows {
        let [first, second] = columns.each_ref().map(Column::render);
        line(&mut text, &format!("| {} | {precision} | {} | {first} | {second} |", kind.name(), columns[0].cases));
    }
    line(&mut text, "");
    let differences: Vec<String> = both.iter().flat_map(|pair| differences(*pair, [a, b])).collect();
    match differences.len() {
        0 => line(&mut text, &format!("{a} and {b} were judged alike in all {} cases", both.len())),
        count => line(&mut text, &format!("{a} and {b} were judged differently in {count} outputs:")),
    }
    differences.iter().for_each(|difference| line(&mut text, &format!("  {difference}")));
    text
}

/// What all outputs of one component, precision and backend have in common.
#[derive(Default)]
struct Column {
    cases: usize,
    failed: usize,
    summary: Summary,
}

impl Column {
    fn add(&mut self, case: &CaseReport) {
        self.cases += 1;
        self.failed += usize::from(case.status != Status::Passed);
        case.rows.iter().for_each(|row| self.summary.add(row));
    }

    fn render(&self) -> String {
        let failed = if self.failed == 0 { "0".to_owned() } else { format!("**{}**", self.failed) };
        let Summary { mean, max, used, .. } = self.summary;
        let identical = render_share(self.summary.identical_share());
        format!("{failed} | {identical} | {mean:.2e} | {max:.2e} | {:.1} %", 100.0 * used)
    }
}

/// Returns the outputs of a case that one backend passed and the other did not.
fn differences(cases: [&CaseReport; 2], names: [&str; 2]) -> Vec<String> {
    let path = cases[0].path.display();
    if cases[0].error != cases[1].error {
        let said = |index: usize| cases[index].error.as_deref().unwrap_or("computed");
        return vec![format!("{path}: {}: {}; {}: {}", names[0], said(0), names[1], said(1))];
    }
    let counterpart =
        |row: &Row| cases[1].rows.iter().find(|other| (&other.name, other.reference) == (&row.name, row.reference));
    let pairs = cases[0].rows.iter().filter_map(|row| Some([row, counterpart(row)?]));
    let differently = pairs.filter(|pair| (pair[0].verdict == Verdict::Failed) != (pair[1].verdict == Verdict::Failed));
    differently
        .map(|pair| {
            format!("{path}: {}: {}: {}; {}: {}", pair[0].name, names[0], said(pair[0]), names[1], said(pair[1]))
        })
        .collect()
}

fn said(row: &Row) -> String {
    let verdict = if row.verdict == Verdict::Failed { "FAIL" } else { "pass" };
    let figures = row.figures.map(|figures| {
        format!(", {:.3} % identical, mean {:.2e}, max {:.2e}", 100.0 * figures.identical, figures.mean, figures.max)
    });
    let used = row.used.map(|used| format!(", {:.1} % of the bound", 100.0 * used));
    [verdict.to_owned(), figures.unwrap_or_default(), used.unwrap_or_default()].concat()
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::row::Shown;

    fn report(max: f64, verdict: Verdict, error: Option<&str>) -> Report {
        let mut case = CaseReport::stopped(Path::new("a.json"), Status::Passed, String::new());
        (case.component, case.precision) = (Some(CaseKind::Snake), Some(Precision::F32));
        case.error = error.map(str::to_owned);
        case.status = if verdict == Verdict::Failed { Status::Failed } else { Status::Passed };
        let mut row = Row::new("out", "math", "f32");
        row.figures = Some(Shown { values: 10, identical: 0.5, mean: max / 2.0, max, ulp: 1 });
        (row.used, row.verdict) = (Some(max), verdict);
        case.rows = vec![row];
        Report { cases: vec![case], ..Report::default() }
    }

    fn rendered(first: &Report, second: &Report) -> String {
        render_beside([Arm { name: "one", report: first }, Arm { name: "two", report: second }])
    }

    #[test]
    fn each_backend_has_its_own_columns() {
        let text = rendered(&report(0.25, Verdict::Passed, None), &report(0.5, Verdict::Passed, None));
        let row = "| snake | f32 | 1 | 0 | 50.000 % | 1.25e-1 | 2.50e-1 | 25.0 % | 0 | 50.000 % | 2.50e-1 | 5.00e-1 | 50.0 % |";
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2..], [row, "", "one and two were judged alike in all 1 cases"]);
        assert_eq!(lines[0].matches('|').count(), lines[1].matches('|').count() + 8, "{}", lines[0]);
        assert_eq!(lines[1].matches('|').count(), row.matches('|').count());
    }

    #[test]
    fn names_what_only_one_of_them_passed() {
        let text = rendered(&report(0.25, Verdict::Passed, None), &report(1.5, Verdict::Failed, None));
        assert!(text.contains("| **1** | 50.000 % |"), "{text}");
        assert!(text.contains("judged differently in 1 outputs:\n  a.json: out: one: pass, "), "{text}");
        assert!(
            text.contains("; two: FAIL, 50.000 % identical, mean 7.50e-1, max 1.50e0, 150.0 % of the bound"),
            "{text}"
        );
    }

    #[test]
    fn names_what_stopped_on_one_of_them() {
        let stopped = report(0.25, Verdict::Failed, Some("stopped: no"));
        let text = rendered(&report(0.25, Verdict::Passed, None), &stopped);
        assert!(text.contains("  a.json: one: computed; two: stopped: no\n"), "{text}");
    }

    #[test]
    fn json_holds_both() {
        let (first, second) = (report(0.25, Verdict::Passed, None), report(1.5, Verdict::Failed, None));
        let text = beside_json([Arm { name: "one", report: &first }, Arm { name: "two", report: &second }]);
        let value: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        assert_eq!((&value["backends"][0]["backend"], &value["backends"][1]["exit_code"]), (&"one".into(), &1.into()));
    }
}

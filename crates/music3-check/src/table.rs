//! The report as text.

use std::fmt::Write;

use crate::{
    report::{CaseReport, FreeOutcome, Report, Status},
    row::{Negative, Row, Shown, Verdict},
    summary::render_worst,
};

/// The width of the widest output name that is not cut off.
const NAME_WIDTH: usize = 34;

/// Returns one case as text: a line that says what became of it, then one per output.
pub fn render_case(case: &CaseReport) -> String {
    let mut text = String::new();
    let component = case.component.map_or("", |kind| kind.name());
    let precision = case.precision.map(|precision| precision.to_string()).unwrap_or_default();
    let head = [component, precision.as_str()].join(" ");
    let head = if head.trim().is_empty() { String::new() } else { format!("{}, ", head.trim()) };
    let about = format!("{head}{:.1} s", case.seconds);
    line(&mut text, &format!("{} {} ({about})", mark(case.status), case.path.display()));
    if let Some(error) = &case.error {
        line(&mut text, &format!("  {error}"));
    }
    if !case.rows.is_empty() {
        let head =
            ["output", "values", "identical", "mean |d|", "max |d|", "ulp", "control: identical, mean, max, ulp"];
        let [name, values, identical, mean, max, ulp, control] = head;
        let columns = format!("{name:NAME_WIDTH$} {values:>8} {identical:>10} {mean:>9} {max:>9} {ulp:>6}   {control}");
        line(&mut text, &format!("  {columns}"));
    }
    case.rows.iter().for_each(|row| render_row(&mut text, row));
    if let Some(free) = &case.free {
        let outcome = match free.outcome {
            FreeOutcome::Equal => "codes equal",
            FreeOutcome::Differs => "codes differ",
            FreeOutcome::NotApplicable => "not applicable",
        };
        let judged =
            if free.gate { "judged with its folder" } else { "reported only: upstream's own kernels part too" };
        line(&mut text, &format!("  free: {outcome} ({judged}){}", after(": ", &free.detail)));
    }
    case.notes.iter().for_each(|note| line(&mut text, &format!("  note: {note}")));
    text
}

/// Returns what stands below all cases: the worst of each component, free runs, files that are no cases, and the sums.
pub fn render_summary(report: &Report) -> String {
    let mut text = format!("\n{}\n", render_worst(report));
    for group in &report.free {
        let mark = if group.passed { "pass" } else { "FAIL" };
        line(
            &mut text,
            &format!(
                "{mark} free runs in {} ({}): {} of {} gave upstream's codes, {:.0} % must",
                group.folder.display(),
                group.dtype,
                group.equal,
                group.runs,
                100.0 * group.required
            ),
        );
    }
    for path in &report.not_cases {
        line(&mut text, &format!("not a case: {}", path.display()));
    }
    let [passed, failed, unreadable] =
        [Status::Passed, Status::Failed, Status::Unreadable].map(|status| report.count(status));
    if report.cases.is_empty() {
        line(&mut text, "there is no case here; goldens in a clone of the repository holds them");
    }
    line(&mut text, &format!("{passed} passed, {failed} failed, {unreadable} unreadable"));
    text
}

/// Returns the whole report as text.
pub fn render_table(report: &Report) -> String {
    let cases: String = report.cases.iter().map(render_case).collect();
    cases + &render_summary(report)
}

fn render_row(text: &mut String, row: &Row) {
    let name = match row.name.chars().count() {
        count if count > NAME_WIDTH => row.name.chars().take(NAME_WIDTH - 1).chain(['…']).collect(),
        _ => row.name.clone(),
    };
    let figures = row.figures.map(columns).unwrap_or_default();
    let control = row.control.map(|Shown { identical, mean, max, ulp, .. }| {
        format!("{:.3} %, {mean:.2e}, {max:.2e}, {ulp}", 100.0 * identical)
    });
    let control = control.unwrap_or_else(|| "-".to_owned());
    let verdict = match row.verdict {
        Verdict::Passed => "pass",
        Verdict::Failed => "FAIL",
        Verdict::Pooled => "pooled",
        Verdict::Reported => "reported",
    };
    line(text, &format!("  {name:NAME_WIDTH$} {figures:46}   {control:36} {verdict}{}", used(row)));
    if row.verdict == Verdict::Failed
        && let Some(bound) = &row.bound
    {
        line(text, &format!("      bound: {bound} (against {})", row.reference));
    }
    if row.verdict == Verdict::Failed
        && let Some(worst) = &row.worst
    {
        line(text, &format!("      worst: {} is {}, upstream {}", worst.place, worst.ours, worst.upstream));
    }
    row.reasons.iter().for_each(|reason| line(text, &format!("      {reason}")));
}

fn used(row: &Row) -> String {
    let negative = match row.negative_control {
        None => "",
        Some(Negative::Refused) => ", f32 form refused",
        Some(Negative::Accepted) => ", f32 form NOT refused",
        Some(Negative::NothingToRefuse) => ", f32 form is equal",
    };
    row.used.map(|used| format!(" ({:.1} % of the bound{negative})", 100.0 * used)).unwrap_or_default()
}

fn columns(shown: Shown) -> String {
    let Shown { values, identical, mean, max, ulp } = shown;
    format!("{values:>8} {:>8.3} % {mean:>9.2e} {max:>9.2e} {ulp:>6}", 100.0 * identical)
}

fn mark(status: Status) -> &'static str {
    match status {
        Status::Passed => "pass",
        Status::Failed => "FAIL",
        Status::Unreadable => "ERROR",
    }
}

fn after(separator: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{separator}{text}") }
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", line.trim_end());
}

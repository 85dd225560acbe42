//! The worst of each component: a table short enough to read and to keep in a document.

use std::{collections::BTreeMap, fmt::Write};

use music3::Precision;

use crate::{
    kind::CaseKind,
    report::{Report, Status},
    row::{Negative, Row, Verdict},
};

/// What all outputs of one component and precision have in common.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Summary {
    cases: usize,
    failed: usize,
    pub(crate) values: usize,
    identical: f64,
    pub(crate) mean: f64,
    pub(crate) max: f64,
    pub(crate) used: f64,
    controls: usize,
    control_identical: f64,
    pub(crate) control_mean: f64,
    pub(crate) control_max: f64,
    refused: usize,
}

impl Summary {
    /// Returns the share equal to the bit; none where nothing was compared.
    pub(crate) fn identical_share(&self) -> Option<f64> {
        (self.values > 0).then(|| self.identical / self.values as f64)
    }

    /// Returns the same for upstream's own other attention kernel.
    pub(crate) fn control_identical_share(&self) -> Option<f64> {
        (self.controls > 0).then(|| self.control_identical / self.controls as f64)
    }

    pub(crate) fn add(&mut self, row: &Row) {
        // A pooled output is in its pool's row.
        if row.verdict == Verdict::Pooled {
            return;
        }
        if let Some(figures) = row.figures {
            self.values += figures.values;
            self.identical += figures.identical * figures.values as f64;
            self.mean = self.mean.max(figures.mean);
            self.max = self.max.max(figures.max);
        }
        self.used = self.used.max(row.used.unwrap_or(0.0));
        if let (Some(figures), Some(control)) = (row.figures, row.control) {
            self.controls += figures.values;
            self.control_identical += control.identical * figures.values as f64;
            self.control_mean = self.control_mean.max(control.mean);
            self.control_max = self.control_max.max(control.max);
        }
        self.refused += usize::from(row.negative_control == Some(Negative::Refused));
    }
}

/// Returns a Markdown table with a row per component and precision: values compared, the share equal to the bit, the
/// largest mean and the largest single difference of any output, how much of its bound the worst output uses, the same
/// for upstream's own other attention kernel, and how many outputs of the f32 form the gates refused.
pub fn render_worst(report: &Report) -> String {
    let mut rows = BTreeMap::<(CaseKind, String), Summary>::new();
    for case in &report.cases {
        let Some(kind) = case.component else { continue };
        let precision = case.precision.as_ref().map(Precision::to_string).unwrap_or_default();
        let summary = rows.entry((kind, precision)).or_default();
        summary.cases += 1;
        summary.failed += usize::from(case.status != Status::Passed);
        case.rows.iter().for_each(|row| summary.add(row));
    }
    let mut text = String::from(
        "| component | precision | cases | values | identical | mean \\|d\\| ≤ | max \\|d\\| ≤ | of the bound | control: identical, mean, max | f32 form refused |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for ((kind, precision), summary) in rows {
        let cases = match summary.failed {
            0 => summary.cases.to_string(),
            failed => format!("{}, **{failed} failed**", summary.cases),
        };
        let control = render_control(summary.control_identical_share(), (summary.control_mean, summary.control_max));
        let refused = if summary.refused == 0 { "–".to_owned() } else { format!("{} outputs", summary.refused) };
        let identical = render_share(summary.identical_share());
        let Summary { values, mean, max, used, .. } = summary;
        let name = kind.name();
        let used = 100.0 * used;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| {name} | {precision} | {cases} | {values} | {identical} | {mean:.1e} | {max:.1e} | {used:.1} % | {control} | {refused} |"
        );
    }
    text
}

/// Returns a share in percent, or a dash.
pub(crate) fn render_share(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.3} %", 100.0 * share))
}

/// Returns the figures of upstream's own other attention kernel, or a dash.
pub(crate) fn render_control(identical: Option<f64>, (mean, max): (f64, f64)) -> String {
    match identical {
        None => "–".to_owned(),
        identical => format!("{}, {mean:.1e}, {max:.1e}", render_share(identical)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{report::CaseReport, row::Shown};

    fn row(name: &str, identical: f64, max: f64) -> Row {
        let mut row = Row::new(name, "out", "f32");
        row.figures = Some(Shown { values: 10, identical, mean: max / 2.0, max, ulp: 1 });
        row.used = Some(max);
        row
    }

    #[test]
    fn keeps_the_worst_of_each_and_leaves_out_what_is_pooled() {
        let mut case = CaseReport::stopped(Path::new("a.json"), Status::Failed, String::new());
        (case.component, case.precision) = (Some(CaseKind::Snake), Some(Precision::F32));
        case.rows = vec![row("a", 1.0, 0.25), row("b", 0.5, 0.5)];
        let mut pooled = row("c", 0.0, 9.0);
        pooled.verdict = Verdict::Pooled;
        case.rows.push(pooled);
        let table = render_worst(&Report { cases: vec![case], ..Report::default() });
        let last = table.lines().last().expect("a row");
        assert_eq!(last, "| snake | f32 | 1, **1 failed** | 20 | 75.000 % | 2.5e-1 | 5.0e-1 | 50.0 % | – | – |");
    }
}

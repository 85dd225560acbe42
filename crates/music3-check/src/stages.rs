//! A whole run stage by stage: where a port and upstream part, and by how much.

use std::{collections::BTreeMap, fmt::Write};

use serde::Serialize;

use crate::{
    report::CaseReport,
    row::{Row, Verdict},
    summary::{Summary, render_control, render_share},
};

/// A stage of a run, in the order that a song goes through them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is the component of the same name, or says what it holds")]
pub enum RunStage {
    /// Token ids, windows and times, which are known before the model computes; and small outputs, judged together.
    Plan,
    LanguageModel,
    /// The frame hiddens as well, seven parts of eight of which are its own.
    DepthDecoder,
    ConditionEncoder,
    Transformer,
    Vocoder,
}

/// What all outputs of a stage have in common.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageFigures {
    /// The stage.
    pub stage: RunStage,
    /// How many outputs it has.
    pub outputs: usize,
    /// How many of them failed.
    pub failed: usize,
    /// How many were judged; the rest was only reported.
    pub judged: usize,
    /// How many values were compared.
    pub values: usize,
    /// The share equal to the bit.
    pub identical: Option<f64>,
    /// The largest mean |d| of any output.
    pub mean: f64,
    /// The largest |d|.
    pub max: f64,
    /// How much of its bound the worst output uses.
    pub used: f64,
    /// The same share for upstream's own other attention kernel.
    pub control_identical: Option<f64>,
    /// The same mean.
    pub control_mean: f64,
    /// The same largest |d|.
    pub control_max: f64,
}

impl RunStage {
    const ALL: [(Self, &'static str, &'static [&'static str]); 6] = [
        (Self::LanguageModel, "language model", &["lm_", "guided_"]),
        (Self::DepthDecoder, "depth decoder", &["depth_", "frame_hiddens"]),
        (Self::ConditionEncoder, "condition encoder", &["condition_"]),
        (Self::Transformer, "transformer", &["velocity_", "latent"]),
        (Self::Vocoder, "vocoder", &["waveform_", "audios"]),
        // Last: what no other stage has.
        (Self::Plan, "prompt, plan, small", &[""]),
    ];

    /// Returns the stage that an output of a capture belongs to.
    fn of(name: &str) -> Self {
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        Self::ALL.iter().find(|(_, _, prefixes)| starts(prefixes)).map_or(Self::Plan, |(stage, _, _)| *stage)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(stage, _, _)| *stage == self).map_or("", |(_, name, _)| name)
    }
}

/// Returns the stages of a replayed capture that it holds outputs of.
pub fn stages(case: &CaseReport) -> Vec<StageFigures> {
    let mut rows = BTreeMap::<RunStage, Vec<&Row>>::new();
    for row in case.rows.iter().filter(|row| row.verdict != Verdict::Pooled) {
        rows.entry(RunStage::of(&row.name)).or_default().push(row);
    }
    rows.into_iter().map(|(stage, rows)| figures(stage, &rows)).collect()
}

/// Returns the report with one row per stage where something failed: the one that is furthest outside its bound.
pub fn worst_failures(case: &CaseReport) -> CaseReport {
    let mut worst = BTreeMap::<RunStage, &Row>::new();
    for row in case.rows.iter().filter(|row| row.verdict == Verdict::Failed) {
        let used = |row: &Row| row.used.unwrap_or(f64::INFINITY);
        let kept = worst.entry(RunStage::of(&row.name)).or_insert(row);
        if used(row) > used(kept) {
            *kept = row;
        }
    }
    CaseReport { rows: worst.into_values().cloned().collect(), ..case.clone() }
}

fn figures(stage: RunStage, rows: &[&Row]) -> StageFigures {
    let mut summary = Summary::default();
    rows.iter().for_each(|row| summary.add(row));
    let count = |wanted: fn(Verdict) -> bool| rows.iter().filter(|row| wanted(row.verdict)).count();
    StageFigures {
        stage,
        outputs: rows.len(),
        failed: count(|verdict| verdict == Verdict::Failed),
        judged: count(|verdict| verdict != Verdict::Reported),
        values: summary.values,
        identical: summary.identical_share(),
        mean: summary.mean,
        max: summary.max,
        used: summary.used,
        control_identical: summary.control_identical_share(),
        control_mean: summary.control_mean,
        control_max: summary.control_max,
    }
}

/// Returns the stages as a table: values compared, the share equal to the bit, the largest mean and the largest single
/// difference of any output, and beside them the same for upstream's own other attention kernel.
pub fn render_stages(stages: &[StageFigures]) -> String {
    let head = ["stage", "outputs", "values", "identical", "mean |d|", "max |d|", "control: identical, mean, max"];
    let [stage, outputs, values, identical, mean, max, control] = head;
    let mut text =
        format!("{stage:20} {outputs:>7} {values:>10} {identical:>10} {mean:>9} {max:>9}   {control:30} verdict\n");
    for figures in stages {
        let StageFigures { outputs, values, mean, max, failed, judged, .. } = figures;
        let name = figures.stage.name();
        let identical = render_share(figures.identical);
        let control = render_control(figures.control_identical, (figures.control_mean, figures.control_max));
        let verdict = match (failed, judged) {
            (0, 0) => "reported".to_owned(),
            (0, _) => format!("pass ({:.1} % of the bound)", 100.0 * figures.used),
            (failed, _) => format!("FAIL: {failed} of {outputs} ({:.1} % of the bound)", 100.0 * figures.used),
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{name:20} {outputs:>7} {values:>10} {identical:>10} {mean:>9.2e} {max:>9.2e}   {control:30} {verdict}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{report::Status, row::Shown};

    fn row(name: &str, max: f64) -> Row {
        let mut row = Row::new(name, "math", "f32");
        row.figures = Some(Shown { values: 4, identical: 0.5, mean: max / 2.0, max, ulp: 1 });
        row
    }

    #[test]
    fn every_output_of_a_capture_has_its_stage() {
        let expected = [
            ("text_ids", RunStage::Plan),
            ("sigmas", RunStage::Plan),
            ("lm_last_hidden", RunStage::LanguageModel),
            ("guided_vals", RunStage::LanguageModel),
            ("depth_guided", RunStage::DepthDecoder),
            ("condition_raw_1", RunStage::ConditionEncoder),
            ("latent_chunk_0", RunStage::Transformer),
            ("latents_0_29", RunStage::Transformer),
            ("waveform_0", RunStage::Vocoder),
            ("audios (free)", RunStage::Vocoder),
        ];
        for (name, stage) in expected {
            assert_eq!(RunStage::of(name), stage, "{name}");
        }
    }

    #[test]
    fn a_stage_shows_its_worst_output_and_how_many_failed() {
        let mut case = CaseReport::stopped(Path::new("a.json"), Status::Failed, String::new());
        case.rows = vec![row("velocity_0_0", 1.0), row("velocity_0_1", 3.0).failed("too much"), row("audios", 2.0)];
        let found = stages(&case);
        assert_eq!(found.len(), 2);
        let transformer = &found[0];
        assert_eq!((transformer.outputs, transformer.failed, transformer.values), (2, 1, 8));
        assert_eq!((transformer.max, transformer.identical), (3.0, Some(0.5)));
        let text = render_stages(&found);
        assert!(text.lines().nth(1).is_some_and(|line| line.contains("FAIL: 1 of 2")), "{text}");
        case.rows.push(Row { used: Some(2.0), ..row("latents_0_0", 1.0).failed("more") });
        case.rows[1].used = Some(1.5);
        let failures: Vec<String> = worst_failures(&case).rows.into_iter().map(|row| row.name).collect();
        assert_eq!(failures, ["latents_0_0"]);
    }
}

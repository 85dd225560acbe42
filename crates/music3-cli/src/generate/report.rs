//! What was made, for people and as JSON.

use std::time::Duration;

use music3::{
    FinishReason, Precision, Stage,
    audio::{Levels, levels},
    demo::UpstreamCodes,
    rng::Rng,
};
use serde::Serialize;

use super::{
    again::Sameness,
    making::Made,
    order::{Order, Source},
};
use crate::{backends::Selected, figures};

/// What was made. Levels of silence are `null` in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    path: String,
    seconds: f64,
    samples: usize,
    sample_rate_hz: u32,
    channels: usize,
    frames: usize,
    finish: FinishReason,
    #[serde(skip)]
    finish_in_words: String,
    prompt_tokens: Option<usize>,
    peak_dbfs: f64,
    rms_dbfs: f64,
    clipped_samples: usize,
    stages: Vec<StageReport>,
    elapsed_seconds: f64,
    /// Seconds of work per second of music.
    realtime_factor: f64,
    backend: &'static str,
    precision: Precision,
    /// `kernels` or `plain`.
    compute_path: String,
    /// How f32 products were computed.
    matmul: String,
    seed: u64,
    rng: Rng,
    steps: usize,
    max_seconds: f64,
    demo: bool,
    /// Where the recipe is, if one was written.
    recipe: Option<String>,
    /// Where the codes are, if they were kept.
    codes: Option<String>,
    #[serde(flatten)]
    verdicts: Verdicts,
}

/// What the song was held against.
#[derive(Debug, Serialize)]
pub(crate) struct Verdicts {
    /// Whether it is the song of the recipe it was made from.
    pub(crate) again: Option<Sameness>,
    /// Whether its codes are upstream's.
    #[serde(serialize_with = "upstream_in_json")]
    pub(crate) upstream: Option<UpstreamCodes>,
}

/// `equal`, or the first frame that differs.
fn upstream_in_json<S: serde::Serializer>(codes: &Option<UpstreamCodes>, serializer: S) -> Result<S::Ok, S::Error> {
    match codes {
        None => serializer.serialize_none(),
        Some(UpstreamCodes::Equal { .. }) => serializer.serialize_str("equal"),
        Some(UpstreamCodes::DifferFrom { frame }) => serializer.serialize_u64(*frame as u64),
    }
}

impl Verdicts {
    /// Returns a line for each.
    fn lines(&self) -> Vec<String> {
        let again = self.again.map(|again| format!("  again  {}", again.in_words()));
        let upstream = self.upstream.map(|codes| match codes {
            UpstreamCodes::Equal { frames } => {
                format!("  check  the codes of all {frames} frames were compared and equal upstream's for this seed")
            }
            UpstreamCodes::DifferFrom { frame } => {
                format!("  check  the codes differ from upstream's for this seed, first in frame {frame}")
            }
        });
        again.into_iter().chain(upstream).collect()
    }
}

/// What a stage took.
#[derive(Debug, Serialize)]
struct StageReport {
    stage: Stage,
    load_seconds: f64,
    run_seconds: f64,
}

impl Report {
    /// Measures a song.
    pub(crate) fn new(order: &Order, backend: Selected, made: &Made, verdicts: Verdicts) -> Self {
        let Made { song, elapsed, .. } = made;
        let shown = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let Levels { peak_dbfs, rms_dbfs, clipped_samples, .. } = levels(&song.audio);
        let seconds = song.audio.duration_secs();
        let stages = song.timings.iter().map(|timing| StageReport {
            stage: timing.stage,
            load_seconds: timing.load.as_secs_f64(),
            run_seconds: timing.run.as_secs_f64(),
        });
        Self {
            path: order.files.output.display().to_string(),
            seconds,
            samples: song.audio.samples(),
            sample_rate_hz: song.audio.sample_rate_hz(),
            channels: song.audio.channels().len(),
            frames: song.codes.len(),
            finish: song.finish,
            finish_in_words: song.finish.to_string(),
            prompt_tokens: song.prompt_tokens,
            peak_dbfs,
            rms_dbfs,
            clipped_samples,
            stages: stages.collect(),
            elapsed_seconds: elapsed.as_secs_f64(),
            realtime_factor: elapsed.as_secs_f64() / seconds,
            backend: backend.name(),
            precision: order.precision,
            compute_path: made.compute_path.to_string(),
            matmul: made.matmul.to_string(),
            seed: order.request.seed,
            rng: order.request.rng,
            steps: order.request.steps,
            max_seconds: order.request.max_seconds,
            demo: matches!(order.checkpoint, Source::Demo(_)),
            recipe: shown(&order.files.recipe),
            codes: shown(&order.files.codes),
            verdicts,
        }
    }

    /// Returns the report for people.
    pub(crate) fn summary(&self) -> String {
        let Self { path, seconds, frames, finish_in_words, clipped_samples, realtime_factor, .. } = self;
        let time = |seconds| figures::duration(Duration::from_secs_f64(seconds));
        let loading: f64 = self.stages.iter().map(|stage| stage.load_seconds).sum();
        let whole = |stage: &StageReport| time(stage.load_seconds + stage.run_seconds);
        let stages: Vec<String> = self.stages.iter().map(|stage| format!("{} {}", stage.stage, whole(stage))).collect();
        let (peak, rms) = (figures::level(self.peak_dbfs), figures::level(self.rms_dbfs));
        let lines = [
            format!("{path}: {seconds:.2} s of stereo at {} Hz", self.sample_rate_hz),
            format!("  end    {finish_in_words}, after {frames} frames"),
            format!("  level  peak {peak}, RMS {rms}, {clipped_samples} samples clipped"),
            format!("  time   {}", stages.join(", ")),
            format!("  in all {}, of which {} loading", time(self.elapsed_seconds), time(loading)),
            format!(
                "  speed  realtime factor {realtime_factor:.2} (seconds of work per second of music), on {} in {}",
                self.backend, self.precision
            ),
        ];
        lines.into_iter().chain(self.verdicts.lines()).collect::<Vec<_>>().join("\n")
    }

    /// Returns the report for programs.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("every part of a report has a JSON form")
    }
}

//! What was made, for people and as JSON.

use std::time::Duration;

use music3::{
    ComputePath, FinishReason, Matmul, Precision, Song, Stage,
    audio::{Levels, levels},
};
use serde::Serialize;

use super::order::{Order, Source};
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
    prompt_tokens: usize,
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
    steps: usize,
    max_seconds: f64,
    demo: bool,
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
    pub(crate) fn new(
        order: &Order,
        (backend, compute_path): (Selected, ComputePath),
        song: &Song,
        elapsed: Duration,
    ) -> Self {
        let Levels { peak_dbfs, rms_dbfs, clipped_samples, .. } = levels(&song.audio);
        let seconds = song.audio.duration_secs();
        let stages = song.timings.iter().map(|timing| StageReport {
            stage: timing.stage,
            load_seconds: timing.load.as_secs_f64(),
            run_seconds: timing.run.as_secs_f64(),
        });
        Self {
            path: order.output.display().to_string(),
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
            compute_path: compute_path.to_string(),
            matmul: Matmul::from(order.products.matmul).to_string(),
            seed: order.request.seed,
            steps: order.request.steps,
            max_seconds: order.request.max_seconds,
            demo: order.checkpoint == Source::Demo,
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
        [
            format!("{path}: {seconds:.2} s of stereo at {} Hz", self.sample_rate_hz),
            format!("  end    {finish_in_words}, after {frames} frames"),
            format!("  level  peak {peak}, RMS {rms}, {clipped_samples} samples clipped"),
            format!("  time   {}", stages.join(", ")),
            format!("  in all {}, of which {} loading", time(self.elapsed_seconds), time(loading)),
            format!(
                "  speed  realtime factor {realtime_factor:.2} (seconds of work per second of music), on {} in {}",
                self.backend, self.precision
            ),
        ]
        .join("\n")
    }

    /// Returns the report for programs.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("every part of a report has a JSON form")
    }
}

//! What is said before a model is loaded: where it runs, what it needs, how long it takes.

use std::{path::Path, time::Duration};

use burn::tensor::backend::Backend;
use music3::{
    ComputePath, Estimate, Music3, Speed,
    demo::{self, Demo},
    rng::Rng,
};
use music3_text::lyric_warnings;

use super::{
    hints::hints,
    order::{Order, Source},
};
use crate::{backends::Selected, failure::Failure, figures, terminal::say};

/// Arithmetic that any computer does within a minute; its speed is not measured for less.
const SHORT_FLOP: f64 = 3e11;

/// A time that is worth a line.
const WORTH_SAYING: Duration = Duration::from_secs(60);

/// The longest song there is.
const MAX_SECONDS: f64 = 360.0;

/// A time that calls for advice.
const LONG: Duration = Duration::from_secs(3600);

/// Speaks before the model is loaded.
pub(crate) struct Announcer<'a> {
    pub(crate) order: &'a Order,
    pub(crate) backend: Selected,
    pub(crate) memory_limit_bytes: Option<u64>,
}

impl Announcer<'_> {
    /// Says what is about to happen.
    ///
    /// # Errors
    /// The prompt is too long, the frames are another model's, or there is not enough memory.
    pub(crate) fn before_loading<B: Backend>(&self, music: &Music3<B>, fingerprint: &str) -> Result<(), Failure> {
        let request = &self.order.request;
        let (what, estimate) = match &self.order.frames {
            None => {
                let (tokens, seconds) =
                    (music.prompt(request)?.conditional.len(), request.max_seconds.min(MAX_SECONDS));
                (format!("prompt of {tokens} tokens, at most {seconds} s of music"), music.estimate(request)?)
            }
            Some(saved) => {
                saved.refuse_other_model(music.configs()).map_err(music3::SongError::from)?;
                let (frames, path) = (saved.count(), saved.path().display());
                (format!("{frames} frames from {path}"), music.estimate_rendering(saved, request.steps))
            }
        };
        if self.order.speaks() {
            self.warnings(fingerprint).into_iter().for_each(say);
            let (backend, precision, steps, seed) =
                (self.backend.name(), self.order.precision, request.steps, request.seed);
            let rng = match request.rng {
                Rng::Torch => String::new(),
                rng => format!(" of the {rng} generator"),
            };
            say(format_args!("backend {backend}, precision {precision}, {steps} steps, seed {seed}{rng}"));
            if !self.backend.is_on_cpu() {
                let path = music.scope(ComputePath::of::<B>);
                say(format_args!("path {path}, f32 products {}", music.options().matmul));
            }
            self.backend.first_run().into_iter().for_each(say);
            say(what);
            say(self.memory(&estimate));
        }
        music.refuse_what_needs_too_much(&estimate)?;
        if self.order.speaks() && self.backend.is_on_cpu() && estimate.flop() > SHORT_FLOP {
            let speed = Speed::measure::<B>(self.order.precision, music.device());
            tracing::info!(two_rows = speed.two_rows, many_rows = speed.many_rows, "operations per second");
            forecast(&estimate, &speed).into_iter().for_each(say);
        }
        Ok(())
    }

    /// Returns what may not be as the user thinks.
    fn warnings(&self, fingerprint: &str) -> Vec<String> {
        let mut warnings = Vec::new();
        match self.order.checkpoint {
            Source::Demo(Demo::Tunes) => warnings.push(knows_these_only()),
            Source::Demo(Demo::Random) => warnings.push(
                "demo model: its weights are random, so the song is noise; --model takes real weights".to_owned(),
            ),
            Source::Folder(_) => {}
        }
        let mut other_weights = |path: &Path, made: &str, of: &str| {
            if of != fingerprint {
                let path = path.display();
                warnings.push(format!("warning: {path}: {made} with other weights than these, so expect another song"));
            }
        };
        if let Some(again) = &self.order.again {
            other_weights(&again.path, "the song was made", &again.recipe.model.fingerprint);
        }
        match &self.order.frames {
            Some(saved) => other_weights(saved.path(), "the codes were drawn", &saved.origin().model),
            None => {
                let lyrics = &self.order.request.lyrics;
                if !lyrics.contains('\n') && Path::new(lyrics).is_file() {
                    warnings.push(format!(
                        "warning: the words are \"{lyrics}\", a file's name; --lyrics-file reads the file"
                    ));
                }
                warnings.extend(lyric_warnings(lyrics).iter().map(|warning| format!("warning: {warning}")));
                let max_seconds = self.order.request.max_seconds.min(MAX_SECONDS);
                warnings.extend(hints(lyrics, max_seconds));
            }
        }
        warnings
    }

    fn memory(&self, estimate: &Estimate) -> String {
        let (stage, bytes) = estimate.peak();
        let need = format!("about {} at its peak, in the {stage}", figures::bytes(bytes));
        let whose = if self.backend.is_on_cpu() { "memory" } else { "GPU memory" };
        match self.memory_limit_bytes {
            Some(limit) => format!("{whose}: {need}; {} may be used", figures::bytes(limit)),
            None => format!("{whose}: {need}"),
        }
    }
}

/// Says what the trained demo is, so that nobody expects of it what the published weights do.
fn knows_these_only() -> String {
    let titles: Vec<String> = demo::tunes().into_iter().map(|tune| tune.title).collect();
    format!(
        "demo model: it has learned {} tunes ({}) and nothing else; --model takes real weights",
        titles.len(),
        titles.join("; ")
    )
}

/// Returns what there is to say about the time, if it is long.
fn forecast(estimate: &Estimate, speed: &Speed) -> Vec<String> {
    let durations = estimate.durations(speed);
    let total = durations.iter().fold(Duration::ZERO, |sum, duration| sum.saturating_add(*duration));
    if total < WORTH_SAYING {
        return Vec::new();
    }
    let stages = estimate.stages.iter().zip(durations).filter(|(stage, _)| stage.flop > 0.0);
    let stages: Vec<String> =
        stages.map(|(stage, duration)| format!("{} {}", stage.stage, figures::duration(duration))).collect();
    let mut lines = vec![format!(
        "time: about {} of computing if the song is as long as it may be ({})",
        figures::duration(total),
        stages.join(", ")
    )];
    if total > LONG {
        lines.push(
            "a model of full size takes hours on a CPU: for less, lower --max-seconds or --steps, or use a build with \
             `--features cuda` on a computer with an NVIDIA GPU"
                .to_owned(),
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use music3::{Stage, StageEstimate};

    use super::*;

    #[test]
    fn says_hours_plainly_and_short_times_not_at_all() {
        let stage = |stage, flop| StageEstimate { stage, weight_bytes: 0, work_bytes: 0, flop };
        let estimate = Estimate {
            stages: [stage(Stage::Autoregressive, 1e12), stage(Stage::Flow, 4e15), stage(Stage::Vocoder, 1e14)],
        };
        assert!(forecast(&estimate, &Speed { two_rows: 1e12, many_rows: 1e15 }).is_empty());
        let lines = forecast(&estimate, &Speed { two_rows: 1e9, many_rows: 1e11 });
        assert_eq!(
            lines[0],
            "time: about 11.7 h of computing if the song is as long as it may be \
             (autoregressive stage 17 min, flow-matching stage 11.1 h, vocoder 17 min)"
        );
        assert!(lines[1].contains("takes hours on a CPU") && lines[1].contains("--max-seconds"));
    }
}

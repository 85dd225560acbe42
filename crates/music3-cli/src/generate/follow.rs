//! A run on the terminal: bars for whoever watches, now and then a line in a log.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use music3::Progress;
use music3_weights::Component;

use crate::{figures, interrupt::Interrupt, terminal::say};

/// A log gets a line no more often than this.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// The spinner shows that the program is alive during a long unit.
const TICK: Duration = Duration::from_millis(200);

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Display {
    /// Not at all.
    Nothing,
    /// As a line now and then.
    Lines,
    /// As bars.
    Bars,
}

/// Part of a run, as shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Loading(Component),
    Prompt,
    Frames,
    Latents,
    Samples,
}

/// Follows a run, and stops it when asked to.
pub(crate) struct Follow {
    display: Display,
    interrupt: Interrupt,
    phase: Option<Phase>,
    since: Instant,
    told: Instant,
    bar: ProgressBar,
}

/// How far a phase is.
#[derive(Debug, PartialEq)]
struct Point {
    phase: Phase,
    done: u64,
    total: u64,
    /// What is said beside count and rate.
    detail: String,
    /// The phase that begins now that this one has ended.
    next: Option<Phase>,
}

impl Follow {
    /// Returns a follower that shows nothing before the first event.
    pub(crate) fn new(display: Display, interrupt: Interrupt) -> Self {
        let now = Instant::now();
        Self { display, interrupt, phase: None, since: now, told: now, bar: ProgressBar::hidden() }
    }

    /// Shows an event; breaks if Ctrl-C was pressed.
    pub(crate) fn progress(&mut self, progress: Progress) -> ControlFlow<()> {
        tracing::debug!("{progress:?}");
        if let Some(point) = Point::of(progress) {
            if self.phase != Some(point.phase) {
                self.enter(point.phase);
            }
            self.show(&point);
            if let Some(next) = point.next {
                self.enter(next);
            }
        }
        if self.interrupt.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Removes what is shown.
    pub(crate) fn end(&mut self) {
        self.bar.finish_and_clear();
    }

    fn enter(&mut self, phase: Phase) {
        self.end();
        self.phase = Some(phase);
        self.since = Instant::now();
        if self.display == Display::Bars {
            self.bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            self.bar.set_style(style("{spinner} {prefix}"));
            self.bar.set_prefix(phase.label());
            self.bar.enable_steady_tick(TICK);
        }
    }

    fn show(&mut self, point: &Point) {
        let told = point.told(self.since.elapsed());
        match self.display {
            Display::Nothing => {}
            Display::Lines if self.told.elapsed() < BETWEEN_LINES => {}
            Display::Lines => {
                self.told = Instant::now();
                say(format_args!("{}: {told}", point.phase.label()));
            }
            Display::Bars => {
                if self.bar.length().is_none() {
                    self.bar.set_style(style("{spinner} {prefix} [{wide_bar}] {msg}"));
                    self.bar.set_length(point.total);
                }
                self.bar.set_message(told);
                self.bar.set_position(point.done);
            }
        }
    }
}

/// Rates below one need more digits.
fn digits(per_sec: f64) -> usize {
    if per_sec < 1.0 { 3 } else { 1 }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates are constant").progress_chars("=> ")
}

impl Phase {
    fn label(self) -> String {
        match self {
            Self::Loading(component) => format!("loading {component}"),
            Self::Prompt => "reading the prompt".to_owned(),
            Self::Frames => "frames".to_owned(),
            Self::Latents => "latents".to_owned(),
            Self::Samples => "samples".to_owned(),
        }
    }

    /// Returns what computes on a component once it is loaded, if it is the last one that this needs.
    fn after_loading(component: Component) -> Option<Self> {
        match component {
            Component::LanguageModel | Component::ConditionEncoder => None,
            Component::RvqDepthDecoder => Some(Self::Prompt),
            Component::Transformer => Some(Self::Latents),
            Component::Vocoder => Some(Self::Samples),
        }
    }
}

impl Point {
    fn of(progress: Progress) -> Option<Self> {
        let point = |phase, done: usize, total: usize, detail| {
            Some(Self { phase, done: done as u64, total: total as u64, detail, next: None })
        };
        match progress {
            Progress::Loading { component, bytes, total_bytes } => Some(Self {
                phase: Phase::Loading(component),
                done: bytes,
                total: total_bytes,
                detail: String::new(),
                next: Phase::after_loading(component).filter(|_| bytes == total_bytes),
            }),
            Progress::Prompt { tokens } => Some(Self {
                phase: Phase::Prompt,
                done: tokens as u64,
                total: tokens as u64,
                detail: String::new(),
                next: Some(Phase::Frames),
            }),
            Progress::Frame { frames, max_frames } => point(Phase::Frames, frames, max_frames, String::new()),
            Progress::Step { window, windows, step, steps } => {
                let detail = format!("window {} of {windows}, step {step} of {steps}, ", window + 1);
                point(Phase::Latents, window * steps + step, windows * steps, detail)
            }
            Progress::Vocoded { window, windows } => point(Phase::Samples, window, windows, String::new()),
            _ => None,
        }
    }

    /// Returns how far the phase is after `elapsed`, how fast it goes and how long it will take.
    fn told(&self, elapsed: Duration) -> String {
        let Self { phase, done, total, detail, .. } = self;
        let per_sec = *done as f64 / elapsed.as_secs_f64().max(1e-9);
        let left = Duration::try_from_secs_f64(total.saturating_sub(*done) as f64 / per_sec.max(1e-9))
            .unwrap_or(Duration::MAX);
        let left = figures::duration(left);
        match phase {
            Phase::Loading(_) => {
                format!("{} of {}, {}/s", figures::bytes(*done), figures::bytes(*total), figures::bytes(per_sec as u64))
            }
            Phase::Prompt => format!("{done} tokens"),
            // The model may end the song before its longest.
            Phase::Frames => format!("{done} of {total}, {per_sec:.*} frames/s, {left} left at most", digits(per_sec)),
            Phase::Latents => format!("{detail}{per_sec:.*} steps/s, {left} left", digits(per_sec)),
            Phase::Samples => format!("window {done} of {total}, {left} left"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(progress: Progress, secs: u64) -> String {
        Point::of(progress).expect("an event that is shown").told(Duration::from_secs(secs))
    }

    #[test]
    fn tells_rates_and_the_time_left() {
        let frame = Progress::Frame { frames: 30, max_frames: 100 };
        assert_eq!(told(frame, 10), "30 of 100, 3.0 frames/s, 23 s left at most");
        let step = Progress::Step { window: 1, windows: 3, step: 10, steps: 30 };
        assert_eq!(told(step, 80), "window 2 of 3, step 10 of 30, 0.500 steps/s, 2 min left");
        assert_eq!(told(Progress::Vocoded { window: 1, windows: 3 }, 4), "window 1 of 3, 8.0 s left");
    }

    #[test]
    fn computing_begins_when_the_last_component_of_a_stage_is_loaded() {
        let loading = |component, bytes| Progress::Loading { component, bytes, total_bytes: 9 };
        let next = |progress| Point::of(progress).expect("an event that is shown").next;
        assert_eq!(next(loading(Component::LanguageModel, 9)), None);
        assert_eq!(next(loading(Component::RvqDepthDecoder, 8)), None);
        assert_eq!(next(loading(Component::RvqDepthDecoder, 9)), Some(Phase::Prompt));
        assert_eq!(next(loading(Component::Transformer, 9)), Some(Phase::Latents));
        assert_eq!(next(Progress::Prompt { tokens: 5 }), Some(Phase::Frames));
    }

    #[test]
    fn stops_when_asked_to() {
        let mut follow = Follow::new(Display::Nothing, Interrupt::default());
        assert_eq!(follow.progress(Progress::Prompt { tokens: 5 }), ControlFlow::Continue(()));
        follow.interrupt.ask();
        assert_eq!(follow.progress(Progress::Frame { frames: 1, max_frames: 2 }), ControlFlow::Break(()));
    }
}

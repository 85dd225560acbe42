//! The loops: only they are timed, and each is waited for.

use std::time::Instant;

use burn::tensor::backend::Backend;
use serde::Serialize;

use super::statistics::{Line, Spread, loop_lengths};
use crate::{failure::Failure, interrupt::Interrupt};

/// What one call tells of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// What a song consisted of.
    pub(super) song: Option<SongOutcome>,
}

/// What a song consisted of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SongOutcome {
    pub(super) prompt_tokens: usize,
    pub(super) frames: usize,
    pub(super) audio_seconds: f64,
    pub(super) stages: Vec<StageTime>,
}

/// The time of one stage of a song, waited for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct StageTime {
    pub(super) stage: music3::Stage,
    pub(super) seconds: f64,
}

/// A call that is timed. It may enqueue its work and return.
pub(super) type Call<'a> = dyn FnMut() -> Result<Outcome, Failure> + 'a;

/// How often a call runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    /// Calls that are waited for one by one; with none, the first call is the one that counts.
    pub(super) repeat: usize,
    pub(super) warmup: usize,
    /// Whether loops of several calls are timed too.
    pub(super) in_loops: bool,
}

/// What was measured, in seconds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Timings {
    /// The first call, which compiles and tunes what was not compiled before.
    pub(super) first_call_seconds: f64,
    /// Length and time of each loop, waited for at its end only.
    pub(super) loops: Vec<Loop>,
    /// Over the loops: seconds per call, and seconds per loop. A single loop has none.
    pub(super) line: Option<Line>,
    /// Calls that were waited for one by one.
    pub(super) per_call_seconds: Spread,
}

/// A loop.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Loop {
    pub(super) calls: usize,
    pub(super) seconds: f64,
}

/// Times a call; also returns what the last one told.
pub(super) fn measure<B: Backend>(
    device: &B::Device,
    counts: Counts,
    interrupt: &Interrupt,
    call: &mut Call<'_>,
) -> Result<(Timings, Outcome), Failure> {
    let mut last = Outcome::default();
    let mut timed = |calls: usize| -> Result<f64, Failure> {
        finish::<B>(device)?;
        let start = Instant::now();
        for _ in 0..calls {
            last = call()?;
        }
        finish::<B>(device)?;
        let seconds = start.elapsed().as_secs_f64();
        if interrupt.asked() {
            return Err(Failure::Interrupted("stopped between two loops; nothing is reported".to_owned()));
        }
        Ok(seconds)
    };
    let first_call_seconds = timed(1)?;
    for _ in 0..counts.warmup {
        timed(1)?;
    }
    let mut loops = Vec::new();
    if counts.in_loops {
        for calls in loop_lengths(counts.repeat) {
            loops.push(Loop { calls, seconds: timed(calls)? });
        }
    }
    // A loop of one call was waited for by itself already.
    let mut singles: Vec<f64> = loops.iter().filter(|_| counts.repeat == 1).map(|timed| timed.seconds).collect();
    while singles.len() < counts.repeat {
        singles.push(timed(1)?);
    }
    let points: Vec<(f64, f64)> = loops.iter().map(|timed| (timed.calls as f64, timed.seconds)).collect();
    let per_call_seconds = Spread::of(&singles).unwrap_or(Spread {
        median: first_call_seconds,
        min: first_call_seconds,
        max: first_call_seconds,
    });
    Ok((Timings { first_call_seconds, loops, line: Line::through(&points), per_call_seconds }, last))
}

/// Waits until the device has done everything; what failed on the way is an error.
pub(super) fn finish<B: Backend>(device: &B::Device) -> Result<(), Failure> {
    B::sync(device).map_err(Failure::run)?;
    match music3_nn::take_device_error() {
        Some(message) => Err(Failure::run(format!("the device failed: {message}"))),
        None => Ok(()),
    }
}

impl Timings {
    /// Returns what a call costs: the slope, or the median where there is none or where noise turned it around.
    pub(super) fn seconds_per_call(&self) -> f64 {
        self.line.map(|line| line.slope).filter(|slope| *slope > 0.0).unwrap_or(self.per_call_seconds.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_costs_the_slope_unless_noise_turned_it_around() {
        let per_call_seconds = Spread { median: 5.0, min: 4.0, max: 6.0 };
        let timings = |line| Timings { first_call_seconds: 9.0, loops: Vec::new(), line, per_call_seconds };
        assert_eq!(timings(Some(Line { slope: 3.0, intercept: 2.0 })).seconds_per_call(), 3.0);
        assert_eq!(timings(Some(Line { slope: -0.1, intercept: 2.0 })).seconds_per_call(), 5.0);
        assert_eq!(timings(None).seconds_per_call(), 5.0);
    }
}

//! What was measured, for people and as JSON.

use music3::{DeviceReport, Precision};
use serde::Serialize;

use super::{
    ceilings::{CopyCeiling, ProductCeiling},
    cost::Cost,
    setup::Staging,
    timing::{SongOutcome, Timings},
};
use crate::figures;

/// Everything that a benchmark found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// What was timed.
    pub(super) what: serde_json::Value,
    /// Where the weights come from.
    pub(super) weights: String,
    pub(super) backend: &'static str,
    pub(super) machine: Machine,
    pub(super) precision: Precision,
    /// `kernels` or `plain`: what the run took, not what was asked for.
    pub(super) path: String,
    /// What products were computed with, by what their operands are stored in.
    pub(super) products: Vec<Products>,
    pub(super) load_seconds: f64,
    pub(super) staging: Staging,
    pub(super) timings: Timings,
    /// What the shares are of: the slope, or the median where there is no slope above zero.
    pub(super) seconds_per_call: f64,
    pub(super) song: Option<SongOutcome>,
    /// At least, by the configuration.
    pub(super) cost: Cost,
    pub(super) copy_ceiling: CopyCeiling,
    pub(super) product_ceilings: Vec<ProductCeiling>,
    /// Of the time of a call, what moving the counted bytes at the ceiling would take.
    pub(super) share_of_bytes: f64,
    /// Of the time of a call, what the counted arithmetic would take at the ceiling; none where several products ran.
    pub(super) share_of_flop: Option<f64>,
    pub(super) peak_host_bytes: Option<u64>,
}

/// What products were computed with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Products {
    pub(super) operands: &'static str,
    pub(super) matmul: String,
}

/// Where it ran.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Machine {
    pub(super) device: String,
    pub(super) driver: Option<String>,
    pub(super) compute_capability: Option<String>,
    pub(super) processor: String,
    pub(super) threads: usize,
}

impl Machine {
    pub(super) fn new(report: Option<DeviceReport>, (processor, threads): (String, usize)) -> Self {
        match report {
            Some(DeviceReport { name, driver, compute_capability, .. }) => Self {
                device: name,
                driver: Some(driver),
                compute_capability: Some(compute_capability),
                processor,
                threads,
            },
            None => Self { device: processor.clone(), driver: None, compute_capability: None, processor, threads },
        }
    }
}

impl Report {
    /// Returns the report for people.
    pub(super) fn text(&self) -> String {
        let Self { timings, staging, cost, copy_ceiling, .. } = self;
        let mut lines = vec![self.head(), self.arm()];
        let rate = figures::bytes((staging.bytes as f64 / staging.seconds.max(1e-9)) as u64);
        lines.push(format!("  load        {}", seconds(self.load_seconds)));
        lines.push(format!(
            "  staging     {}, {} at {rate}/s",
            seconds(staging.seconds),
            figures::bytes(staging.bytes)
        ));
        lines.push(format!("  first call  {}", seconds(timings.first_call_seconds)));
        if let Some(longest) = timings.loops.last() {
            lines.push(format!("  loop        {} for {} calls", seconds(longest.seconds), longest.calls));
        }
        let spread = timings.per_call_seconds;
        lines.push(format!(
            "  per call    median {}, least {}, most {}",
            seconds(spread.median),
            seconds(spread.min),
            seconds(spread.max)
        ));
        if let Some(line) = timings.line {
            let (slope, intercept) = (seconds(line.slope), seconds(line.intercept));
            lines.push(format!(
                "  line        {slope} per call, {intercept} per loop, over {} loops",
                timings.loops.len()
            ));
        }
        lines.push(format!(
            "  reads       {} at least, {:.1} % of the time at the copy's {}/s",
            figures::bytes(cost.bytes() as u64),
            100.0 * self.share_of_bytes,
            figures::bytes(copy_ceiling.bytes_per_second as u64)
        ));
        let share = self.share_of_flop.map_or(String::new(), |share| format!(", {:.1} % of the time", 100.0 * share));
        lines.push(format!("  computes    {} at least{share}{}", flop(cost.flop), self.product_rates()));
        lines.extend(self.song.iter().flat_map(song_lines));
        if let Some(bytes) = self.peak_host_bytes {
            lines.push(format!("  memory      {} of the host's at most", figures::bytes(bytes)));
        }
        lines.join("\n")
    }

    fn head(&self) -> String {
        let word = |key: &str| self.what[key].as_str().unwrap_or_default();
        let sizes = self.what.as_object().into_iter().flatten().filter(|(_, value)| value.is_number());
        let sizes: String = sizes.map(|(key, value)| format!(", {} {value}", key.replace('_', " "))).collect();
        format!("{}: {}{sizes}; weights {}", word("component"), word("call"), self.weights)
    }

    fn arm(&self) -> String {
        let Machine { device, driver, compute_capability, threads, .. } = &self.machine;
        let device = match (driver, compute_capability) {
            (Some(driver), Some(capability)) => format!("{device}, driver {driver}, compute capability {capability}"),
            _ => format!("{device}, {threads} threads"),
        };
        let products = self.products.iter().map(|Products { operands, matmul }| format!("{operands} {matmul}"));
        let products: Vec<String> = products.collect();
        let (backend, precision, path) = (self.backend, self.precision, &self.path);
        format!(
            "  on          {backend}: {device}\n  arm         {precision}, path {path}, products {}",
            products.join(" and ")
        )
    }

    fn product_rates(&self) -> String {
        let rates = self
            .product_ceilings
            .iter()
            .map(|ceiling| format!("; a large {} product runs at {}/s", ceiling.width, flop(ceiling.flop_per_second)));
        rates.collect()
    }

    /// Returns the report for programs.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("every part of a report has a JSON form")
    }
}

fn song_lines(song: &SongOutcome) -> Vec<String> {
    let total: f64 = song.stages.iter().map(|stage| stage.seconds).sum();
    let stages: Vec<String> =
        song.stages.iter().map(|stage| format!("{} {}", stage.stage, seconds(stage.seconds))).collect();
    vec![
        format!("  stages      {}", stages.join(", ")),
        format!(
            "  song        {:.2} s of music, {} frames after {} tokens, realtime factor {:.3}",
            song.audio_seconds,
            song.frames,
            song.prompt_tokens,
            total / song.audio_seconds
        ),
    ]
}

/// A time with four digits that count.
fn seconds(seconds: f64) -> String {
    match seconds.abs() {
        size if size >= 1.0 => format!("{seconds:.3} s"),
        size if size >= 1e-3 => format!("{:.3} ms", seconds * 1e3),
        _ => format!("{:.1} µs", seconds * 1e6),
    }
}

fn flop(flop: f64) -> String {
    match flop {
        _ if flop >= 1e12 => format!("{:.2} TFLOP", flop / 1e12),
        _ if flop >= 1e9 => format!("{:.2} GFLOP", flop / 1e9),
        _ => format!("{:.2} MFLOP", flop / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_arithmetic_have_the_unit_that_suits_them() {
        assert_eq!([12.0, 0.0123, 0.000_045, -0.000_2].map(seconds), ["12.000 s", "12.300 ms", "45.0 µs", "-200.0 µs"]);
        assert_eq!([6.94e12, 2.8e10, 5e6].map(flop), ["6.94 TFLOP", "28.00 GFLOP", "5.00 MFLOP"]);
    }
}

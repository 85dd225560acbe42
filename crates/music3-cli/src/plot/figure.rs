//! The picture: panels below each other over one axis of time.

use std::ops::Range;

use embedded_graphics::{
    pixelcolor::{Rgb888, RgbColor, WebColors},
    text::Alignment,
};
use music3::audio::StereoAudio;

use super::{
    canvas::{Canvas, LARGE, SMALL},
    panels,
};

const WIDTH: usize = 1500;
/// Where the panels begin and end from left to right.
const PANEL: Range<usize> = 80..1410;
/// Room above the panels, for the title and the windows' numbers.
const TOP: usize = 64;
/// Room between two panels, for the name of the lower one.
const BETWEEN: usize = 30;
/// Joins that are closer together than this would hide what they are drawn over: they get ticks instead of lines.
const CROWDED: usize = 24;
/// Height of such a tick.
const TICK: usize = 8;
/// Room for the number of a window.
const LABEL: usize = 70;
/// Room below the panels, for the time.
const BOTTOM: usize = 44;

pub(super) const INK: Rgb888 = Rgb888::new(40, 44, 52);
pub(super) const GRID: Rgb888 = Rgb888::new(222, 226, 232);
pub(super) const EDGE: Rgb888 = Rgb888::CSS_DARK_ORANGE;

/// What is drawn.
pub(super) struct Figure<'a> {
    pub(super) audio: &'a StereoAudio,
    pub(super) clipped: &'a [Vec<usize>; 2],
    /// The first sample of every window but the first.
    pub(super) joins: &'a [usize],
    pub(super) title: &'a str,
}

/// Where one panel lies.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) x: Range<usize>,
    pub(super) y: Range<usize>,
}

impl Frame {
    /// Returns the row of a value between 0, at the bottom, and 1.
    pub(super) fn row(&self, value: f64) -> usize {
        let height = (self.y.len() - 1) as f64;
        self.y.end - 1 - (value.clamp(0.0, 1.0) * height).round() as usize
    }
}

impl Figure<'_> {
    /// Returns the picture as a PNG file.
    pub(super) fn png(&self) -> Result<Vec<u8>, png::EncodingError> {
        self.draw().png()
    }

    fn draw(&self) -> Canvas {
        let heights = [130, 130, 340, 180];
        let height = TOP + heights.iter().sum::<usize>() + BETWEEN * (heights.len() - 1) + BOTTOM;
        let mut canvas = Canvas::new(WIDTH, height, Rgb888::WHITE);
        let mut top = TOP;
        let frames = heights.map(|height| {
            let frame = Frame { x: PANEL, y: top..top + height };
            top += height + BETWEEN;
            frame
        });
        canvas.text(self.title, (PANEL.start, 20), Alignment::Left, (LARGE, INK));
        for (channel, name) in ["left", "right"].into_iter().enumerate() {
            panels::waveform(&mut canvas, &frames[channel], &self.audio.channels()[channel], &self.clipped[channel]);
            let clipped = self.clipped[channel].len();
            let marked = if clipped > 0 { format!(", {clipped} samples at full scale in red") } else { String::new() };
            name_panel(&mut canvas, &frames[channel], &format!("{name} channel{marked}"));
        }
        panels::spectrogram(&mut canvas, &frames[2], self.audio);
        name_panel(&mut canvas, &frames[2], "spectrogram of both channels' mean, Hz");
        panels::loudness(&mut canvas, &frames[3], self.audio);
        name_panel(&mut canvas, &frames[3], "level of each 0.25 s: bars RMS, lines peak, dBFS");
        self.time_axis(&mut canvas, &frames);
        self.windows(&mut canvas, &frames);
        canvas
    }

    /// Returns the column of a sample.
    fn column(&self, sample: usize) -> usize {
        PANEL.start + sample * PANEL.len() / self.audio.samples()
    }

    fn time_axis(&self, canvas: &mut Canvas, frames: &[Frame]) {
        let (secs, rate) = (self.audio.duration_secs(), f64::from(self.audio.sample_rate_hz()));
        let bottom = frames[frames.len() - 1].y.end;
        let step = round_step(secs / 10.0);
        for tick in (0..).map(|index| f64::from(index) * step).take_while(|&tick| tick <= secs) {
            let x = self.column((tick * rate) as usize).min(PANEL.end - 1);
            canvas.fill(x..x + 1, bottom..bottom + 5, INK);
            canvas.text(&time(tick, step), (x, bottom + 15), Alignment::Center, (SMALL, INK));
        }
        canvas.text("time", (PANEL.end - 1, bottom + 32), Alignment::Right, (SMALL, INK));
    }

    /// Marks the joins, and numbers as many windows as there is room for.
    fn windows(&self, canvas: &mut Canvas, frames: &[Frame]) {
        if self.joins.is_empty() {
            return;
        }
        let spacing = PANEL.len() / (self.joins.len() + 1);
        for &join in self.joins {
            let x = self.column(join);
            for Frame { y, .. } in frames {
                if spacing >= CROWDED {
                    canvas.dashed_down(x, y.clone(), EDGE);
                } else {
                    canvas.fill(x..x + 1, y.start..y.start + TICK, EDGE);
                    canvas.fill(x..x + 1, y.end - TICK..y.end, EDGE);
                }
            }
        }
        let step = [1, 2, 5, 10, 20].into_iter().find(|step| step * spacing >= LABEL).unwrap_or(50);
        let starts = std::iter::once(&0).chain(self.joins);
        for (window, &start) in (1..).zip(starts).filter(|(window, _)| *window == 1 || window % step == 0) {
            let label = if window == 1 && step < 5 { "window 1".to_owned() } else { window.to_string() };
            canvas.text(&label, (self.column(start) + 3, TOP - 26), Alignment::Left, (SMALL, EDGE));
        }
    }
}

fn name_panel(canvas: &mut Canvas, frame: &Frame, name: &str) {
    canvas.text(name, (frame.x.start, frame.y.start - 11), Alignment::Left, (SMALL, INK));
}

/// Returns the step of 1, 2 or 5 times a power of ten, or of whole minutes, that is at least `step`.
fn round_step(step: f64) -> f64 {
    const STEPS: [f64; 15] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0];
    STEPS.into_iter().find(|&round| round >= step).unwrap_or_else(|| (step / 600.0).ceil() * 600.0)
}

/// Returns a time as seconds, or as minutes and seconds where there are minutes.
fn time(secs: f64, step: f64) -> String {
    if step >= 10.0 {
        return format!("{}:{:02}", secs as u64 / 60, secs as u64 % 60);
    }
    let digits = if step >= 1.0 {
        0
    } else if step >= 0.1 {
        1
    } else {
        2
    };
    format!("{secs:.digits$} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(value: impl Fn(usize) -> f32) -> Vec<f32> {
        (0..44_100).map(value).collect()
    }

    #[test]
    fn shows_clipping_joins_and_levels_where_they_are() {
        // The left channel is at full scale for the last tenth; the right one is silent.
        let left = samples(|index| if index >= 39_690 { 1.0 } else { 0.1 });
        let audio = StereoAudio::new([left, samples(|_| 0.0)], 44_100);
        let clipped = super::super::clipped(&audio);
        let figure = Figure { audio: &audio, clipped: &clipped, joins: &[22_050], title: "a" };
        let canvas = figure.draw();
        let has = |x: Range<usize>, y: Range<usize>, colour: Rgb888| {
            x.into_iter().any(|x| y.clone().any(|y| canvas.get(x, y) == colour))
        };
        let (left, right, levels) = (TOP..TOP + 130, TOP + 160..TOP + 290, TOP + 690..TOP + 870);
        assert!(has(1280..1410, left.clone(), panels::CLIPPED));
        assert!(!has(80..1270, left.clone(), panels::CLIPPED));
        assert!(!has(80..1410, right, panels::CLIPPED));
        assert!(has(745..746, left, EDGE), "half of the way");
        assert!(!has(600..700, TOP..TOP + 800, EDGE));
        // −23 dBFS at first, −4 at the end: the bars reach so much higher.
        let top = |x: usize| levels.clone().find(|&y| canvas.get(x, y) == panels::BAR);
        assert!(top(100).expect("a bar") > top(1350).expect("a bar") + 20);
    }

    #[test]
    fn times_are_round() {
        assert_eq!(round_step(0.4), 0.5);
        assert_eq!(round_step(36.0), 60.0);
        assert_eq!(time(90.0, 30.0), "1:30");
        assert_eq!([time(1.5, 0.5), time(3.0, 1.0), time(0.05, 0.05)], ["1.5 s", "3 s", "0.05 s"]);
    }
}

//! What is drawn in each panel.

use embedded_graphics::{pixelcolor::Rgb888, text::Alignment};
use music3::audio::StereoAudio;

use super::{
    canvas::{Canvas, SMALL},
    figure::{Frame, GRID, INK},
    loudness::{STRETCH_SECS, stretches},
    spectrum::Spectrogram,
};

const PEAKS: Rgb888 = Rgb888::new(136, 176, 226);
const BODY: Rgb888 = Rgb888::new(38, 98, 178);
pub(super) const CLIPPED: Rgb888 = Rgb888::new(220, 20, 30);
pub(super) const BAR: Rgb888 = BODY;
const PEAK_LINE: Rgb888 = Rgb888::new(130, 90, 190);

/// The quietest that the spectrogram tells from silence.
const SPECTRUM_FLOOR_DB: f64 = -100.0;
/// The quietest level that has a bar.
const LEVEL_FLOOR_DB: f64 = -60.0;
/// The lowest frequency that is shown.
const LOWEST_HZ: f64 = 30.0;

/// Draws a channel: what it reaches in each column light, its RMS dark.
pub(super) fn waveform(canvas: &mut Canvas, frame: &Frame, samples: &[f32], clipped: &[usize]) {
    let row = |value: f32| frame.row((f64::from(value) + 1.0) / 2.0);
    for value in [-1.0, -0.5, 0.0, 0.5, 1.0] {
        label(canvas, frame, row(value), &format!("{value}"));
    }
    let columns = frame.x.len();
    for column in 0..columns {
        let start = column * samples.len() / columns;
        let end = ((column + 1) * samples.len() / columns).max(start + 1);
        let part = &samples[start..end];
        let most = part.iter().copied().fold(f32::MIN, f32::max);
        let least = part.iter().copied().fold(f32::MAX, f32::min);
        let rms = (part.iter().map(|sample| sample * sample).sum::<f32>() / part.len() as f32).sqrt();
        let x = frame.x.start + column;
        canvas.fill(x..x + 1, row(most)..row(least) + 1, PEAKS);
        let (upper, lower) = (rms.min(most), (-rms).max(least));
        if lower <= upper {
            canvas.fill(x..x + 1, row(upper)..row(lower) + 1, BODY);
        }
    }
    for &sample in clipped {
        let x = frame.x.start + sample * columns / samples.len();
        let place =
            if samples[sample] > 0.0 { frame.y.start..frame.y.start + 12 } else { frame.y.end - 12..frame.y.end };
        canvas.fill(x.saturating_sub(1)..x + 2, place, CLIPPED);
    }
}

/// Draws which frequencies are how loud, on a scale on which octaves are equally high, and the colours' meaning.
pub(super) fn spectrogram(canvas: &mut Canvas, frame: &Frame, audio: &StereoAudio) {
    let [left, right] = audio.channels();
    let mean: Vec<f32> = left.iter().zip(right).map(|(left, right)| (left + right) / 2.0).collect();
    let highest_hz = f64::from(audio.sample_rate_hz()) / 2.0;
    let spectrogram = Spectrogram::new(&mean, audio.sample_rate_hz(), frame.x.len());
    let octaves = (highest_hz / LOWEST_HZ).log2();
    let hz = |part: f64| LOWEST_HZ * (octaves * part).exp2();
    let rows = frame.y.len();
    for index in 0..rows {
        let (from, to) = (hz(index as f64 / rows as f64), hz((index + 1) as f64 / rows as f64));
        for column in 0..frame.x.len() {
            let level = spectrogram.level_db(column, from, to);
            canvas.set(frame.x.start + column, frame.y.end - 1 - index, heat(1.0 - level / SPECTRUM_FLOOR_DB));
        }
    }
    for hz in [50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000] {
        let part = (f64::from(hz) / LOWEST_HZ).log2() / octaves;
        if part <= 1.0 {
            tick(canvas, frame, frame.row(part), &hz.to_string());
        }
    }
    let bar = frame.x.end + 12..frame.x.end + 24;
    for y in frame.y.clone() {
        let part = 1.0 - (y - frame.y.start) as f64 / (rows - 1) as f64;
        canvas.across(bar.clone(), y, heat(part));
    }
    for level in [0.0, -25.0, -50.0, -75.0, -100.0] {
        let y = frame.row(1.0 - level / SPECTRUM_FLOOR_DB);
        canvas.text(&format!("{level} dB"), (bar.end + 4, y), Alignment::Left, (SMALL, INK));
    }
}

/// Draws the level of each quarter of a second as a bar, and its peak as a line.
pub(super) fn loudness(canvas: &mut Canvas, frame: &Frame, audio: &StereoAudio) {
    let row = |level: f64| frame.row(1.0 - level / LEVEL_FLOOR_DB);
    for level in [0.0, -10.0, -20.0, -30.0, -40.0, -50.0, -60.0] {
        label(canvas, frame, row(level), &format!("{level}"));
    }
    let columns_per_sec = frame.x.len() as f64 / audio.duration_secs();
    for (index, stretch) in stretches(audio).iter().enumerate() {
        let column = |index: usize| frame.x.start + (index as f64 * STRETCH_SECS * columns_per_sec) as usize;
        let (start, end) = (column(index), column(index + 1).min(frame.x.end));
        // A gap between bars, where there is room for one.
        let end = if end > start + 3 { end - 1 } else { end.max(start + 1) };
        if stretch.rms_dbfs > LEVEL_FLOOR_DB {
            canvas.fill(start..end, row(stretch.rms_dbfs)..frame.y.end, BAR);
        }
        if stretch.peak_dbfs > LEVEL_FLOOR_DB {
            let y = row(stretch.peak_dbfs);
            canvas.fill(start..end, y..y + 2, PEAK_LINE);
        }
    }
}

/// Draws a line across the panel, and what it stands for.
fn label(canvas: &mut Canvas, frame: &Frame, y: usize, text: &str) {
    canvas.across(frame.x.clone(), y, GRID);
    canvas.text(text, (frame.x.start - 8, y), Alignment::Right, (SMALL, INK));
}

/// Writes what a row stands for, beside a panel that is full.
fn tick(canvas: &mut Canvas, frame: &Frame, y: usize, text: &str) {
    canvas.across(frame.x.start - 5..frame.x.start, y, INK);
    canvas.text(text, (frame.x.start - 8, y), Alignment::Right, (SMALL, INK));
}

/// Returns the colour of a value between 0 and 1: from black over blue, red and yellow to white, ever brighter.
fn heat(value: f64) -> Rgb888 {
    const STOPS: [[f64; 3]; 7] = [
        [6.0, 6.0, 20.0],
        [30.0, 18.0, 92.0],
        [112.0, 26.0, 122.0],
        [190.0, 48.0, 92.0],
        [240.0, 104.0, 50.0],
        [252.0, 190.0, 60.0],
        [255.0, 252.0, 214.0],
    ];
    // NaN does not occur: the level of silence is −∞, which is the lowest colour.
    let place = value.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let below = (place as usize).min(STOPS.len() - 2);
    let part = place - below as f64;
    let [r, g, b] = [0, 1, 2].map(|channel| {
        let (from, to) = (STOPS[below][channel], STOPS[below + 1][channel]);
        (from + (to - from) * part).round() as u8
    });
    Rgb888::new(r, g, b)
}

#[cfg(test)]
mod tests {
    use embedded_graphics::pixelcolor::RgbColor;

    use super::*;

    #[test]
    fn louder_is_brighter() {
        let brightness = |value| {
            let colour = heat(value);
            2 * u32::from(colour.r()) + 5 * u32::from(colour.g()) + u32::from(colour.b())
        };
        for index in 0..100 {
            let value = f64::from(index) / 100.0;
            assert!(brightness(value) < brightness(value + 0.01), "{value}");
        }
        assert_eq!(heat(f64::NEG_INFINITY), heat(0.0));
    }
}

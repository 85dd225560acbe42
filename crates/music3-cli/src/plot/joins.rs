//! Where the windows of a song were joined, from nothing but its length.

use music3::audio::{LatentRates, WindowPlan, WindowPosition, crop_window};

/// Frames a second.
const FRAMES_PER_SEC: f64 = 25.0;

/// Returns the first sample of every window but the first; `None` if no song of the published model's rates has that
/// many samples.
pub(super) fn joins(samples: usize) -> Option<Vec<usize>> {
    let rates = LatentRates::default();
    let about = samples as f64 / f64::from(rates.output_sampling_rate) * FRAMES_PER_SEC;
    // A window is cut to whole latents, and 345 of them stand for 100 frames, which are 344.5: a song is up to a frame
    // shorter or longer per window than its frames.
    let (about, spare) = (about as usize, 2 + about as usize / 100);
    (about.saturating_sub(spare).max(1)..=about + spare).find_map(|frames| {
        let mut ends = ends(frames, &rates);
        (ends.pop() == Some(samples)).then_some(ends)
    })
}

/// Returns where each window's part of a song of that many frames ends.
fn ends(frames: usize, rates: &LatentRates) -> Vec<usize> {
    let hop = rates.output_hop_length as usize;
    let plan = WindowPlan::new(frames, rates);
    let count = plan.windows().len();
    let mut end = 0;
    plan.windows()
        .iter()
        .enumerate()
        .map(|(index, window)| {
            end += crop_window(WindowPosition { index, count }, window.latents * hop, hop).len();
            end
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use music3::audio::stitch;

    use super::*;

    #[test]
    fn finds_the_joins_of_songs_of_every_length() {
        let rates = LatentRates::default();
        for frames in [1, 2, 32, 100, 199, 200, 201, 250, 299, 300, 301, 555, 1500, 8999, 9000] {
            // Each window's samples are its number, so that the song shows where they meet.
            let plan = WindowPlan::new(frames, &rates);
            let windows: Vec<[Vec<f32>; 2]> = plan
                .windows()
                .iter()
                .enumerate()
                .map(|(index, window)| [0, 1].map(|_| vec![index as f32 / 1e3; window.latents * 512]))
                .collect();
            let song = stitch(&windows, &rates);
            let left = &song.channels()[0];
            let seen: Vec<usize> = (1..left.len()).filter(|&at| left[at] != left[at - 1]).collect();
            assert_eq!(joins(song.samples()), Some(seen), "{frames} frames");
        }
    }

    #[test]
    fn other_lengths_have_none() {
        for samples in [1, 511, 44_100, 512 * 172 + 1] {
            assert_eq!(joins(samples), None, "{samples}");
        }
    }
}

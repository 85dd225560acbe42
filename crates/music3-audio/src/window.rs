//! Which frames the windows of a song cover, and what each hands to the next.
//!
//! # Upstream
//! `modular_pipelines/minimax_music3/before_denoise.py:27-70` and `denoise.py:39,85-90,262-267`; deviations: none.

use std::ops::Range;

use crate::rates::LatentRates;

/// Frames of a window. Upstream: `modular_pipelines/minimax_music3/before_denoise.py`.
const WINDOW_FRAMES: usize = 200;
/// Frames from the start of a window to the start of the next. Upstream: the same file.
const WINDOW_HOP_FRAMES: usize = 100;
/// Latents that a window takes over from the one before. Upstream: `modular_pipelines/minimax_music3/denoise.py:39`.
const OVERLAP_LATENTS: usize = 172;

/// One window of a song.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The frames it covers, counted from the start of the song.
    pub frames: Range<usize>,
    /// How many latents it has.
    pub latents: usize,
    /// How many of its first latents come from the window before; 0 in the first window.
    pub overlap: usize,
    /// Which of its latents the next window takes over.
    pub carry: Range<usize>,
}

/// The windows of a song, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowPlan {
    windows: Vec<Window>,
}

impl WindowPlan {
    /// Returns the windows of a song of that many frames: one up to 200 frames, else one every 100 frames.
    ///
    /// # Panics
    /// There are no frames.
    pub fn new(frames: usize, rates: &LatentRates) -> Self {
        if frames <= WINDOW_FRAMES {
            return Self::with_starts(frames, &[0], rates);
        }
        let starts: Vec<usize> = (0..frames - WINDOW_HOP_FRAMES).step_by(WINDOW_HOP_FRAMES).collect();
        Self::with_starts(frames, &starts, rates)
    }

    /// Returns windows that start at the given frames and are cut off at the end of the song.
    ///
    /// # Panics
    /// A window would have no frames.
    pub fn with_starts(frames: usize, starts: &[usize], rates: &LatentRates) -> Self {
        let mut carried = 0;
        let windows = starts
            .iter()
            .map(|&start| {
                let covered = start..frames.min(start + WINDOW_FRAMES);
                assert!(!covered.is_empty(), "the window at frame {start} of {frames} has no frames");
                let latents = rates.latent_length(covered.len());
                let overlap = latents.min(carried);
                let carry = latents.saturating_sub(2 * OVERLAP_LATENTS)..latents.saturating_sub(OVERLAP_LATENTS);
                carried = carry.len();
                Window { frames: covered, latents, overlap, carry }
            })
            .collect();
        Self { windows }
    }

    /// Returns the windows.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(frames: usize) -> WindowPlan {
        WindowPlan::new(frames, &LatentRates::default())
    }

    #[test]
    fn a_short_song_is_one_window() {
        for frames in [1, 2, 199, 200] {
            let plan = plan(frames);
            assert_eq!(plan.windows().len(), 1);
            assert_eq!(plan.windows()[0].frames, 0..frames);
            assert_eq!(plan.windows()[0].overlap, 0);
        }
    }

    #[test]
    fn windows_cover_every_frame_and_overlap_by_half() {
        for frames in 201..=9000 {
            let plan = plan(frames);
            let windows = plan.windows();
            for (index, window) in windows.iter().enumerate() {
                assert_eq!(window.frames.start, 100 * index);
            }
            let (last, others) = windows.split_last().expect("a window");
            for window in others {
                assert_eq!(window.frames.len(), 200);
                assert_eq!((window.latents, &window.carry), (689, &(345..517)));
            }
            assert_eq!(last.frames.end, frames);
            assert!((101..=200).contains(&last.frames.len()), "{frames} frames end with {:?}", last.frames);
            assert!(windows[1..].iter().all(|window| window.overlap == 172));
        }
    }

    #[test]
    fn the_carry_of_a_short_window_is_cut_at_its_start() {
        let windows = [(1, 3, 0..0), (50, 172, 0..0), (51, 175, 0..3), (99, 341, 0..169), (100, 344, 0..172)];
        for (frames, latents, carry) in windows {
            let plan = plan(frames);
            assert_eq!((plan.windows()[0].latents, &plan.windows()[0].carry), (latents, &carry), "{frames} frames");
        }
        let plan = WindowPlan::with_starts(60, &[0, 59], &LatentRates::default());
        assert_eq!(plan.windows()[0].carry, 0..34);
        assert_eq!(plan.windows()[1].overlap, 3);
    }
}

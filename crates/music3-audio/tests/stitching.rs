//! Windows to song: for every length of a song, each sample comes from one window.

use std::ops::Range;

use music3_audio::{LatentRates, WindowPlan, WindowPosition, crop_window, stitch};

const HOP: usize = 512;

fn plan(frames: usize) -> WindowPlan {
    WindowPlan::new(frames, &LatentRates::default())
}

/// The part of each window that the song keeps, in samples of that window.
fn kept(plan: &WindowPlan) -> Vec<Range<usize>> {
    let count = plan.windows().len();
    plan.windows()
        .iter()
        .enumerate()
        .map(|(index, window)| crop_window(WindowPosition { index, count }, window.latents * HOP, HOP))
        .collect()
}

#[test]
fn every_song_has_345_latents_a_window_and_all_of_the_last() {
    for frames in 1..=9000 {
        let plan = plan(frames);
        let (last, others) = plan.windows().split_last().expect("a window");
        let latents: usize = kept(&plan).iter().map(|range| range.len() / HOP).sum();
        // The first window keeps its first 86 latents, the last its last 258.
        let expected = if others.is_empty() { last.latents } else { 345 * others.len() + last.latents };
        assert_eq!(latents, expected, "{frames} frames");
    }
}

#[test]
fn known_songs_have_upstream_s_length() {
    for (frames, latents) in [(1, 3), (100, 344), (200, 689), (201, 692), (300, 1034), (301, 1037), (9000, 31_049)] {
        let total: usize = kept(&plan(frames)).iter().map(Range::len).sum();
        assert_eq!(total, latents * HOP, "{frames} frames");
    }
}

#[test]
fn a_window_goes_on_where_the_one_before_stopped() {
    // On the output's clock a window starts 345 latents after the one before: that one's 689 less the 258 cut from its
    // end, less the 86 cut from this one's start.
    for frames in 1..=9000 {
        let mut written = 0;
        for (index, range) in kept(&plan(frames)).into_iter().enumerate() {
            let window_start = 345 * index * HOP;
            assert_eq!(window_start + range.start, written, "{frames} frames, window {index}");
            written = window_start + range.end;
        }
    }
}

#[test]
fn each_sample_comes_from_exactly_one_window() {
    // With one sample a latent, so that every length can be joined: the crops are counted in latents.
    let rates = LatentRates { output_hop_length: 1, ..LatentRates::default() };
    // A sample's value names its window and its place there; both fit a float's 24 bits, below full scale.
    let name = |window: usize, sample: usize, sign: f32| sign * ((window << 10 | sample) as f32) / 2.0_f32.powi(24);
    let window = |index: usize, latents: usize| {
        [1.0, -1.0].map(|sign| (0..latents).map(|sample| name(index, sample, sign)).collect::<Vec<f32>>())
    };
    let whole: Vec<[Vec<f32>; 2]> = (0..90).map(|index| window(index, 689)).collect();
    let mut windows = whole.clone();
    for frames in 1..=9000 {
        let plan = plan(frames);
        let (last, others) = plan.windows().split_last().expect("a window");
        windows[others.len()] = window(others.len(), last.latents);
        let song = stitch(&windows[..=others.len()], &rates);
        windows[others.len()].clone_from(&whole[others.len()]);
        // Of the song's latents, the first 431 are the first window's; each later one but the last adds 345.
        let place = |latent: usize| match latent.saturating_sub(86) / 345 {
            index if index < others.len() => (index, latent - 345 * index),
            _ => (others.len(), latent - 345 * others.len()),
        };
        assert_eq!(song.samples(), 345 * others.len() + last.latents, "{frames} frames");
        for (channel, sign) in song.channels().iter().zip([1.0, -1.0]) {
            let is_named = |(latent, &value): (usize, &f32)| {
                let (window, sample) = place(latent);
                value == name(window, sample, sign)
            };
            assert!(channel.iter().enumerate().all(is_named), "{frames} frames");
        }
    }
}

#[test]
fn clamps_what_is_too_loud_and_keeps_a_nan_for_others_to_find() {
    let song = stitch(&[[vec![1.5, f32::NAN], vec![-f32::INFINITY, 0.25]]], &LatentRates::default());
    let [left, right] = song.channels();
    assert_eq!(left[0], 1.0);
    assert!(left[1].is_nan());
    assert_eq!(right, &[-1.0, 0.25]);
}

#[test]
fn a_window_shorter_than_its_crop_follows_python_s_slices() {
    let crop = |index, latents| crop_window(WindowPosition { index, count: 3 }, latents * HOP, HOP);
    assert_eq!(crop(0, 258), 0..0);
    assert_eq!(crop(0, 257), 0..256 * HOP);
    assert_eq!(crop(0, 100), 0..0);
    assert_eq!(crop(1, 200), 86 * HOP..142 * HOP);
    assert_eq!(crop(1, 300), 42 * HOP..42 * HOP);
    assert!(crop(2, 80).is_empty());
}

#[test]
fn nearest_frames_follow_torch_s_f32_rule() {
    let rates = LatentRates::default();
    // Where exact integers or doubles say otherwise: the first of 13 such window lengths.
    assert_eq!(rates.nearest_index(32)[55], 15);
    let differing: Vec<usize> = (1..=200)
        .filter(|&frames| {
            let latents = rates.latent_length(frames);
            rates.nearest_index(frames).iter().enumerate().any(|(latent, &frame)| frame != latent * frames / latents)
        })
        .collect();
    assert_eq!((differing.len(), differing[0]), (13, 32));
}

#[test]
fn other_rates_are_followed() {
    let rates =
        LatentRates { input_sampling_rate: 100, input_hop_length: 4, output_sampling_rate: 50, output_hop_length: 1 };
    assert_eq!(rates.latent_length(3), 6);
    assert_eq!(rates.nearest_index(3), [0, 0, 1, 1, 2, 2]);
    let fewer = LatentRates { output_hop_length: 7, ..rates };
    assert_eq!((fewer.latent_length(3), fewer.nearest_index(3)), (1, vec![0]));
}

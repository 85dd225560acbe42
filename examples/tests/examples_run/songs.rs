//! The examples that make whole songs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use music3::audio::{levels, read_wav};

use crate::program::run;

#[test]
fn generate_song_writes_the_song_it_reports() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("song.wav");
    let said = run("generate_song", &["song.wav"], folder.path());
    assert!(said.trim_end().ends_with("song.wav"), "{said}");

    let audio = read_wav(&path).expect("a WAV file");
    assert_eq!(audio.sample_rate_hz(), 44_100);
    // 2 s are 50 frames, 50 frames are 172 latents, and a latent is 512 samples.
    let frames: usize = said
        .lines()
        .find_map(|line| line.strip_suffix(" frames")?.rsplit(' ').next()?.parse().ok())
        .expect("it says how many frames there are");
    assert!((1..=50).contains(&frames), "{frames} frames");
    assert_eq!(audio.samples(), (frames as f64 * 44_100.0 / 24_000.0 * 960.0 / 512.0) as usize * 512);
    let levels = levels(&audio);
    assert_eq!(levels.non_finite, 0);
    assert!(levels.rms_dbfs > -60.0, "{levels:?}");
}

#[test]
fn stage_by_stage_shows_each_stage() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = run("stage_by_stage", &[], folder.path());
    for part in ["prompt: 2 rows of ", "frame 1: codes [", "frame hiddens: [1, ", "latents: 1 window of [1, ", "Hz"] {
        assert!(said.contains(part), "`{part}` is missing in\n{said}");
    }
}

#[test]
fn memory_stays_flat_over_thirty_songs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    run("memory_over_songs", &["30", "."], folder.path());
    let table = fs::read_to_string(folder.path().join("memory_over_songs.csv")).expect("the table");
    let held: Vec<f64> = table
        .lines()
        .skip(1)
        .map(|line| line.split_once(',').and_then(|(_, bytes)| bytes.parse().ok()).expect("bytes"))
        .collect();
    assert_eq!(held.len(), 30);
    // Long and short songs alternate, so songs two apart are compared, after the first have filled the allocator's pools.
    // The median is looked at because the allocator now and then returns much at once, which would hide a growth from
    // first to last. Measured: 0; leaving one song's samples behind each time gives 1.8 MB.
    let mut growth: Vec<f64> = held[5..].iter().zip(&held[7..]).map(|(before, after)| after - before).collect();
    growth.sort_by(f64::total_cmp);
    let median = growth[growth.len() / 2];
    assert!(median.abs() < 2e5, "from song to song it grows by {median} bytes: {held:?}");
    // Measured: 1.02 and 1.04.
    let most = held.iter().copied().fold(0.0, f64::max);
    assert!(held[5] > 1e6 && most < held[5] * 1.1, "{most} bytes at most: {held:?}");
    let plot = fs::read_to_string(folder.path().join("memory_over_songs.svg")).expect("the plot");
    let points = plot.split_once("points=\"").and_then(|(_, rest)| rest.split_once('"')).expect("a line").0;
    assert_eq!(points.split(' ').count(), 30);
}

#[test]
fn the_readme_shows_what_the_example_does() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: PathBuf| fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let readme = read(root.join("../README.md"));
    let example = read(root.join("generate_song.rs"));
    let (_, snippet) = readme.split_once("```rust\n").expect("the README has a Rust snippet");
    let (snippet, _) = snippet.split_once("```").expect("the snippet ends");
    let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>().join("\n");
    assert!(lines(&example).contains(lines(snippet).trim()), "examples/generate_song.rs does not hold\n{snippet}");
}

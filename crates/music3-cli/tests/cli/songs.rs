//! Songs of the demo models.

use std::fs;

use music3::audio::{levels, read_wav};
use serde_json::Value;

use crate::program::Program;

/// Asserts that the file is the song that the report describes; returns its frames.
fn assert_song(program: &Program, name: &str, report: &Value, max_frames: usize) -> usize {
    let audio = read_wav(&program.path(name)).expect("a stereo WAV file");
    let frames = report["frames"].as_u64().expect("a count") as usize;
    match report["finish"].as_str() {
        Some("frame_cap") => assert_eq!(frames, max_frames),
        Some("end_token") => assert!((1..=max_frames).contains(&frames), "{frames}"),
        other => panic!("the song ended with {other:?}"),
    }
    assert_eq!(audio.sample_rate_hz(), 44_100);
    assert_eq!(audio.samples(), samples(frames));
    assert_eq!((report["samples"].as_u64(), report["channels"].as_u64()), (Some(samples(frames) as u64), Some(2)));
    let levels = levels(&audio);
    assert_eq!(levels.non_finite, 0);
    assert!(levels.rms_dbfs > -60.0, "it is silent: {levels:?}");
    assert!((report["rms_dbfs"].as_f64().expect("a level") - levels.rms_dbfs).abs() < 0.1);
    let channels = audio.channels();
    assert_ne!(channels[0], channels[1], "it is not stereo");
    frames
}

/// Samples of a song of one window, or of windows that all but the last are cut to 345 latents.
fn samples(frames: usize) -> usize {
    let latents = |frames: usize| (frames as f64 * 44_100.0 / 24_000.0 * 960.0 / 512.0) as usize;
    let starts: Vec<usize> = if frames <= 200 { vec![0] } else { (0..frames - 100).step_by(100).collect() };
    let windows = starts.iter().map(|start| latents((frames - start).min(200)));
    let (first, last) = (0, starts.len() - 1);
    let kept = windows
        .enumerate()
        .map(|(window, latents)| latents - if window == first { 0 } else { 86 } - if window == last { 0 } else { 258 });
    512 * kept.sum::<usize>()
}

fn happy_path(backend: &str) {
    let program = Program::new();
    let arguments = ["generate", "--demo", "--max-seconds", "1", "--steps", "3", "--backend", backend, "--json"];
    let ran = program.run(&arguments);
    let report = ran.json();
    assert_song(&program, "song.wav", &report, 25);
    assert_eq!(program.names(), ["song.json", "song.wav"], "nothing but the song and its recipe is left");
    let expected =
        [("backend", backend), ("precision", "mixed"), ("path", "song.wav"), ("recipe", "song.json"), ("rng", "torch")];
    for (key, expected) in expected {
        assert_eq!(report[key], expected, "{key}");
    }
    assert_eq!(report["stages"].as_array().map(Vec::len), Some(3));
    assert!(report["realtime_factor"].as_f64() > Some(0.0));
    // Progress is for people, and there are none here: only plain lines.
    assert!(ran.stderr.contains("and nothing else") && ran.stderr.contains(&format!("backend {backend}")));
    assert!(ran.stderr.contains("samples clipped") && !ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
}

#[test]
#[cfg(feature = "flex")]
fn flex_makes_a_song() {
    happy_path("flex");
}

#[test]
#[cfg(feature = "ndarray")]
fn ndarray_makes_a_song() {
    happy_path("ndarray");
}

#[test]
#[cfg(feature = "cuda")]
fn cuda_makes_a_song() {
    happy_path("cuda");
}

#[test]
fn the_path_is_all_that_goes_to_standard_output() {
    let program = Program::new();
    fs::create_dir(program.path("songs")).expect("a folder");
    let output = ["--output", "songs/noise.wav", "--quiet"];
    let run = |more: &[&str]| {
        let ran = program.run(
            &[&["generate", "--demo", "random", "--max-seconds", "0.4", "--steps", "1"], &output[..], more].concat(),
        );
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "songs/noise.wav\n", ""));
        fs::read(program.path("songs/noise.wav")).expect("the song")
    };
    let song = run(&[]);
    assert_eq!(run(&["--seed", "0"]), song, "a seed gives a song");
    assert_ne!(run(&["--seed", "1"]), song, "another seed gives another");
    assert_ne!(run(&["--caption", "loud"]), song, "another caption gives another");
}

#[test]
fn two_windows_make_one_song() {
    let program = Program::new();
    let arguments =
        ["generate", "--demo", "random", "--max-seconds", "8.4", "--steps", "1", "--precision", "f32", "--json"];
    let report = program.run(&arguments).json();
    assert_song(&program, "song.wav", &report, 210);
}

#[test]
fn lyrics_are_read_as_python_reads_text() {
    let program = Program::new();
    let lyrics = "[verse]\nLa la la\n\n[chorus]\nLo lo lo\n";
    program.write("lf.txt", lyrics);
    program.write("crlf.txt", lyrics.replace('\n', "\r\n"));
    program.write("cr.txt", format!("\u{feff}{}", lyrics.replace('\n', "\r")));
    let arguments = ["generate", "--demo", "--max-seconds", "0.2", "--steps", "1", "--json", "--quiet"];
    let tokens = |report: Value| report["prompt_tokens"].as_u64().expect("a count");
    let mut songs = Vec::new();
    let mut keep = |tokens| songs.push((tokens, fs::read(program.path("song.wav")).expect("the song")));

    keep(tokens(program.run(&[&arguments[..], &["--lyrics", lyrics]].concat()).json()));
    for file in ["lf.txt", "crlf.txt", "cr.txt"] {
        keep(tokens(program.run(&[&arguments[..], &["--lyrics-file", file]].concat()).json()));
    }
    let stdin = [&arguments[..], &["--lyrics-file", "-"]].concat();
    keep(tokens(program.run_with_input(&stdin, lyrics.replace('\n', "\r\n").as_bytes()).json()));
    assert!(songs[1..].iter().all(|song| *song == songs[0]), "the same lyrics give the same song");
}

#[test]
fn words_on_a_tag_s_line_are_warned_of() {
    let program = Program::new();
    let arguments = ["generate", "--demo", "--max-seconds", "0.1", "--steps", "1", "--lyrics"];
    let warned = |lyrics: &str| program.run(&[&arguments[..], &[lyrics]].concat()).stderr;
    let expected = "warning: lyrics line 3: `la la` follows [verse] and will not be sung; give it a line of its own";
    assert!(warned("[intro]\n\n[verse] la la\nlo lo").lines().any(|line| line == expected));
    assert!(!warned("[intro]\n\n[verse]\nla la").contains("warning"));
}

fn says_that_its_codes_are_upstream_s(backend: &str) {
    let program = Program::new();
    // The number of steps is not upstream's, and changes no code.
    let arguments = ["generate", "--demo", "--steps", "1", "--backend", backend];
    for precision in ["mixed", "f32", "bf16"] {
        let ran = program.run(&[&arguments[..], &["--precision", precision]].concat());
        let last = ran.stderr.lines().last().unwrap_or_default();
        assert_eq!(last, "  check  the codes of all 136 frames were compared and equal upstream's for this seed");
    }
    let other = program.run(&[&arguments[..], &["--max-seconds", "1"]].concat());
    assert!(other.code == Some(0) && !other.stderr.contains("upstream"), "{}", other.stderr);
}

#[test]
#[cfg(feature = "flex")]
fn flex_draws_upstream_s_codes() {
    says_that_its_codes_are_upstream_s("flex");
}

#[test]
#[cfg(feature = "ndarray")]
fn ndarray_draws_upstream_s_codes() {
    says_that_its_codes_are_upstream_s("ndarray");
}

#[test]
#[cfg(feature = "cuda")]
fn cuda_draws_upstream_s_codes() {
    says_that_its_codes_are_upstream_s("cuda");
}

#[test]
fn the_counter_based_generator_makes_other_songs_that_are_as_repeatable() {
    let program = Program::new();
    let song = |more: &[&str]| {
        let arguments = ["generate", "--demo", "random", "--max-seconds", "0.4", "--steps", "1", "--quiet"];
        assert_eq!(program.run(&[&arguments[..], more].concat()).code, Some(0));
        fs::read(program.path("song.wav")).expect("the song")
    };
    let counter = song(&["--rng", "counter"]);
    assert_eq!(song(&["--rng", "counter"]), counter);
    assert_ne!(song(&["--rng", "counter", "--seed", "4294967296"]), counter, "all 64 bits of a seed count");
    assert_ne!(song(&["--rng", "torch"]), counter);
    assert_eq!(song(&["--rng", "torch"]), song(&[]));
}

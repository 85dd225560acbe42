//! What the trained demo model plays: every note of every tune, heard in the WAV file and compared with the melody.

use music3::{
    audio::{StereoAudio, read_wav},
    demo::{Note, Tune, tunes},
};

use crate::program::Program;

/// Half the distance to the next semitone.
const TOLERANCE_CENTS: f64 = 50.0;

/// Lowest and highest pitch that is listened for: an octave around every melody.
const RANGE_HZ: (f64, f64) = (180.0, 700.0);

/// Part of a note that is listened to: after the drum that it began with, before it is damped.
const MIDDLE: (f64, f64) = (0.4, 0.9);

/// Returns the pitch of a stretch of sound: the first lag at which it is nearly as like itself as at any, between
/// samples by a parabola; `None` where it is like itself at none.
fn pitch_hz(samples: &[f64], sample_rate_hz: f64) -> Option<f64> {
    let lags = (sample_rate_hz / RANGE_HZ.1) as usize..=(sample_rate_hz / RANGE_HZ.0) as usize;
    let length = samples.len().checked_sub(lags.end() + 2)?;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let start = &samples[..length];
    let alike: Vec<f64> = (0..=lags.end() + 1)
        .map(|lag| {
            let later = &samples[lag..lag + length];
            product(start, later) / (product(start, start) * product(later, later)).sqrt().max(1e-12)
        })
        .collect();
    let is_peak = |lag: usize| alike[lag - 1] < alike[lag] && alike[lag] >= alike[lag + 1];
    let peaks: Vec<usize> = lags.filter(|&lag| is_peak(lag)).collect();
    let best = peaks.iter().map(|&lag| alike[lag]).fold(0.0, f64::max);
    // Sound that repeats in no way has low peaks only.
    let lag = *peaks.iter().find(|&&lag| best > 0.5 && alike[lag] > 0.9 * best)?;
    let (before, at, after) = (alike[lag - 1], alike[lag], alike[lag + 1]);
    Some(sample_rate_hz / (lag as f64 + 0.5 * (before - after) / (before - 2.0 * at + after)))
}

/// Returns what is heard of a note.
fn heard_hz(audio: &StereoAudio, note: &Note) -> Option<f64> {
    let rate = f64::from(audio.sample_rate_hz());
    let at = |part: f64| ((note.start_secs + part * (note.end_secs - note.start_secs)) * rate) as usize;
    let range = at(MIDDLE.0)..at(MIDDLE.1).min(audio.samples());
    let [left, right] = audio.channels();
    let mono = left.get(range.clone())?.iter().zip(right.get(range)?);
    pitch_hz(&mono.map(|(left, right)| f64::from(left + right)).collect::<Vec<f64>>(), rate)
}

/// Returns by how many cents a note is off; `None` if no pitch is heard.
fn cents_off(audio: &StereoAudio, note: &Note) -> Option<f64> {
    heard_hz(audio, note).map(|heard| 1200.0 * (heard / note.frequency_hz()).log2())
}

fn is_right(cents: Option<f64>) -> bool {
    cents.is_some_and(|cents| cents.abs() <= TOLERANCE_CENTS)
}

/// Returns how many notes of a melody are heard in a song.
fn notes_heard(audio: &StereoAudio, tune: &Tune) -> usize {
    tune.notes.iter().filter(|note| is_right(cents_off(audio, note))).count()
}

fn played(program: &Program, name: &str, more: &[&str]) -> StereoAudio {
    let ran = program.run(&[&["generate", "--demo", name, "--quiet"], more].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    read_wav(&program.path("song.wav")).expect("a stereo WAV file")
}

/// Returns a line per tune: the notes that are wanted, and how far off each is heard.
fn table(tune: &Tune, audio: &StereoAudio) -> String {
    let notes = tune.notes.iter().map(|note| match cents_off(audio, note) {
        Some(cents) => format!("{:.0} Hz {cents:+.0}", note.frequency_hz()),
        None => format!("{:.0} Hz unheard", note.frequency_hz()),
    });
    let (wanted, heard) = (tune.notes.len(), notes_heard(audio, tune));
    format!("{}: wanted {wanted}, heard {heard}; in cents: {}", tune.name, notes.collect::<Vec<_>>().join(", "))
}

#[test]
fn every_tune_is_played_note_by_note() {
    let program = Program::new();
    for tune in tunes() {
        let audio = played(&program, &tune.name, &[]);
        let table = table(&tune, &audio);
        eprintln!("{table}");
        assert_eq!(notes_heard(&audio, &tune), tune.notes.len(), "{table}");
        let seconds = tune.frames as f64 / 25.0;
        assert!((audio.duration_secs() - seconds).abs() < 0.05, "{} does not end where it should", tune.name);
        for other in tunes().iter().filter(|other| other.name != tune.name) {
            let heard = notes_heard(&audio, other);
            assert!(heard * 2 < other.notes.len() + 2, "{heard} notes of {} are heard in {}", other.name, tune.name);
        }
    }
}

#[test]
fn other_draws_play_the_same_tune() {
    let program = Program::new();
    let tune = &tunes()[0];
    for more in [&["--seed", "7"][..], &["--rng", "counter", "--seed", "8"], &["--precision", "f32"]] {
        let audio = played(&program, &tune.name, more);
        assert_eq!(notes_heard(&audio, tune), tune.notes.len(), "{more:?}: {}", table(tune, &audio));
    }
}

#[test]
fn noise_is_no_melody() {
    let audio = played(&Program::new(), "random", &["--max-seconds", "6"]);
    for tune in tunes() {
        let heard = notes_heard(&audio, &tune);
        assert!(heard * 3 < tune.notes.len(), "{heard} notes of {} are heard in noise", tune.name);
    }
}

#[test]
fn a_pitch_is_heard_to_a_few_cents_and_never_a_semitone_off() {
    let tone = |hertz: f64| -> Vec<f64> {
        let phase = |sample: usize| std::f64::consts::TAU * hertz * sample as f64 / 44_100.0;
        (0..6000).map(|sample| phase(sample).sin() + 0.4 * (2.0 * phase(sample)).sin()).collect()
    };
    for hertz in [261.6, 330.0, 441.7, 523.3] {
        let heard = pitch_hz(&tone(hertz), 44_100.0).expect("a tone has a pitch");
        assert!((1200.0 * (heard / hertz).log2()).abs() < 3.0, "{hertz} Hz is heard as {heard}");
        let note = |cents: f64| Some(1200.0 * (heard / (hertz * (cents / 1200.0).exp2())).log2());
        assert!(is_right(note(20.0)) && !is_right(note(100.0)) && !is_right(note(-100.0)));
    }
    assert_eq!(pitch_hz(&[0.0; 6000], 44_100.0), None, "silence has no pitch");
}

//! What a song's codes and levels tell of it, for `--verbose`: where it repeats itself, where it falls silent.

use std::collections::HashSet;

use music3::{Song, audio::StereoAudio};

/// Frames a second.
const FRAMES_PER_SEC: f64 = 25.0;

/// Frames that repetition is looked for in: 5 s.
const STRETCH: usize = 125;

/// Quieter is silence.
const SILENCE_DBFS: f64 = -60.0;

/// A pause this long at the end is part of a song.
const PAUSE_SECS: f64 = 0.5;

/// Returns what there is to tell.
pub(super) fn told(song: &Song) -> Vec<String> {
    let semantic: Vec<u32> = song.codes.iter().filter_map(|codes| codes.first().copied()).collect();
    let mut lines = vec![repetition(&semantic)];
    lines.extend(held(&semantic));
    lines.push(match silence(&song.audio) {
        Some(secs) => format!("silence: from {secs:.2} s to the end, below {SILENCE_DBFS} dBFS"),
        None => "silence: none at the end".to_owned(),
    });
    lines
}

/// Tells of the 5 s with the fewest different semantic codes.
fn repetition(semantic: &[u32]) -> String {
    let len = STRETCH.min(semantic.len());
    let distinct = |stretch: &[u32]| stretch.iter().collect::<HashSet<_>>().len();
    let stretches = semantic.windows(len.max(1)).map(distinct).enumerate();
    let Some((start, fewest)) = stretches.min_by_key(|(_, distinct)| *distinct) else {
        return "repetition: there are no codes".to_owned();
    };
    let all = distinct(semantic);
    format!(
        "repetition: {all} different semantic codes in {} frames; fewest in the {:.1} s from {:.2} s: {fewest} in {len}, {:.0} % \
         said again",
        semantic.len(),
        len as f64 / FRAMES_PER_SEC,
        start as f64 / FRAMES_PER_SEC,
        100.0 * (len - fewest) as f64 / len as f64
    )
}

/// Tells of a semantic code that is held for long: its longest run, if it is half a second.
fn held(semantic: &[u32]) -> Option<String> {
    let mut start = 0;
    let mut longest = 0..0;
    for run in semantic.chunk_by(|a, b| a == b) {
        if run.len() > longest.len() {
            longest = start..start + run.len();
        }
        start += run.len();
    }
    let secs = |frames: usize| frames as f64 / FRAMES_PER_SEC;
    (secs(longest.len()) >= PAUSE_SECS).then(|| {
        let code = semantic[longest.start];
        format!("held: semantic code {code} for {:.2} s from {:.2} s", secs(longest.len()), secs(longest.start))
    })
}

/// Returns when the silence at the end begins, in seconds, if it is longer than a pause.
fn silence(audio: &StereoAudio) -> Option<f64> {
    let threshold = 10.0_f32.powf(SILENCE_DBFS as f32 / 20.0);
    let loud = |channel: &Vec<f32>| channel.iter().rposition(|sample| sample.abs() >= threshold).map_or(0, |at| at + 1);
    let end = audio.channels().iter().map(loud).max().unwrap_or(0);
    let rate = f64::from(audio.sample_rate_hz());
    ((audio.samples() - end) as f64 / rate >= PAUSE_SECS).then_some(end as f64 / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_stretch_that_repeats() {
        // 200 different codes, then 125 of two.
        let semantic: Vec<u32> = (0..200).chain((0..125).map(|frame| 500 + frame % 2)).collect();
        let line = repetition(&semantic);
        assert!(line.starts_with("repetition: 202 different semantic codes in 325 frames"), "{line}");
        assert!(line.ends_with("the 5.0 s from 8.00 s: 2 in 125, 98 % said again"), "{line}");
        assert!(repetition(&[7]).ends_with("1 in 1, 0 % said again"));
        assert_eq!(held(&semantic), None);
    }

    #[test]
    fn finds_a_code_that_is_held() {
        let semantic = [vec![1, 2, 3], vec![9; 20], vec![4]].concat();
        assert_eq!(held(&semantic).expect("a run"), "held: semantic code 9 for 0.80 s from 0.12 s");
    }

    #[test]
    fn finds_the_silence_at_the_end() {
        let song = [vec![0.5; 100], vec![0.0005; 60]].concat();
        assert_eq!(silence(&StereoAudio::new([song.clone(), song], 100)), Some(1.0));
        let pause = [vec![0.5; 100], vec![0.0; 40]].concat();
        assert_eq!(silence(&StereoAudio::new([pause.clone(), pause], 100)), None);
        assert_eq!(silence(&StereoAudio::new([vec![0.0; 60], vec![0.0; 60]], 100)), Some(0.0));
    }
}

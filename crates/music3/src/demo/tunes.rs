//! The tunes that the trained demo checkpoint plays, as the script that trained it wrote them down.

use serde::Deserialize;

/// The list, written by `goldens/demo/train.py`.
static LISTING: &str = include_str!("../../../../goldens/demo/tunes.json");

/// A tune, and the words that it is asked for by.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tune {
    /// A short name, for the command line.
    pub name: String,
    /// What it is called.
    pub title: String,
    /// The caption it was trained under.
    pub caption: String,
    /// The lyrics it was trained under.
    pub lyrics: String,
    /// Its length at 25 frames a second; after them the model ends the song.
    pub frames: usize,
    /// The melody, in order.
    pub notes: Vec<Note>,
}

/// A note of a melody.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// Its pitch; 69 is the A of 440 Hz.
    pub midi: u8,
    /// When it begins.
    pub start_secs: f64,
    /// When it is over.
    pub end_secs: f64,
}

impl Note {
    /// Returns the frequency of its pitch in equal temperament.
    pub fn frequency_hz(&self) -> f64 {
        440.0 * ((f64::from(self.midi) - 69.0) / 12.0).exp2()
    }
}

/// Returns the tunes; the first is the one that is played unless another is asked for.
pub fn tunes() -> Vec<Tune> {
    serde_json::from_str(LISTING).expect("a file of this build, which a test reads")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tune_has_words_and_a_melody_in_order() {
        let tunes = tunes();
        assert!(tunes.len() >= 2);
        for tune in tunes {
            assert!(!tune.caption.is_empty() && !tune.lyrics.is_empty() && tune.notes.len() >= 8, "{tune:?}");
            for pair in tune.notes.windows(2) {
                assert!(pair[0].start_secs < pair[0].end_secs && pair[0].end_secs <= pair[1].start_secs, "{pair:?}");
            }
            let end = tune.notes.last().expect("notes").end_secs;
            assert!(end <= tune.frames as f64 / 25.0, "{} ends before its last note does", tune.name);
        }
    }

    #[test]
    fn pitches_are_those_of_the_piano() {
        let hertz = |midi| Note { midi, start_secs: 0.0, end_secs: 1.0 }.frequency_hz();
        assert_eq!(hertz(69), 440.0);
        assert!((hertz(60) - 261.6256).abs() < 1e-4);
    }
}

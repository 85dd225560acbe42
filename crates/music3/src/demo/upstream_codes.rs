//! Holds the codes of a song of the trained demo checkpoint against upstream's.

use music3_nn::Width;
use serde::Deserialize;

use crate::{autoregressive::FinishReason, precision::Precision, request::SongRequest, rng::Rng, song::Song};

/// What upstream draws for each tune, written by `goldens/generate/demo_codes.py`.
static UPSTREAM_CODES: &str = include_str!("../../../../goldens/demo/demo-codes.json");

/// How a song's codes compare with upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamCodes {
    /// Every code of every frame is the same, and the songs end alike.
    Equal {
        /// Frames that were compared.
        frames: usize,
    },
    /// A frame differs, or one of the songs is longer.
    DifferFrom {
        /// The first frame that differs, from 1.
        frame: usize,
    },
}

/// The recorded runs of upstream.
#[derive(Deserialize)]
struct Recorded {
    runs: Vec<RecordedRun>,
}

/// What upstream was asked for, and what it drew in each width.
#[derive(Deserialize)]
struct RecordedRun {
    caption: String,
    lyrics: String,
    max_seconds: f64,
    seed: u64,
    rng: Rng,
    bf16: RecordedCodes,
    f32: RecordedCodes,
}

/// A row of codes per decode step, of which the first is no frame.
#[derive(Deserialize)]
struct RecordedCodes {
    ended_by_end_token: bool,
    codes: Vec<Vec<u32>>,
}

impl RecordedRun {
    /// Returns what was drawn where the autoregressive half is stored in this width.
    fn drawn_in(self, width: Width) -> RecordedCodes {
        match width {
            Width::Bf16 => self.bf16,
            Width::F32 => self.f32,
        }
    }
}

fn recorded() -> Vec<RecordedRun> {
    let recorded: Recorded = serde_json::from_str(UPSTREAM_CODES).expect("a file of this build, which a test reads");
    recorded.runs
}

/// Compares a song of the trained demo checkpoint with the one that upstream makes from the same request, under MATH
/// attention; `None` if no such run of upstream is recorded. The codes do not depend on the number of steps.
pub fn compare_with_upstream(request: &SongRequest, precision: Precision, song: &Song) -> Option<UpstreamCodes> {
    let asked = (&request.caption, &request.lyrics, request.max_seconds, request.seed, request.rng);
    let run =
        recorded().into_iter().find(|run| asked == (&run.caption, &run.lyrics, run.max_seconds, run.seed, run.rng))?;
    let upstream = run.drawn_in(precision.autoregressive());
    let frames = &upstream.codes[1..];
    let differing = song.codes.iter().zip(frames).position(|(ours, upstream)| ours != upstream);
    let ended = song.finish == FinishReason::EndToken;
    Some(match differing {
        Some(index) => UpstreamCodes::DifferFrom { frame: index + 1 },
        None if song.codes.len() == frames.len() && ended == upstream.ended_by_end_token => {
            UpstreamCodes::Equal { frames: frames.len() }
        }
        None => UpstreamCodes::DifferFrom { frame: song.codes.len().min(frames.len()) + 1 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::tunes;

    fn song(codes: Vec<Vec<u32>>, finish: FinishReason) -> Song {
        let audio = music3_audio::StereoAudio::new([vec![0.0], vec![0.0]], 44_100);
        Song { audio, codes, finish, prompt_tokens: None, timings: Vec::new() }
    }

    fn request(run: &RecordedRun) -> SongRequest {
        SongRequest { max_seconds: run.max_seconds, ..SongRequest::new(&*run.caption, &*run.lyrics) }
    }

    #[test]
    fn every_tune_is_recorded_to_its_end() {
        let runs = recorded();
        assert_eq!(runs.len(), tunes().len());
        for (run, tune) in runs.iter().zip(tunes()) {
            assert_eq!((&run.caption, &run.lyrics), (&tune.caption, &tune.lyrics));
            for codes in [&run.bf16, &run.f32] {
                assert_eq!((codes.codes.len(), codes.ended_by_end_token), (tune.frames + 1, true), "{}", tune.name);
            }
        }
    }

    #[test]
    fn codes_are_called_equal_only_if_all_are() {
        for run in recorded() {
            let request = request(&run);
            let codes = run.f32.codes[1..].to_vec();
            let count = codes.len();
            let compare =
                |codes: Vec<Vec<u32>>, finish| compare_with_upstream(&request, Precision::F32, &song(codes, finish));
            let end = FinishReason::EndToken;
            assert_eq!(compare(codes.clone(), end), Some(UpstreamCodes::Equal { frames: count }));
            for (frame, codebook) in [(0, 0), (57, 7), (count - 1, 3)] {
                let mut other = codes.clone();
                other[frame][codebook] += 1;
                assert_eq!(compare(other, end), Some(UpstreamCodes::DifferFrom { frame: frame + 1 }));
            }
            assert_eq!(compare(codes[..60].to_vec(), end), Some(UpstreamCodes::DifferFrom { frame: 61 }));
            let cap = FinishReason::FrameCap;
            assert_eq!(compare(codes.clone(), cap), Some(UpstreamCodes::DifferFrom { frame: count + 1 }));
            let longer = [codes.clone(), codes[..1].to_vec()].concat();
            assert_eq!(compare(longer, end), Some(UpstreamCodes::DifferFrom { frame: count + 1 }));
        }
    }

    #[test]
    fn each_width_is_held_against_its_own_codes() {
        let mut run = recorded().remove(0);
        run.bf16.codes[1][7] += 1;
        let (bf16, f32) = (run.bf16.codes.clone(), run.f32.codes.clone());
        assert_eq!(run.drawn_in(Width::Bf16).codes, bf16);
        let run = RecordedRun { bf16: recorded().remove(0).bf16, ..recorded().remove(0) };
        assert_eq!(run.drawn_in(Width::F32).codes, f32);
        assert_ne!(bf16, f32);
    }

    #[test]
    fn other_requests_are_not_compared() {
        let base = request(&recorded()[0]);
        let nothing = song(Vec::new(), FinishReason::FrameCap);
        let others = [
            SongRequest { seed: 1, ..base.clone() },
            SongRequest { max_seconds: 3.0, ..base.clone() },
            SongRequest { rng: Rng::Counter, ..base.clone() },
            SongRequest { caption: "punk".into(), ..base.clone() },
            SongRequest { lyrics: "la".into(), ..base.clone() },
        ];
        for request in others {
            assert_eq!(compare_with_upstream(&request, Precision::Mixed, &nothing), None);
        }
        let steps = SongRequest { steps: 1, ..base };
        let found = compare_with_upstream(&steps, Precision::Mixed, &nothing);
        assert_eq!(found, Some(UpstreamCodes::DifferFrom { frame: 1 }));
    }
}

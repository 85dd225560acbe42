//! The free replay: prompt, lyrics, length, steps and seed, and nothing else.

use std::sync::{Arc, Mutex};

use burn::tensor::backend::Backend;
use music3::{
    FinishReason, Precision, Sampler, SongError,
    autoregressive::{CodeSource, Frames},
    flow::NoiseSource,
    rng::{NoiseDtype, Randomness, TorchGenerator},
    sampling::{SAMPLING_TOP_K, sample_probabilities},
};
use music3_audio::StereoAudio;
use music3_text::token_ids::{AUDIO_END, SEMANTIC_CODE_OFFSET};

use super::{Replay, is_about_the_checkpoint, unreadable};
use crate::{
    CheckError,
    case::CaseFile,
    judge::Judge,
    output::{DtypeRule, Met, Recorded, Widened},
    report::{FreeOutcome, FreeRun},
    row::Row,
    values::Values,
};

/// What a free replay found out.
pub(super) struct Free {
    pub(super) run: FreeRun,
    pub(super) rows: Vec<Row>,
}

/// Returns the codes and noise that a request's seed gives.
pub(super) fn from_seed<B: Backend>(replay: &Replay<'_, B>) -> Sampler<TorchGenerator> {
    Sampler::new(TorchGenerator::new(replay.request.seed), replay.music.configs().language_model.vocab_size)
}

pub(super) fn run<B: Backend>(replay: &Replay<'_, B>) -> Result<Free, CheckError> {
    let case = replay.case;
    let under_math = case.optional::<String>("attention")?.is_some_and(|attention| attention == "math");
    let chosen = replay.precision != case.precision();
    let gate = !chosen && (case.precision() == Precision::F32 || under_math);
    if !draws_can_be_repeated(replay)? {
        let detail = "upstream drew its exponentials through MKL, whose numbers are others".to_owned();
        return Ok(Free { run: FreeRun { outcome: FreeOutcome::NotApplicable, gate, detail }, rows: Vec::new() });
    }
    let finished = |outcome, detail: String| Free { run: FreeRun { outcome, gate, detail }, rows: Vec::new() };
    let expected = expected_draws(replay)?;
    let mut source = from_seed(replay);
    let frames = match replay.frames(&mut source, &mut replay.stoppable()) {
        Err(error) if is_about_the_checkpoint(&error) => return Err(unreadable(case, error)),
        Ok(frames) if draws(&frames) == expected => frames,
        // Where the device draws by itself nobody sees how; a second run asks for each draw and says which one differs.
        _ => return explain(replay, expected).map(|detail| finished(FreeOutcome::Differs, detail)),
    };
    let rows = match (RecordedAudio::of(case)?, case.leaves_out("audios")) {
        (Some(recorded), _) => vec![audio_row(replay, recorded, frames, &mut source)?],
        (None, true) => Vec::new(),
        (None, false) => vec![
            Row::new("audios (free)", "capture", "f32")
                .failed("the capture holds no `audios`, and its `omitted` does not name them"),
        ],
    };
    let detail = format!("{} draws", expected.len());
    Ok(Free { rows, ..finished(FreeOutcome::Equal, detail) })
}

/// Returns the draws of a run in order: token ids for semantic codes, codes for residual ones.
fn draws<B: Backend>(frames: &Frames<B>) -> Vec<i64> {
    let mut draws = Vec::new();
    for codes in &frames.codes {
        let (semantic, residual) = codes.split_first().expect("a frame has a semantic code");
        draws.push(i64::from(semantic + SEMANTIC_CODE_OFFSET));
        draws.extend(residual.iter().map(|code| i64::from(*code)));
    }
    if frames.finish == FinishReason::EndToken {
        draws.push(AUDIO_END.into());
    }
    draws
}

/// Says where a run from the seed leaves upstream's, and by how narrow a margin.
fn explain<B: Backend>(replay: &Replay<'_, B>, expected: Vec<i64>) -> Result<String, CheckError> {
    let mut watched = Watched::new(replay, expected);
    match (replay.frames(&mut watched, &mut replay.stoppable()), watched.verdict()) {
        (Err(error), _) if is_about_the_checkpoint(&error) => Err(unreadable(replay.case, error)),
        (_, Err(difference)) => Ok(difference),
        (Err(error), Ok(())) => Ok(format!("it stopped: {error}")),
        (Ok(_), Ok(())) => Ok("the codes that the device draws by itself are others".to_owned()),
    }
}

/// The audio that a capture holds: all of it, or every few samples.
struct RecordedAudio {
    name: String,
    every: usize,
}

impl RecordedAudio {
    /// # Errors
    /// A name that gives no number of samples.
    fn of(case: &CaseFile) -> Result<Option<Self>, CheckError> {
        const THINNED: &str = "audios_every_";
        if case.holds("audios") {
            return Ok(Some(Self { name: "audios".to_owned(), every: 1 }));
        }
        if !case.has_tensors() {
            return Ok(None);
        }
        let file = case.tensors()?;
        let Some(name) = file.names().find(|name| name.starts_with(THINNED)) else { return Ok(None) };
        match name[THINNED.len()..].parse() {
            Ok(every) if every > 0 => Ok(Some(Self { name: name.to_owned(), every })),
            _ => Err(CheckError::Name {
                path: file.path().to_owned(),
                name: name.to_owned(),
                problem: "expected audios_every_ and a number of samples",
            }),
        }
    }

    /// Returns the same samples of audio that was made here.
    fn same_of(&self, audio: &StereoAudio) -> Values {
        let channels = audio.channels();
        let kept: Vec<f32> = channels.iter().flat_map(|channel| channel.iter().step_by(self.every).copied()).collect();
        let samples = kept.len() / channels.len();
        Values::f32(kept, [1, channels.len(), samples])
    }
}

/// Compares the audio that the same codes and the seed's own noise lead to.
fn audio_row<B: Backend>(
    replay: &Replay<'_, B>,
    recorded: RecordedAudio,
    frames: Frames<B>,
    noise: &mut dyn NoiseSource,
) -> Result<Row, CheckError> {
    let case = replay.case;
    let audio = replay.audio(frames, noise, &mut replay.stoppable()).map_err(|error: SongError| case.stopped(error))?;
    let RecordedAudio { name, .. } = &recorded;
    let ours = Some(recorded.same_of(&audio));
    let upstream = case.stored(name)?;
    let met = Recorded { reference: "capture", upstream, default: None, single: None };
    let row = match met.meet(name, ours, DtypeRule::Chosen, Widened::No) {
        Met::Floats(output) => Judge::new(case, replay.scale()).alone(&output),
        Met::Wrong(row) | Met::Ints { row, .. } => row,
    };
    Ok(Row { name: format!("{name} (free)"), ..row })
}

/// Compares the first exponentials of seed 0 that a capture holds with ours.
fn draws_can_be_repeated<B: Backend>(replay: &Replay<'_, B>) -> Result<bool, CheckError> {
    const PROBE: &str = "probe_exponential";
    if !replay.case.holds(PROBE) {
        return Ok(true);
    }
    let (upstream, _) = replay.case.floats(PROBE)?;
    let columns: Vec<usize> = (0..upstream.len()).collect();
    Ok(TorchGenerator::new(0).exponential_columns(upstream.len(), &columns) == upstream)
}

/// The exponentials of the last draw, by column of the row that was drawn from.
type LastDraw = Arc<Mutex<Vec<(usize, f32)>>>;

/// Lets the last draw be looked at.
#[derive(Clone)]
struct Recording {
    generator: TorchGenerator,
    last: LastDraw,
}

impl Randomness for Recording {
    fn exponential_columns(&mut self, row_len: usize, columns: &[usize]) -> Vec<f32> {
        let values = self.generator.exponential_columns(row_len, columns);
        *self.last.lock().expect("no draw fails") = columns.iter().copied().zip(values.iter().copied()).collect();
        values
    }

    fn standard_normal(&mut self, len: usize, dtype: NoiseDtype) -> Vec<f32> {
        self.generator.standard_normal(len, dtype)
    }
}

/// Draws from the seed, and compares every draw with the capture's as it falls.
struct Watched {
    sampler: Sampler<Recording>,
    last: LastDraw,
    /// Upstream's draws in order: token ids for semantic codes, codes for residual ones.
    expected: Vec<i64>,
    drawn: usize,
    difference: Option<String>,
}

/// One draw to compare.
struct Draw<'a> {
    frame: usize,
    codebook: usize,
    /// What was drawn, as a column of the row it was drawn from.
    column: i64,
    /// The logits it was drawn by.
    guided: &'a [f32],
    /// The index in `guided` of a column.
    index_of: fn(i64) -> i64,
}

impl Watched {
    fn new<B: Backend>(replay: &Replay<'_, B>, expected: Vec<i64>) -> Self {
        let last = LastDraw::default();
        let recording = Recording { generator: TorchGenerator::new(replay.request.seed), last: last.clone() };
        let sampler = Sampler::new(recording, replay.music.configs().language_model.vocab_size);
        Self { sampler, last, expected, drawn: 0, difference: None }
    }

    /// Notes a difference; after the first, what follows means nothing.
    fn compare(&mut self, draw: Draw<'_>) {
        let expected = self.expected.get(self.drawn).copied();
        self.drawn += 1;
        if self.difference.is_some() || expected == Some(draw.column) {
            return;
        }
        let Draw { frame, codebook, column, .. } = draw;
        let place = format!("frame {frame}, codebook c{codebook}");
        self.difference = Some(match expected {
            None => format!("{place}: upstream had stopped before"),
            Some(expected) => {
                let margin = self.margin(&draw, expected);
                format!("{place}: drew {column}, upstream {expected}; {margin}")
            }
        });
    }

    /// Returns by how much the drawn column won over upstream's, in words.
    fn margin(&self, draw: &Draw<'_>, expected: i64) -> String {
        let probabilities = sample_probabilities(draw.guided, SAMPLING_TOP_K);
        let quotient = |column: i64| {
            let index = usize::try_from((draw.index_of)(column)).ok()?;
            let last = self.last.lock().expect("no draw fails");
            let (_, exponential) = last.iter().find(|(drawn, _)| *drawn as i64 == column)?;
            Some(f64::from(*probabilities.get(index)?) / f64::from(*exponential))
        };
        match (quotient(draw.column), quotient(expected)) {
            (Some(ours), Some(theirs)) => format!("decided by {:.2e}", ours / theirs - 1.0),
            _ => "upstream's was no candidate".to_owned(),
        }
    }

    fn verdict(&self) -> Result<(), String> {
        match &self.difference {
            Some(difference) => Err(difference.clone()),
            None if self.drawn < self.expected.len() => {
                Err(format!("{} draws, upstream made {}", self.drawn, self.expected.len()))
            }
            None => Ok(()),
        }
    }
}

impl CodeSource for Watched {
    fn semantic(&mut self, step: usize, guided: &[f32]) -> Option<u32> {
        if self.difference.is_some() {
            return None;
        }
        let code = self.sampler.semantic(step, guided);
        let column = i64::from(code.map_or(AUDIO_END, |code| code + SEMANTIC_CODE_OFFSET));
        let index_of =
            |column| if column == i64::from(AUDIO_END) { 0 } else { column - i64::from(SEMANTIC_CODE_OFFSET) + 1 };
        self.compare(Draw { frame: step, codebook: 0, column, guided, index_of });
        code
    }

    fn residual(&mut self, step: usize, codebook: usize, guided: &[f32]) -> u32 {
        let code = self.sampler.residual(step, codebook, guided);
        self.compare(Draw { frame: step, codebook, column: code.into(), guided, index_of: |column| column });
        code
    }
}

/// Returns upstream's draws in order.
fn expected_draws<B: Backend>(replay: &Replay<'_, B>) -> Result<Vec<i64>, CheckError> {
    let case = replay.case;
    if case.holds("sampled_flat") {
        return case.ints("sampled_flat");
    }
    if let Some(draws) = case.optional("sampled_flat")? {
        return Ok(draws);
    }
    let codebooks = replay.music.configs().rvq_depth_decoder.num_codebooks;
    let mut draws = case.ints("codes")?;
    draws.iter_mut().step_by(codebooks).for_each(|code| *code += i64::from(SEMANTIC_CODE_OFFSET));
    if case.optional("ended_by_end_token")?.unwrap_or(false) {
        draws.push(AUDIO_END.into());
    }
    Ok(draws)
}

//! Codes and noise drawn from one generator, in upstream's order.

use std::{
    panic::resume_unwind,
    thread::{self, JoinHandle},
};

use music3_nn::Width;
use music3_text::token_ids::{AUDIO_END, SEMANTIC_CODE_OFFSET, SEMANTIC_CODES};

use crate::{
    autoregressive::{CodeSource, FinishReason},
    flow::NoiseSource,
    rng::{NoiseDtype, Place, Randomness, multinomial, multinomial_sparse},
    sampling::{SAMPLING_TOP_K, sample_probabilities},
};

/// Draws a song's codes and noise. One generator feeds both halves: per decode step the semantic code and then the
/// residual ones, then per window its noise.
#[derive(Debug)]
pub struct Sampler<R> {
    randomness: R,
    vocab_size: usize,
    /// Where the generator stood after the semantic draw of the step whose numbers were given last.
    after_semantic: Option<(usize, R)>,
    /// The next step's numbers, drawn while the device works on this one: they take a host about a millisecond.
    ahead: Option<(Asked, JoinHandle<Drawn<R>>)>,
}

/// The sizes of the draws of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    step: usize,
    residual_codebooks: usize,
    codes: usize,
}

/// A step's numbers, and where the generator stands after them.
#[derive(Debug)]
struct Drawn<R> {
    numbers: Vec<f32>,
    after_semantic: R,
    after: R,
}

impl Asked {
    /// Draws the numbers of all codes of the step.
    fn draw<R: Randomness + Clone>(self, mut randomness: R, vocab_size: usize) -> Drawn<R> {
        let Self { step, residual_codebooks, codes } = self;
        let audio_rows: Vec<usize> = std::iter::once(AUDIO_END as usize)
            .chain((0..SEMANTIC_CODES).map(|code| (SEMANTIC_CODE_OFFSET + code) as usize))
            .collect();
        randomness.begin(Place::Code { step, codebook: 0 });
        let mut numbers = randomness.exponential_columns(vocab_size, &audio_rows);
        let after_semantic = randomness.clone();
        let columns: Vec<usize> = (0..codes).collect();
        for codebook in 1..=residual_codebooks {
            randomness.begin(Place::Code { step, codebook });
            numbers.extend(randomness.exponential_columns(codes, &columns));
        }
        Drawn { numbers, after_semantic, after: randomness }
    }
}

impl<R> Sampler<R> {
    /// Returns a sampler; a semantic draw covers the whole vocabulary of `vocab_size` tokens, though only the audio
    /// rows can win it, because that is how many random numbers upstream draws.
    pub fn new(randomness: R, vocab_size: usize) -> Self {
        Self { randomness, vocab_size, after_semantic: None, ahead: None }
    }

    /// Returns the generator for other draws than the next step's.
    fn randomness(&mut self) -> &mut R {
        (self.ahead, self.after_semantic) = (None, None);
        &mut self.randomness
    }
}

impl<R: Randomness> Sampler<R> {
    /// Passes over the draws that these frames took, so that the noise that comes next is what came next then.
    ///
    /// `codes` holds one row per decode step, as in [`Frames`](crate::autoregressive::Frames); `audio_vocab_size` is the
    /// number of codes in a residual codebook. A song's noise thus needs no recorded state, only the seed.
    pub fn pass_over(&mut self, codes: &[Vec<u32>], finish: FinishReason, audio_vocab_size: usize) {
        let vocab_size = self.vocab_size;
        let randomness = self.randomness();
        let mut pass = |step, codebook, row_len| {
            randomness.begin(Place::Code { step, codebook });
            randomness.exponential_columns(row_len, &[]);
        };
        for (step, row) in codes.iter().enumerate() {
            pass(step, 0, vocab_size);
            (1..row.len()).for_each(|codebook| pass(step, codebook, audio_vocab_size));
        }
        // The end token is a semantic draw of its own, after which nothing else is drawn.
        if finish == FinishReason::EndToken {
            pass(codes.len(), 0, vocab_size);
        }
    }
}

impl<R: Randomness + Clone + Send + 'static> CodeSource for Sampler<R> {
    fn semantic(&mut self, step: usize, guided: &[f32]) -> Option<u32> {
        let vocab_size = self.vocab_size;
        let randomness = self.randomness();
        randomness.begin(Place::Code { step, codebook: 0 });
        let probabilities = sample_probabilities(guided, SAMPLING_TOP_K);
        let (end, codes) = probabilities.split_first().expect("the end token is always a candidate row");
        let mut candidates = vec![(AUDIO_END as usize, *end)];
        candidates.extend(codes.iter().enumerate().map(|(code, &p)| (SEMANTIC_CODE_OFFSET as usize + code, p)));
        let token = multinomial_sparse(vocab_size, &candidates, randomness) as u32;
        token.checked_sub(SEMANTIC_CODE_OFFSET)
    }

    fn residual(&mut self, step: usize, codebook: usize, guided: &[f32]) -> u32 {
        let randomness = self.randomness();
        randomness.begin(Place::Code { step, codebook });
        multinomial(&sample_probabilities(guided, SAMPLING_TOP_K), randomness) as u32
    }

    fn exponentials(&mut self, step: usize, residual_codebooks: usize, codes: usize) -> Option<Vec<f32>> {
        let (asked, vocab_size) = (Asked { step, residual_codebooks, codes }, self.vocab_size);
        let drawn = match self.ahead.take() {
            Some((drawing, thread)) if drawing == asked => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            _ => asked.draw(self.randomness.clone(), vocab_size),
        };
        self.randomness = drawn.after;
        self.after_semantic = Some((step, drawn.after_semantic));
        let (next, randomness) = (Asked { step: step + 1, ..asked }, self.randomness.clone());
        let thread = thread::Builder::new().name("draws ahead".to_owned());
        // Where there is no thread, the next step draws its numbers itself.
        self.ahead = thread.spawn(move || next.draw(randomness, vocab_size)).ok().map(|thread| (next, thread));
        Some(drawn.numbers)
    }

    fn ended(&mut self, step: usize) {
        if let Some((_, after_semantic)) = self.after_semantic.take().filter(|(of, _)| *of == step) {
            *self.randomness() = after_semantic;
        }
    }
}

impl<R: Randomness> NoiseSource for Sampler<R> {
    fn noise(&mut self, window: usize, len: usize, width: Width) -> Vec<f32> {
        let randomness = self.randomness();
        randomness.begin(Place::Noise { window });
        let dtype = match width {
            Width::F32 => NoiseDtype::F32,
            Width::Bf16 => NoiseDtype::Bf16,
        };
        randomness.standard_normal(len, dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Generator, Rng};

    const RNGS: [Rng; 2] = [Rng::Torch, Rng::Counter];
    const VOCAB_SIZE: usize = 170_000;
    const CODES: usize = 80;

    fn sampler(rng: Rng, seed: u64) -> Sampler<Generator> {
        Sampler::new(Generator::new(rng, seed), VOCAB_SIZE)
    }

    /// Logits that leave many candidates.
    fn logits(len: usize, step: usize) -> Vec<f32> {
        (0..len).map(|index| ((index * 37 + step * 11) % 101) as f32 / 40.0).collect()
    }

    fn step(sampler: &mut Sampler<Generator>, step: usize) -> Vec<u32> {
        let mut semantic = logits(300, step);
        semantic[0] = f32::NEG_INFINITY;
        let mut codes = vec![sampler.semantic(step, &semantic).expect("the end token is no candidate")];
        codes.extend((1..8).map(|codebook| sampler.residual(step, codebook, &logits(CODES, step + codebook))));
        codes
    }

    #[test]
    fn passing_over_frames_leads_to_the_noise_after_them() {
        for rng in RNGS {
            for finish in [FinishReason::FrameCap, FinishReason::EndToken] {
                let mut drawn = sampler(rng, 5);
                let codes: Vec<Vec<u32>> = (0..4).map(|index| step(&mut drawn, index)).collect();
                if finish == FinishReason::EndToken {
                    let end: Vec<f32> = (0..300).map(|index| if index == 0 { 500.0 } else { 0.0 }).collect();
                    assert_eq!(drawn.semantic(4, &end), None);
                }
                let mut passed = sampler(rng, 5);
                passed.pass_over(&codes, finish, CODES);
                for (window, width) in [Width::F32, Width::Bf16, Width::F32].into_iter().enumerate() {
                    let noise = drawn.noise(window, 100, width);
                    assert_eq!(passed.noise(window, 100, width), noise, "{rng}, {finish}, window {window}");
                }
            }
        }
    }

    #[test]
    fn numbers_drawn_ahead_are_taken_back() {
        let residual = 7;
        for rng in RNGS {
            let codes = vec![vec![0; residual + 1]; 4];
            // The cap was reached: the numbers of the step that never came were not drawn.
            let mut capped = sampler(rng, 5);
            for index in 0..4 {
                capped.exponentials(index, residual, CODES).expect("a generator gives numbers");
            }
            let mut passed = sampler(rng, 5);
            passed.pass_over(&codes, FinishReason::FrameCap, CODES);
            assert_eq!(capped.noise(0, 100, Width::F32), passed.noise(0, 100, Width::F32), "{rng}, capped");
            // The end token was drawn: the numbers of its residual codes are taken back.
            let mut ended = sampler(rng, 5);
            for index in 0..5 {
                ended.exponentials(index, residual, CODES).expect("a generator gives numbers");
            }
            ended.ended(4);
            let mut passed = sampler(rng, 5);
            passed.pass_over(&codes, FinishReason::EndToken, CODES);
            assert_eq!(ended.noise(0, 100, Width::F32), passed.noise(0, 100, Width::F32), "{rng}, ended");
        }
    }

    #[test]
    fn numbers_drawn_ahead_are_those_drawn_when_asked() {
        for rng in RNGS {
            let mut ahead = sampler(rng, 5);
            let mut randomness = Generator::new(rng, 5);
            // Other sizes than those that were drawn ahead, and a draw between two steps.
            for (step, codes) in [(0, CODES), (1, CODES), (2, CODES - 1), (4, CODES - 1)] {
                let drawn = Asked { step, residual_codebooks: 3, codes }.draw(randomness, VOCAB_SIZE);
                assert_eq!(ahead.exponentials(step, 3, codes), Some(drawn.numbers), "{rng}, step {step}");
                randomness = drawn.after;
                if step == 2 {
                    let guided = logits(CODES, 0);
                    let code = ahead.residual(3, 1, &guided);
                    randomness.begin(Place::Code { step: 3, codebook: 1 });
                    let probabilities = sample_probabilities(&guided, SAMPLING_TOP_K);
                    assert_eq!(code as usize, multinomial(&probabilities, &mut randomness));
                }
            }
        }
    }

    #[test]
    fn songs_made_together_are_the_songs_made_alone() {
        for rng in RNGS {
            let alone = [5, 6].map(|seed| {
                let mut sampler = sampler(rng, seed);
                (0..6).map(|index| step(&mut sampler, index)).collect::<Vec<_>>()
            });
            let mut together = [5, 6].map(|seed| sampler(rng, seed));
            let mut songs = [Vec::new(), Vec::new()];
            for index in 0..6 {
                for (song, sampler) in songs.iter_mut().zip(&mut together) {
                    song.push(step(sampler, index));
                }
            }
            assert_eq!(songs, alone, "{rng}");
            assert_ne!(alone[0], alone[1]);
        }
    }

    #[test]
    fn with_a_counter_an_earlier_draw_moves_nothing() {
        let mut shorter = sampler(Rng::Counter, 5);
        let mut longer = sampler(Rng::Counter, 5);
        step(&mut longer, 0);
        assert_eq!(step(&mut shorter, 1), step(&mut longer, 1));
        assert_eq!(shorter.noise(0, 50, Width::F32), longer.noise(0, 50, Width::F32));
        // Torch's numbers follow each other.
        let mut shorter = sampler(Rng::Torch, 5);
        let mut longer = sampler(Rng::Torch, 5);
        step(&mut longer, 0);
        assert_ne!(step(&mut shorter, 1), step(&mut longer, 1));
    }
}

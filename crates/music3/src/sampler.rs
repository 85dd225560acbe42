//! Codes and noise drawn from one generator, in upstream's order.

use std::collections::VecDeque;

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
    /// States that may be gone back to, of the last two steps whose numbers were given.
    states: VecDeque<States<R>>,
}

/// Where the generator stood in a step.
#[derive(Debug)]
struct States<R> {
    step: usize,
    before: R,
    after_semantic: R,
}

impl<R: Randomness> Sampler<R> {
    /// Returns a sampler; a semantic draw covers the whole vocabulary of `vocab_size` tokens, though only the audio
    /// rows can win it, because that is how many random numbers upstream draws.
    pub fn new(randomness: R, vocab_size: usize) -> Self {
        Self { randomness, vocab_size, states: VecDeque::new() }
    }

    /// Passes over the draws that these frames took, so that the noise that comes next is what came next then.
    ///
    /// `codes` holds one row per decode step, as in [`Frames`](crate::autoregressive::Frames); `audio_vocab_size` is the
    /// number of codes in a residual codebook. A song's noise thus needs no recorded state, only the seed.
    pub fn pass_over(&mut self, codes: &[Vec<u32>], finish: FinishReason, audio_vocab_size: usize) {
        let mut pass = |step, codebook, row_len| {
            self.randomness.begin(Place::Code { step, codebook });
            self.randomness.exponential_columns(row_len, &[]);
        };
        for (step, row) in codes.iter().enumerate() {
            pass(step, 0, self.vocab_size);
            (1..row.len()).for_each(|codebook| pass(step, codebook, audio_vocab_size));
        }
        // The end token is a semantic draw of its own, after which nothing else is drawn.
        if finish == FinishReason::EndToken {
            pass(codes.len(), 0, self.vocab_size);
        }
    }
}

impl<R> Sampler<R> {
    /// Returns the states of a step and forgets those after it.
    fn taken_back(&mut self, step: usize) -> Option<States<R>> {
        while self.states.front().is_some_and(|states| states.step > step) {
            self.states.pop_front();
        }
        if self.states.front()?.step == step { self.states.pop_front() } else { None }
    }
}

impl<R: Randomness + Clone> CodeSource for Sampler<R> {
    fn semantic(&mut self, step: usize, guided: &[f32]) -> Option<u32> {
        self.randomness.begin(Place::Code { step, codebook: 0 });
        let probabilities = sample_probabilities(guided, SAMPLING_TOP_K);
        let (end, codes) = probabilities.split_first().expect("the end token is always a candidate row");
        let mut candidates = vec![(AUDIO_END as usize, *end)];
        candidates.extend(codes.iter().enumerate().map(|(code, &p)| (SEMANTIC_CODE_OFFSET as usize + code, p)));
        let token = multinomial_sparse(self.vocab_size, &candidates, &mut self.randomness) as u32;
        token.checked_sub(SEMANTIC_CODE_OFFSET)
    }

    fn residual(&mut self, step: usize, codebook: usize, guided: &[f32]) -> u32 {
        self.randomness.begin(Place::Code { step, codebook });
        multinomial(&sample_probabilities(guided, SAMPLING_TOP_K), &mut self.randomness) as u32
    }

    fn exponentials(&mut self, step: usize, residual_codebooks: usize, codes: usize) -> Option<Vec<f32>> {
        let audio_rows: Vec<usize> = std::iter::once(AUDIO_END as usize)
            .chain((0..SEMANTIC_CODES).map(|code| (SEMANTIC_CODE_OFFSET + code) as usize))
            .collect();
        let before = self.randomness.clone();
        self.randomness.begin(Place::Code { step, codebook: 0 });
        let mut numbers = self.randomness.exponential_columns(self.vocab_size, &audio_rows);
        let after_semantic = self.randomness.clone();
        self.states.truncate(1);
        self.states.push_front(States { step, before, after_semantic });
        let columns: Vec<usize> = (0..codes).collect();
        for codebook in 1..=residual_codebooks {
            self.randomness.begin(Place::Code { step, codebook });
            numbers.extend(self.randomness.exponential_columns(codes, &columns));
        }
        Some(numbers)
    }

    fn ended(&mut self, step: usize) {
        if let Some(states) = self.taken_back(step) {
            self.randomness = states.after_semantic;
        }
    }

    fn unused(&mut self, step: usize) {
        if let Some(states) = self.taken_back(step) {
            self.randomness = states.before;
        }
    }
}

impl<R: Randomness> NoiseSource for Sampler<R> {
    fn noise(&mut self, window: usize, len: usize, width: Width) -> Vec<f32> {
        self.randomness.begin(Place::Noise { window });
        let dtype = match width {
            Width::F32 => NoiseDtype::F32,
            Width::Bf16 => NoiseDtype::Bf16,
        };
        self.randomness.standard_normal(len, dtype)
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
            // The cap was reached: the numbers of a step that never came are taken back.
            let mut capped = sampler(rng, 5);
            for index in 0..5 {
                capped.exponentials(index, residual, CODES).expect("a generator gives numbers");
            }
            capped.unused(4);
            let mut passed = sampler(rng, 5);
            passed.pass_over(&codes, FinishReason::FrameCap, CODES);
            assert_eq!(capped.noise(0, 100, Width::F32), passed.noise(0, 100, Width::F32), "{rng}, capped");
            // The end token was drawn: so are those of its residual codes, and of the step after it.
            let mut ended = sampler(rng, 5);
            for index in 0..6 {
                ended.exponentials(index, residual, CODES).expect("a generator gives numbers");
            }
            ended.ended(4);
            let mut passed = sampler(rng, 5);
            passed.pass_over(&codes, FinishReason::EndToken, CODES);
            assert_eq!(ended.noise(0, 100, Width::F32), passed.noise(0, 100, Width::F32), "{rng}, ended");
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

//! Codes and noise drawn from one generator, in upstream's order.

use music3_nn::Width;
use music3_text::token_ids::{AUDIO_END, SEMANTIC_CODE_OFFSET, SEMANTIC_CODES};

use crate::{
    autoregressive::CodeSource,
    flow::NoiseSource,
    rng::{NoiseDtype, Randomness, multinomial, multinomial_sparse},
    sampling::{SAMPLING_TOP_K, sample_probabilities},
};

/// Draws a song's codes and noise. One generator feeds both halves: per decode step the semantic code and then the
/// residual ones, then per window its noise.
#[derive(Debug)]
pub struct Sampler<R> {
    randomness: R,
    vocab_size: usize,
    /// The state behind the semantic draw of the step whose numbers were given last.
    after_semantic: Option<R>,
}

impl<R: Randomness> Sampler<R> {
    /// Returns a sampler; a semantic draw covers the whole vocabulary of `vocab_size` tokens, though only the audio
    /// rows can win it, because that is how many random numbers upstream draws.
    pub fn new(randomness: R, vocab_size: usize) -> Self {
        Self { randomness, vocab_size, after_semantic: None }
    }
}

impl<R: Randomness + Clone> CodeSource for Sampler<R> {
    fn semantic(&mut self, _step: usize, guided: &[f32]) -> Option<u32> {
        let probabilities = sample_probabilities(guided, SAMPLING_TOP_K);
        let (end, codes) = probabilities.split_first().expect("the end token is always a candidate row");
        let mut candidates = vec![(AUDIO_END as usize, *end)];
        candidates.extend(codes.iter().enumerate().map(|(code, &p)| (SEMANTIC_CODE_OFFSET as usize + code, p)));
        let token = multinomial_sparse(self.vocab_size, &candidates, &mut self.randomness) as u32;
        token.checked_sub(SEMANTIC_CODE_OFFSET)
    }

    fn residual(&mut self, _step: usize, _codebook: usize, guided: &[f32]) -> u32 {
        multinomial(&sample_probabilities(guided, SAMPLING_TOP_K), &mut self.randomness) as u32
    }

    fn exponentials(&mut self, _step: usize, residual_codebooks: usize, codes: usize) -> Option<Vec<f32>> {
        let audio_rows: Vec<usize> = std::iter::once(AUDIO_END as usize)
            .chain((0..SEMANTIC_CODES).map(|code| (SEMANTIC_CODE_OFFSET + code) as usize))
            .collect();
        let mut numbers = self.randomness.exponential_columns(self.vocab_size, &audio_rows);
        self.after_semantic = Some(self.randomness.clone());
        let columns: Vec<usize> = (0..codes).collect();
        for _codebook in 0..residual_codebooks {
            numbers.extend(self.randomness.exponential_columns(codes, &columns));
        }
        Some(numbers)
    }

    fn ended(&mut self) {
        if let Some(state) = self.after_semantic.take() {
            self.randomness = state;
        }
    }
}

impl<R: Randomness> NoiseSource for Sampler<R> {
    fn noise(&mut self, _window: usize, len: usize, width: Width) -> Vec<f32> {
        let dtype = match width {
            Width::F32 => NoiseDtype::F32,
            Width::Bf16 => NoiseDtype::Bf16,
        };
        self.randomness.standard_normal(len, dtype)
    }
}

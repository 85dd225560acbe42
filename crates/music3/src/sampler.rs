//! Codes and noise drawn from one generator, in upstream's order.

use music3_nn::Width;
use music3_text::token_ids::{AUDIO_END, SEMANTIC_CODE_OFFSET};

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
}

impl<R: Randomness> Sampler<R> {
    /// Returns a sampler; a semantic draw covers the whole vocabulary of `vocab_size` tokens, though only the audio
    /// rows can win it, because that is how many random numbers upstream draws.
    pub fn new(randomness: R, vocab_size: usize) -> Self {
        Self { randomness, vocab_size }
    }
}

impl<R: Randomness> CodeSource for Sampler<R> {
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

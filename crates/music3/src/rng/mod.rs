//! Randomness: what a song draws, in which order, and where the numbers come from.
//!
//! Upstream draws from one generator: for each frame one semantic code and seven residual codes, then for each window
//! one block of noise. [`Randomness`] is what it asks of that generator, [`multinomial`] how a code comes out of it.
//! [`TorchGenerator`] gives torch's own numbers, so a seed means the same song here and there wherever the logits agree.
//! [`CounterGenerator`] gives each place of a song its own numbers, so that songs made together do not move each other's.

mod cephes;
mod counter;
mod generator;
mod mt19937;
mod multinomial;
mod normal;
mod philox;
mod torch;

pub use counter::CounterGenerator;
pub use generator::{Generator, Rng};
pub use multinomial::{multinomial, multinomial_sparse};
pub use torch::TorchGenerator;

/// The number format that noise is drawn in. A bf16 draw is another draw, not an f32 draw that was rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoiseDtype {
    /// 32-bit floats.
    F32,
    /// 16-bit brain floats.
    Bf16,
}

/// What a draw is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The code of a codebook in a decode step.
    Code {
        /// The decode step; step 0 is no frame of the song.
        step: usize,
        /// 0 for the semantic code.
        codebook: usize,
    },
    /// The noise of a window.
    Noise {
        /// The window's number, from 0.
        window: usize,
    },
}

/// A source of the two kinds of numbers that a song is drawn from.
///
/// A draw advances the source by the whole of what was asked for, whether or not all of it is looked at: the order and
/// the sizes of the draws alone decide what comes next. A source that goes by places has nothing to advance.
pub trait Randomness {
    /// Names the place that the next draw is for. A source whose numbers follow each other makes nothing of it.
    fn begin(&mut self, _place: Place) {}

    /// Draws a row of `row_len` numbers of the exponential distribution with mean 1 and returns those in `columns`.
    ///
    /// # Panics
    /// The columns do not ascend strictly, or one lies outside the row.
    fn exponential_columns(&mut self, row_len: usize, columns: &[usize]) -> Vec<f32>;

    /// Draws `len` numbers of the normal distribution with mean 0 and deviation 1. For [`NoiseDtype::Bf16`] each is one
    /// that bf16 holds exactly.
    fn standard_normal(&mut self, len: usize, dtype: NoiseDtype) -> Vec<f32>;
}

#[cfg(test)]
mod tests;

//! Randomness: what a song draws, in which order, and where the numbers come from.
//!
//! Upstream draws from one generator: for each frame one semantic code and seven residual codes, then for each window
//! one block of noise. [`Randomness`] is what it asks of that generator, [`multinomial`] how a code comes out of it.
//! [`TorchGenerator`] gives torch's own numbers, so a seed means the same song here and there wherever the logits agree.

mod cephes;
mod mt19937;
mod multinomial;
mod normal;
mod torch;

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

/// A source of the two kinds of numbers that a song is drawn from.
///
/// A draw advances the source by the whole of what was asked for, whether or not all of it is looked at: the order and
/// the sizes of the draws alone decide what comes next.
pub trait Randomness {
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

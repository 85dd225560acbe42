//! One draw from a discrete distribution, torch's way: the column of the largest p / q, q drawn exponentially.
//!
//! # Upstream
//! torch 2.11, `aten/src/ATen/native/Distributions.cpp` (`multinomial`, one sample).

use super::Randomness;

/// Draws a column with a probability in proportion to `probs`.
///
/// # Panics
/// No probability is above zero, or one is negative or not finite.
pub fn multinomial(probs: &[f32], randomness: &mut (impl Randomness + ?Sized)) -> usize {
    let candidates: Vec<(usize, f32)> = probs.iter().copied().enumerate().collect();
    multinomial_sparse(probs.len(), &candidates, randomness)
}

/// Draws from a row of `row_len` columns of which all but `candidates`, ascending pairs of column and probability, have
/// probability zero. The draw and what it takes of the randomness are those of [`multinomial`] on the whole row.
///
/// # Panics
/// No probability is above zero, one is negative or not finite, or the columns do not ascend inside the row.
pub fn multinomial_sparse(
    row_len: usize,
    candidates: &[(usize, f32)],
    randomness: &mut (impl Randomness + ?Sized),
) -> usize {
    let valid = candidates.iter().all(|(_, prob)| prob.is_finite() && *prob >= 0.0);
    assert!(valid, "a probability is negative or not finite");
    // A column without probability never wins, so its number is not worth a logarithm.
    let (columns, probs): (Vec<usize>, Vec<f32>) = candidates.iter().filter(|(_, prob)| *prob > 0.0).copied().unzip();
    assert!(!columns.is_empty(), "no probability is above zero");
    let exponentials = randomness.exponential_columns(row_len, &columns);
    // Upstream quirk: where every quotient underflows to zero, column 0 of the row is the first maximum.
    let mut winner = (0, 0.0);
    for ((column, prob), exponential) in columns.into_iter().zip(probs).zip(exponentials) {
        let quotient = prob / exponential;
        if quotient > winner.1 {
            winner = (column, quotient);
        }
    }
    winner.0
}

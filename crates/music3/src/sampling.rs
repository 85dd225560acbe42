//! Guidance, candidate filter, top-k and softmax: everything between a model's logits and a draw, on the host in f32.
//!
//! The same values come out whatever backend made the logits.
//!
//! # Source
//! `modular_pipelines/minimax_music3/encoders.py:94-103` and `:334-343`.

/// Scale of the guidance in the autoregressive half. Upstream: `encoders.py:45`.
pub const GUIDANCE_SCALE: f32 = 1.5;

/// Candidates that the conditional row admits. Upstream: `encoders.py:46`.
pub const GUIDANCE_TOP_K: usize = 50;

/// Candidates that a draw chooses from. Upstream: `encoders.py:47`.
pub const SAMPLING_TOP_K: usize = 50;

/// What stands for minus infinity inside a draw. Upstream replaces infinities by it, so an excluded candidate is a
/// very small one.
const LARGE: f32 = 1e9;

/// Returns `u + (c − u)·scale` per value.
pub fn guide(conditional: &[f32], unconditional: &[f32], scale: f32) -> Vec<f32> {
    // Rust never contracts these into a fused multiply-add, so each operation rounds as torch's do.
    conditional.iter().zip(unconditional).map(|(&c, &u)| u + (c - u) * scale).collect()
}

/// Returns the guided logits of the semantic code, with minus infinity for candidates below the *conditional* row's
/// `top_k`-th logit. Ties with it stay.
///
/// # Shapes
/// Both rows hold the audio rows of the head alone. Upstream masks the rest of the vocabulary before this and again
/// after it; the second mask changes nothing, because the filter has already excluded every masked entry.
pub fn guided_candidates(conditional: &[f32], unconditional: &[f32], scale: f32, top_k: usize) -> Vec<f32> {
    let mut guided = guide(conditional, unconditional, scale);
    let threshold = kth_largest(conditional, top_k);
    for (value, &candidate) in guided.iter_mut().zip(conditional) {
        if candidate < threshold {
            *value = f32::NEG_INFINITY;
        }
    }
    guided
}

/// Returns the probabilities that a draw receives: infinities and NaN replaced by large finite values, the `top_k`
/// largest kept (ties with the last one too), softmax, normalised.
pub fn sample_probabilities(logits: &[f32], top_k: usize) -> Vec<f32> {
    let values: Vec<f32> = logits.iter().map(|&value| nan_to_num(value)).collect();
    let threshold = kth_largest(&values, top_k);
    let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut probabilities: Vec<f32> = values
        .iter()
        .map(|&value| if value < threshold { 0.0 } else { f64::from(value - largest).exp() as f32 })
        .collect();
    // Twice, as upstream: the softmax divides by its sum, and its caller by the sum of that.
    for _ in 0..2 {
        let sum = (probabilities.iter().map(|&value| f64::from(value)).sum::<f64>() as f32).max(1e-12);
        probabilities.iter_mut().for_each(|value| *value /= sum);
    }
    probabilities
}

/// torch's `nan_to_num(nan=-1e9, posinf=1e9, neginf=-1e9)`.
fn nan_to_num(value: f32) -> f32 {
    if value == f32::INFINITY {
        LARGE
    } else if value.is_nan() || value == f32::NEG_INFINITY {
        -LARGE
    } else {
        value
    }
}

/// Returns the `k`-th largest value, or the smallest where there are fewer. NaN counts as larger than any number, as in
/// torch's `topk`.
fn kth_largest(values: &[f32], k: usize) -> f32 {
    let mut values = values.to_vec();
    let index = k.min(values.len()).saturating_sub(1);
    let descending = |a: &f32, b: &f32| match (a.is_nan(), b.is_nan()) {
        (true, true) => std::cmp::Ordering::Equal,
        (true, false) => std::cmp::Ordering::Less,
        (false, true) => std::cmp::Ordering::Greater,
        (false, false) => b.partial_cmp(a).unwrap_or(std::cmp::Ordering::Equal),
    };
    match values.is_empty() {
        true => f32::NEG_INFINITY,
        false => *values.select_nth_unstable_by(index, descending).1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_ties_with_the_last_candidate_and_drops_what_is_below_it() {
        let conditional = [3.0, 1.0, 2.0, 2.0, 0.0];
        let guided = guided_candidates(&conditional, &[0.0; 5], 1.5, 3);
        assert_eq!(guided, [4.5, f32::NEG_INFINITY, 3.0, 3.0, f32::NEG_INFINITY]);
        let ties = guided_candidates(&conditional, &[0.0; 5], 1.5, 2);
        assert_eq!(ties, [4.5, f32::NEG_INFINITY, 3.0, 3.0, f32::NEG_INFINITY]);
    }

    #[test]
    fn gives_a_distribution_over_the_kept_candidates() {
        let probabilities = sample_probabilities(&[0.0, 1.0, -1.0, 1.0], 2);
        assert_eq!(probabilities, [0.0, 0.5, 0.0, 0.5]);
    }

    #[test]
    fn replaces_what_is_not_finite() {
        assert_eq!(sample_probabilities(&[f32::NAN, 2.0, f32::NEG_INFINITY], 50), [0.0, 1.0, 0.0]);
        assert_eq!(sample_probabilities(&[f32::INFINITY, 2.0], 50), [1.0, 0.0]);
        assert_eq!(sample_probabilities(&[f32::NAN, f32::NAN], 50), [0.5, 0.5]);
    }
}

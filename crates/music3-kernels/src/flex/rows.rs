//! What is done to each row between products: normalisation, and the rotation of heads.

use rayon::prelude::*;

use super::value::Value;

/// Rows of one task.
const ROWS: usize = 4;

/// Returns the layer normalisation of rows, rounded once.
pub(super) fn layer_norm<T: Value>(x: &[T], weight: &[T], bias: &[T], eps: f32) -> Vec<T> {
    let channels = weight.len();
    let mut out = vec![T::rounded(0.0); x.len()];
    let tasks = out.par_chunks_mut(ROWS * channels).zip(x.par_chunks(ROWS * channels));
    tasks.for_each(|(out, x)| {
        let mut centred = vec![0.0; channels];
        for (out, x) in out.chunks_exact_mut(channels).zip(x.chunks_exact(channels)) {
            let mean = x.iter().map(|x| f64::from(x.wide())).sum::<f64>() / channels as f64;
            centred.iter_mut().zip(x).for_each(|(centred, x)| *centred = x.wide() - mean as f32);
            let squares = centred.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>();
            let inverse = 1.0 / ((squares / channels as f64) as f32 + eps).sqrt();
            let scales = weight.iter().zip(bias);
            for ((out, centred), (weight, bias)) in out.iter_mut().zip(&centred).zip(scales) {
                *out = T::rounded(centred * inverse * weight.wide() + bias.wide());
            }
        }
    });
    out
}

/// Heads to be rotated, and by what.
pub(super) struct Rotation<'a, T> {
    /// `[batch, tokens, heads, head_dim]`
    pub(super) x: &'a [T],
    /// `[tokens, rotary_dim]`
    pub(super) cosines: &'a [T],
    /// `[tokens, rotary_dim]`
    pub(super) sines: &'a [T],
    /// Tokens, heads, values of each.
    pub(super) shape: [usize; 3],
}

/// Returns `[batch, heads, tokens, head_dim]`, the first values of each head rotated, half against half; both products and
/// the sum round.
pub(super) fn rotate_heads<T: Value>(rotation: &Rotation<'_, T>) -> Vec<T> {
    let [tokens, heads, head_dim] = rotation.shape;
    let rotary_dim = rotation.cosines.len() / tokens;
    let half = rotary_dim / 2;
    let mut out = vec![T::rounded(0.0); rotation.x.len()];
    out.par_chunks_mut(tokens * head_dim).enumerate().for_each(|(row, out)| {
        let (batch, head) = (row / heads, row % heads);
        for (token, out) in out.chunks_exact_mut(head_dim).enumerate() {
            let x = &rotation.x[((batch * tokens + token) * heads + head) * head_dim..][..head_dim];
            let cosines = &rotation.cosines[token * rotary_dim..][..rotary_dim];
            let sines = &rotation.sines[token * rotary_dim..][..rotary_dim];
            out[rotary_dim..].copy_from_slice(&x[rotary_dim..]);
            for index in 0..rotary_dim {
                let turned = if index < half { -x[index + half].wide() } else { x[index - half].wide() };
                let (along, across) = (x[index].wide() * cosines[index].wide(), turned * sines[index].wide());
                out[index] = T::rounded(T::kept(along) + T::kept(across));
            }
        }
    });
    out
}

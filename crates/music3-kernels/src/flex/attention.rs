//! Attention of every query over all keys of its head, a block of queries at a time.

use rayon::prelude::*;

use super::{
    products::{INNER, LANES, Products},
    transposed::transposed,
    value::Value,
};

/// Queries whose weights are held at once.
const QUERIES: usize = 64;

/// Queries, keys and values, each `[heads, positions, head_dim]`, the batch among the heads.
pub(super) struct Attention<'a, T> {
    pub(super) query: &'a [T],
    pub(super) key: &'a [T],
    pub(super) value: &'a [T],
    /// Queries and keys of a head, values of each.
    pub(super) shape: [usize; 3],
    /// Both operands of the scores are multiplied with its root, as torch does.
    pub(super) scale: f32,
}

/// Returns what the queries see, f32 inside and rounded once: `[heads, queries, head_dim]`.
pub(super) fn attend<T: Value>(attention: &Attention<'_, T>) -> Vec<T> {
    let [queries, keys, head_dim] = attention.shape;
    let mut out = vec![T::rounded(0.0); attention.query.len()];
    let heads = attention.key.par_chunks(keys * head_dim).zip(attention.value.par_chunks(keys * head_dim));
    let heads = heads.zip(attention.query.par_chunks(queries * head_dim));
    out.par_chunks_mut(queries * head_dim).zip(heads).for_each(|(out, ((key, value), query))| {
        let head = Head::new(attention, key, value);
        for (out, query) in out.chunks_mut(QUERIES * head_dim).zip(query.chunks(QUERIES * head_dim)) {
            head.attend(query, out);
        }
    });
    out
}

/// Keys and values of one head as products take them.
struct Head {
    root_scale: f32,
    keys: usize,
    head_dim: usize,
    /// `[head_dim, keys_width]`, scaled.
    key: Vec<f32>,
    keys_width: usize,
    /// `[keys, value_width]`
    value: Vec<f32>,
    value_width: usize,
}

impl Head {
    fn new<T: Value>(attention: &Attention<'_, T>, key: &[T], value: &[T]) -> Self {
        let [_, keys, head_dim] = attention.shape;
        let root_scale = attention.scale.sqrt();
        let (keys_width, value_width) = (keys.next_multiple_of(LANES), head_dim.next_multiple_of(LANES));
        let mut transposed = transposed(key, [keys, head_dim], keys_width);
        transposed.iter_mut().for_each(|value| *value *= root_scale);
        let mut padded = vec![0.0; keys * value_width];
        for (padded, value) in padded.chunks_exact_mut(value_width).zip(value.chunks_exact(head_dim)) {
            padded.iter_mut().zip(value).for_each(|(padded, value)| *padded = value.wide());
        }
        Self { root_scale, keys, head_dim, key: transposed, keys_width, value: padded, value_width }
    }

    fn attend<T: Value>(&self, query: &[T], out: &mut [T]) {
        let query: Vec<f32> = query.iter().map(|value| value.wide() * self.root_scale).collect();
        let mut weights = product(&query, [self.head_dim; 2], &self.key, [self.keys_width, self.keys]);
        for weights in weights.chunks_exact_mut(self.keys_width) {
            softmax(&mut weights[..self.keys]);
        }
        let inner = [self.keys, self.keys_width];
        let attended = product(&weights, inner, &self.value, [self.value_width, self.head_dim]);
        for (out, attended) in out.chunks_exact_mut(self.head_dim).zip(attended.chunks_exact(self.value_width)) {
            out.iter_mut().zip(attended).for_each(|(out, value)| *out = T::rounded(*value));
        }
    }
}

/// Returns `[rows, width]` of `a`, whose rows of `inner` values are `stride` apart, times `b`, `[inner, width]`.
fn product(a: &[f32], [inner, stride]: [usize; 2], b: &[f32], [width, columns]: [usize; 2]) -> Vec<f32> {
    let offsets: Vec<usize> = (0..INNER.min(inner)).map(|k| k * width).collect();
    let mut sums = vec![0.0; a.len() / stride * width];
    for start in (0..inner).step_by(INNER) {
        let (weights, tile) = (&a[start..], &b[start * width..]);
        let offsets = &offsets[..INNER.min(inner - start)];
        Products { weights, stride, tile, offsets, sums: &mut sums, width, positions: columns }.add();
    }
    sums
}

fn softmax(scores: &mut [f32]) {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - largest).exp();
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

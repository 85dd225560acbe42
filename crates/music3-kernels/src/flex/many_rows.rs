//! Products of many rows with a weight that is read once, where it lies.

use rayon::prelude::*;

use super::{
    products::{INNER, LANES, Products},
    transposed::transposed,
    value::Value,
};

/// Outputs one task computes.
const OUTPUTS_PER_TASK: usize = 64;

/// Rows of one task of what comes afterwards.
const ROWS_PER_TASK: usize = 16;

/// `x · weightᵀ`
pub(super) struct Product<'a, T> {
    /// `[rows, inner]`
    pub(super) x: &'a [T],
    /// `[outputs, inner]`
    pub(super) weight: &'a [T],
    /// Rows, inner dimension, outputs.
    pub(super) shape: [usize; 3],
}

/// What comes after a product.
pub(super) struct Epilogue<'a, T> {
    /// `[outputs]`
    pub(super) bias: Option<&'a [T]>,
    /// `[rows, outputs]`
    pub(super) residual: Option<&'a [T]>,
}

/// Returns the product with its bias, rounded, plus a residual, rounded again: `[rows, outputs]`.
pub(super) fn linear<T: Value>(product: &Product<'_, T>, epilogue: &Epilogue<'_, T>) -> Vec<T> {
    let [rows, _, outputs] = product.shape;
    let pieces = product.pieces();
    let bias = epilogue.wide_bias(outputs);
    rows_of(rows, outputs, |row, output| {
        let rounded = T::kept(pieces.value(row, output) + bias[output]);
        match epilogue.residual {
            Some(residual) => T::rounded(residual[row * outputs + output].wide() + rounded),
            None => T::rounded(rounded),
        }
    })
}

/// Returns `value ⊙ silu(gate)` of the product with its bias, the value half first; product, `silu` and result round.
pub(super) fn gated<T: Value>(product: &Product<'_, T>, epilogue: &Epilogue<'_, T>) -> Vec<T> {
    let [rows, _, outputs] = product.shape;
    let half = outputs / 2;
    let pieces = product.pieces();
    let bias = epilogue.wide_bias(outputs);
    let rounded = |row: usize, output: usize| T::kept(pieces.value(row, output) + bias[output]);
    rows_of(rows, half, |row, output| {
        let (value, gate) = (rounded(row, output), rounded(row, half + output));
        T::rounded(value * T::kept(gate / (1.0 + (-gate).exp())))
    })
}

impl<T: Value> Epilogue<'_, T> {
    fn wide_bias(&self, outputs: usize) -> Vec<f32> {
        match self.bias {
            Some(bias) => bias.iter().map(|value| value.wide()).collect(),
            None => vec![0.0; outputs],
        }
    }
}

/// A product's rows, in pieces of [`OUTPUTS_PER_TASK`]: `[pieces, rows, OUTPUTS_PER_TASK]`.
struct Pieces {
    values: Vec<f32>,
    rows: usize,
}

impl Pieces {
    #[inline(always)]
    fn value(&self, row: usize, output: usize) -> f32 {
        let (piece, output) = (output / OUTPUTS_PER_TASK, output % OUTPUTS_PER_TASK);
        self.values[(piece * self.rows + row) * OUTPUTS_PER_TASK + output]
    }
}

impl<T: Value> Product<'_, T> {
    fn pieces(&self) -> Pieces {
        let [rows, inner, outputs] = self.shape;
        let width = rows.next_multiple_of(LANES);
        let x = transposed(self.x, [rows, inner], width);
        let offsets: Vec<usize> = (0..INNER.min(inner)).map(|k| k * width).collect();
        let weights = self.weight.par_chunks(OUTPUTS_PER_TASK * inner);
        let mut values = vec![0.0; outputs.div_ceil(OUTPUTS_PER_TASK) * rows * OUTPUTS_PER_TASK];
        values.par_chunks_mut(rows * OUTPUTS_PER_TASK).zip(weights).for_each(|(piece, weights)| {
            let mut room = Vec::new();
            let mut sums = vec![0.0; weights.len() / inner * width];
            for start in (0..inner).step_by(INNER) {
                let end = inner.min(start + INNER);
                let (weights, stride) = T::wide_rows(weights, inner, start..end, &mut room);
                let (tile, offsets) = (&x[start * width..], &offsets[..end - start]);
                Products { weights, stride, tile, offsets, sums: &mut sums, width, positions: rows }.add();
            }
            // Here, where the sums still lie in the cache, positions become rows.
            for (output, sums) in sums.chunks_exact(width).enumerate() {
                for (row, sum) in piece.chunks_exact_mut(OUTPUTS_PER_TASK).zip(sums) {
                    row[output] = *sum;
                }
            }
        });
        Pieces { values, rows }
    }
}

/// Returns `[rows, outputs]` of what `value` says.
fn rows_of<T: Value>(rows: usize, outputs: usize, value: impl Fn(usize, usize) -> T + Sync) -> Vec<T> {
    let mut out = vec![T::rounded(0.0); rows * outputs];
    out.par_chunks_mut(ROWS_PER_TASK * outputs).enumerate().for_each(|(block, out)| {
        for (row, out) in out.chunks_exact_mut(outputs).enumerate() {
            for (output, out) in out.iter_mut().enumerate() {
                *out = value(block * ROWS_PER_TASK + row, output);
            }
        }
    });
    out
}

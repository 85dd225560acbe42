//! Products of many rows with a weight that is read once, where it lies.

use rayon::prelude::*;

use super::{
    products::{INNER, LANES, Products},
    transposed::transposed,
    value::Value,
};

/// Outputs one task computes.
const OUTPUTS_PER_TASK: usize = 64;

/// Outputs whose weights are read side by side.
const OUTPUTS_AT_ONCE: usize = 8;

/// Rows that leave a product's columns together: a cache line of f32.
const ROWS_AT_ONCE: usize = 16;

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
    let columns = product.columns();
    let bias = epilogue.wide_bias(outputs);
    rows_of(rows, outputs, |row, output| {
        let rounded = T::kept(columns.value(output, row) + bias[output]);
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
    let columns = product.columns();
    let bias = epilogue.wide_bias(outputs);
    let rounded = |row: usize, output: usize| T::kept(columns.value(output, row) + bias[output]);
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

/// A product's outputs as rows: `[outputs, width]`.
struct Columns {
    sums: Vec<f32>,
    width: usize,
}

impl Columns {
    #[inline(always)]
    fn value(&self, output: usize, row: usize) -> f32 {
        self.sums[output * self.width + row]
    }
}

impl<T: Value> Product<'_, T> {
    fn columns(&self) -> Columns {
        let [rows, inner, outputs] = self.shape;
        let width = rows.next_multiple_of(LANES);
        let x = transposed(self.x, [rows, inner], width);
        let offsets: Vec<usize> = (0..INNER.min(inner)).map(|k| k * width).collect();
        let mut sums = vec![0.0; outputs * width];
        sums.par_chunks_mut(OUTPUTS_PER_TASK * width).enumerate().for_each(|(task, sums)| {
            let mut room = Vec::new();
            for (block, sums) in sums.chunks_mut(OUTPUTS_AT_ONCE * width).enumerate() {
                let first = task * OUTPUTS_PER_TASK + block * OUTPUTS_AT_ONCE;
                let weights = &self.weight[first * inner..][..sums.len() / width * inner];
                for start in (0..inner).step_by(INNER) {
                    let end = inner.min(start + INNER);
                    let (weights, stride) = T::wide_rows(weights, inner, start..end, &mut room);
                    let (tile, offsets) = (&x[start * width..], &offsets[..end - start]);
                    Products { weights, stride, tile, offsets, sums, width, positions: rows }.add();
                }
            }
        });
        Columns { sums, width }
    }
}

/// Returns `[rows, outputs]` of what `value` says.
fn rows_of<T: Value>(rows: usize, outputs: usize, value: impl Fn(usize, usize) -> T + Sync) -> Vec<T> {
    let mut out = vec![T::rounded(0.0); rows * outputs];
    out.par_chunks_mut(ROWS_AT_ONCE * outputs).enumerate().for_each(|(block, out)| {
        let first = block * ROWS_AT_ONCE;
        for output in 0..outputs {
            for (row, out) in out.chunks_exact_mut(outputs).enumerate() {
                out[output] = value(first + row, output);
            }
        }
    });
    out
}

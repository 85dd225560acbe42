//! A matrix with rows and columns exchanged.

use rayon::prelude::*;

use super::value::Value;

/// Columns of one task: four cache lines of f32 are read side by side.
const COLUMNS: usize = 64;

/// Rows between two passes over those columns: a cache line of f32 is written in each.
const ROWS: usize = 16;

/// Returns `[rows, columns]` as `[columns, width]` in f32; what is beyond the rows is zero.
pub(super) fn transposed<T: Value>(matrix: &[T], [rows, columns]: [usize; 2], width: usize) -> Vec<f32> {
    let mut out = vec![0.0; columns * width];
    out.par_chunks_mut(COLUMNS * width).enumerate().for_each(|(block, out)| {
        let first = block * COLUMNS;
        let columns_here = out.len() / width;
        for start in (0..rows).step_by(ROWS) {
            for row in start..rows.min(start + ROWS) {
                let values = &matrix[row * columns + first..][..columns_here];
                for (out, value) in out.chunks_exact_mut(width).zip(values) {
                    out[row] = value.wide();
                }
            }
        }
    });
    out
}

#[cfg(test)]
mod tests {
    use super::transposed;

    #[test]
    fn exchanges_rows_and_columns_and_fills_up_with_zeros() {
        for (rows, columns, width) in [(1, 1, 1), (2, 3, 16), (40, 133, 40), (17, 64, 32)] {
            let matrix: Vec<f32> = (0..rows * columns).map(|value| value as f32 + 1.0).collect();
            let found = transposed(&matrix, [rows, columns], width);
            assert_eq!(found.len(), columns * width);
            for (column, found) in found.chunks_exact(width).enumerate() {
                for (row, found) in found.iter().enumerate() {
                    let wanted = if row < rows { matrix[row * columns + column] } else { 0.0 };
                    assert_eq!(*found, wanted, "{rows}×{columns}: row {row}, column {column}");
                }
            }
        }
    }
}

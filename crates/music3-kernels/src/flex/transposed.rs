//! A matrix with rows and columns exchanged.

use rayon::prelude::*;

use super::value::Value;

/// Columns of one task: four cache lines of f32 are read side by side.
const COLUMNS: usize = 64;

/// Rows and columns that are exchanged at once: a cache line of f32.
const SQUARE: usize = 16;

/// Returns `[rows, columns]` as `[columns, width]` in f32; what is beyond the rows is zero.
pub(super) fn transposed<T: Value>(matrix: &[T], [rows, columns]: [usize; 2], width: usize) -> Vec<f32> {
    let mut out = vec![0.0; columns * width];
    out.par_chunks_mut(COLUMNS * width).enumerate().for_each(|(block, out)| {
        let first = block * COLUMNS;
        let columns_here = out.len() / width;
        // Columns may come to lie a power of two apart: written value by value they would push each other out of the cache.
        let mut square = [[0.0; SQUARE]; SQUARE];
        for start in (0..rows).step_by(SQUARE) {
            let count = SQUARE.min(rows - start);
            for (part, out) in out.chunks_mut(SQUARE * width).enumerate() {
                for row in 0..count {
                    let place = (start + row) * columns + first + part * SQUARE;
                    let values = &matrix[place..][..SQUARE.min(columns_here - part * SQUARE)];
                    for (square, value) in square.iter_mut().zip(values) {
                        square[row] = value.wide();
                    }
                }
                for (out, square) in out.chunks_exact_mut(width).zip(&square) {
                    out[start..start + count].copy_from_slice(&square[..count]);
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

//! Shapes and strides of a batch of matrices, in the terms of a column-major library.

/// A batch of matrices `[..., rows, columns]` in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Batched {
    /// Leading dimensions.
    batch: Vec<usize>,
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Whether the elements of a column, and not those of a row, follow each other.
    pub(super) column_major: bool,
    /// Elements from one row (column, where column-major) to the next.
    pub(super) leading: usize,
    /// Elements from one matrix to the next.
    stride: usize,
}

impl Batched {
    /// Describes a tensor of at least two dimensions, or returns `None` where no such description fits its strides.
    pub(super) fn new(shape: &[usize], strides: &[usize]) -> Option<Self> {
        let split = shape.len().checked_sub(2)?;
        let (rows, columns) = (shape[split], shape[split + 1]);
        let (row_stride, column_stride) = (strides[split], strides[split + 1]);
        let (column_major, leading) = if (columns == 1 || column_stride == 1) && (rows == 1 || row_stride >= columns) {
            (false, if rows == 1 { columns } else { row_stride })
        } else if (rows == 1 || row_stride == 1) && (columns == 1 || column_stride >= rows) {
            (true, if columns == 1 { rows } else { column_stride })
        } else {
            return None;
        };
        let batch = shape[..split].to_vec();
        let stride = collapsed_stride(&batch, &strides[..split])?;
        Some(Self { batch, rows, columns, column_major, leading, stride })
    }

    /// Returns the number of matrices.
    pub(super) fn count(&self) -> usize {
        self.batch.iter().product()
    }

    /// Returns the elements from the first to behind the last.
    pub(super) fn extent(&self) -> usize {
        let (lines, length) = if self.column_major { (self.columns, self.rows) } else { (self.rows, self.columns) };
        (self.count() - 1) * self.stride + (lines - 1) * self.leading + length
    }

    /// Returns the elements from one matrix to the next when `count` of them are read; one matrix is read again and
    /// again.
    pub(super) fn stride_for(&self, count: usize) -> usize {
        if self.count() == 1 && count > 1 { 0 } else { self.stride }
    }

    /// Returns the columns `start..start + len` of each matrix, and the elements before their first.
    pub(super) fn columns_from(&self, start: usize, len: usize) -> (Self, usize) {
        let offset = if self.column_major { start * self.leading } else { start };
        (Self { columns: len, ..self.clone() }, offset)
    }

    /// Returns the rows `start..start + len` of each matrix, and the elements before their first.
    pub(super) fn rows_from(&self, start: usize, len: usize) -> (Self, usize) {
        let offset = if self.column_major { start } else { start * self.leading };
        (Self { rows: len, ..self.clone() }, offset)
    }

    /// Returns the shape of the product, or `None` where the batches neither agree nor repeat one matrix.
    pub(super) fn product_shape(&self, other: &Self) -> Option<Vec<usize>> {
        if self.columns != other.rows {
            return None;
        }
        let batch = match (self.count(), other.count()) {
            _ if self.batch == other.batch => &self.batch,
            (1, _) => &other.batch,
            (_, 1) => &self.batch,
            _ => return None,
        };
        Some(batch.iter().copied().chain([self.rows, other.columns]).collect())
    }
}

/// Returns the one stride that walks all leading dimensions, if there is one.
fn collapsed_stride(batch: &[usize], strides: &[usize]) -> Option<usize> {
    let mut walked: Option<(usize, usize)> = None;
    for (&size, &stride) in batch.iter().zip(strides).rev().filter(|(size, _)| **size != 1) {
        match walked {
            None => walked = Some((stride, stride * size)),
            Some((first, next)) if stride == next => walked = Some((first, next * size)),
            Some(_) => return None,
        }
    }
    Some(walked.map_or(0, |(first, _)| first))
}

#[cfg(test)]
mod tests {
    use super::Batched;

    #[test]
    fn describes_rows_columns_and_padded_rows() {
        let rows = Batched::new(&[3, 5], &[5, 1]).expect("row-major");
        assert_eq!((rows.column_major, rows.leading), (false, 5));
        let padded = Batched::new(&[3, 5], &[128, 1]).expect("padded rows");
        assert_eq!((padded.column_major, padded.leading), (false, 128));
        let transposed = Batched::new(&[5, 3], &[1, 5]).expect("a transposed view");
        assert_eq!((transposed.column_major, transposed.leading), (true, 5));
        assert!(Batched::new(&[4, 6], &[12, 2]).is_none(), "every second column");
    }

    #[test]
    fn describes_single_rows_and_columns_whatever_their_strides() {
        let row = Batched::new(&[1, 7], &[999, 1]).expect("one row");
        assert_eq!((row.column_major, row.leading), (false, 7));
        let column = Batched::new(&[7, 1], &[3, 3]).expect("one column of a matrix");
        assert_eq!((column.column_major, column.leading), (false, 3));
    }

    #[test]
    fn walks_leading_dimensions_with_one_stride_or_not_at_all() {
        let whole = Batched::new(&[2, 3, 4, 5], &[60, 20, 5, 1]).expect("contiguous");
        assert_eq!((whole.count(), whole.stride_for(6)), (6, 20));
        assert!(Batched::new(&[2, 3, 4, 5], &[20, 40, 5, 1]).is_none(), "swapped leading dimensions");
        let one = Batched::new(&[1, 1, 4, 5], &[7, 9, 5, 1]).expect("one matrix");
        assert_eq!(one.stride_for(6), 0);
    }

    #[test]
    fn takes_parts_of_rows_and_columns() {
        let rows = Batched::new(&[4, 8], &[8, 1]).expect("row-major");
        let (part, offset) = rows.columns_from(6, 2);
        assert_eq!((part.rows, part.columns, part.leading, offset), (4, 2, 8, 6));
        let (part, offset) = rows.rows_from(3, 1);
        assert_eq!((part.rows, part.columns, offset), (1, 8, 24));
        let transposed = Batched::new(&[8, 4], &[1, 8]).expect("a transposed view");
        assert_eq!(transposed.rows_from(6, 2).1, 6);
        assert_eq!(transposed.columns_from(3, 1).1, 24);
    }

    #[test]
    fn multiplies_equal_batches_and_single_matrices() {
        let a = Batched::new(&[1, 4, 5], &[20, 5, 1]).expect("one matrix");
        let b = Batched::new(&[3, 5, 2], &[10, 2, 1]).expect("three matrices");
        assert_eq!(a.product_shape(&b), Some(vec![3, 4, 2]));
        assert_eq!(b.product_shape(&a), None, "inner dimensions differ");
        let c = Batched::new(&[2, 4, 5], &[20, 5, 1]).expect("two matrices");
        assert_eq!(c.product_shape(&b), None, "batches differ");
    }
}

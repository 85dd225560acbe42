//! Shapes and strides of a batch of matrices, in the terms of a column-major library.

use super::CudaTensor;

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

    /// Describes a tensor's memory, where that is one batch.
    pub(super) fn of(tensor: &CudaTensor) -> Option<Self> {
        Self::new(tensor.meta.shape(), tensor.meta.strides())
    }

    /// Returns the number of matrices.
    pub(super) fn count(&self) -> usize {
        self.batch.iter().product()
    }

    /// Returns the number of elements.
    pub(super) fn elements(&self) -> usize {
        self.count() * self.rows * self.columns
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

    /// Returns the `index`th of `parts` equal runs of the matrices, and the elements before its first; one matrix is the same
    /// in every run.
    fn run(&self, index: usize, parts: usize) -> (Self, usize) {
        if self.count() == 1 {
            return (self.clone(), 0);
        }
        let count = self.count() / parts;
        (Self { batch: vec![count], ..self.clone() }, index * count * self.stride)
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
}

/// Batches that together are a tensor, each with the elements before it: one where a single stride walks the leading
/// dimensions, else one for each index of the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batches(Vec<(Batched, usize)>);

impl Batches {
    /// Describes a tensor of at least two dimensions, or returns `None` where its strides are no matrices'.
    pub(super) fn new(shape: &[usize], strides: &[usize]) -> Option<Self> {
        if let Some(whole) = Batched::new(shape, strides) {
            return Some(Self(vec![(whole, 0)]));
        }
        let (&count, &stride) = (shape.first()?, strides.first()?);
        let one = (shape.len() > 2).then(|| Batched::new(&shape[1..], &strides[1..])).flatten()?;
        Some(Self((0..count).map(|index| (one.clone(), index * stride)).collect()))
    }

    /// Returns how many batches there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the `index`th of `parts` batches and the elements before it.
    pub(super) fn part(&self, index: usize, parts: usize) -> (Batched, usize) {
        match self.0.as_slice() {
            [(whole, offset)] if parts > 1 => {
                let (run, before) = whole.run(index, parts);
                (run, offset + before)
            }
            batches => batches[index].clone(),
        }
    }
}

/// Returns the shape of a product, or `None` where the batches neither agree nor repeat one matrix.
pub(super) fn product_shape(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let ([a_batch @ .., rows, inner], [b_batch @ .., b_inner, columns]) = (a, b) else { return None };
    let batch = match (a_batch.iter().product::<usize>(), b_batch.iter().product::<usize>()) {
        _ if inner != b_inner => return None,
        _ if a_batch == b_batch => a_batch,
        (1, _) => b_batch,
        (_, 1) => a_batch,
        _ => return None,
    };
    let shape: Vec<usize> = batch.iter().copied().chain([*rows, *columns]).collect();
    // The library multiplies no empty matrices.
    (*inner > 0 && !shape.contains(&0)).then_some(shape)
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
    use super::{Batched, Batches, product_shape};

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
    fn walks_swapped_leading_dimensions_one_by_one() {
        // Heads that lie side by side in their token's row, as a projection leaves them.
        let heads = Batches::new(&[2, 3, 4, 5], &[60, 5, 15, 1]).expect("rows of a matrix");
        assert_eq!(heads.len(), 2);
        let (second, before) = heads.part(1, 2);
        assert_eq!((second.count(), second.leading, second.stride_for(3), before), (3, 15, 5, 60));
    }

    #[test]
    fn takes_runs_of_a_batch_and_repeats_a_single_matrix() {
        let whole = Batches::new(&[2, 3, 4, 5], &[60, 20, 5, 1]).expect("contiguous");
        assert_eq!(whole.len(), 1);
        let (second, before) = whole.part(1, 2);
        assert_eq!((second.count(), before), (3, 60));
        let one = Batches::new(&[4, 5], &[5, 1]).expect("one matrix");
        assert_eq!(one.part(1, 2), (Batched::new(&[4, 5], &[5, 1]).expect("rows"), 0));
    }

    #[test]
    fn multiplies_equal_batches_and_single_matrices() {
        assert_eq!(product_shape(&[1, 4, 5], &[3, 5, 2]), Some(vec![3, 4, 2]));
        assert_eq!(product_shape(&[3, 5, 2], &[1, 4, 5]), None, "inner dimensions differ");
        assert_eq!(product_shape(&[2, 4, 5], &[3, 5, 2]), None, "batches differ");
    }
}

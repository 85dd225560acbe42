//! Convolutions as sums of products over shifted rows: nothing is unfolded, padded or moved.
//!
//! Positions are rows, `[batch, len, channels]`, so that a tap reads the same matrix some rows further on, and rows outside
//! are left out instead of being zero. A tensor `[batch, channels, len]` goes in and out as a view of such rows.
//!
//! Offered for large inputs only. Unfolding a small one costs nothing, and all taps are then summed in one product, without a
//! rounding to f32 between them.

use burn::tensor::DType;
use burn_cubecl::{kernel::into_contiguous, ops::permute};

use super::{
    CudaTensor, converted, decode, empty,
    layout::Batched,
    lt,
    product::{Added, Part, Sum, Term},
};

/// Values of the unfolded input, or of a transposed convolution's product, from which on nothing is unfolded.
const LARGE: usize = 1 << 22;

/// A convolution's weights.
pub(super) struct Kernel {
    pub(super) weight: CudaTensor,
    /// One value for each column of the products: of a transposed convolution, as often as it has strides.
    pub(super) bias: Option<CudaTensor>,
}

impl Kernel {
    /// Returns the bias in f32, in which everything is summed.
    fn wide_bias(&self) -> Option<CudaTensor> {
        self.bias.clone().map(|bias| converted(bias, DType::F32))
    }

    fn fits(&self, x: &CudaTensor, columns: usize) -> bool {
        let bias =
            self.bias.as_ref().is_none_or(|bias| bias.dtype == x.dtype && bias.meta.shape().as_slice() == [columns]);
        bias && self.weight.dtype == x.dtype && matches!(x.dtype, DType::F32 | DType::BF16) && lt::is_available()
    }
}

/// Returns a convolution that keeps the length, plus a residual where there is one; the convolution and the sum round.
pub(super) fn conv1d(
    x: CudaTensor,
    kernel: &Kernel,
    residual: Option<CudaTensor>,
    [padding, dilation]: [usize; 2],
) -> Option<CudaTensor> {
    let [batch, inner, len] = *x.meta.shape().as_slice() else { return None };
    let [outputs, weight_inner, taps] = *kernel.weight.meta.shape().as_slice() else { return None };
    let keeps_length = taps % 2 == 1 && dilation > 0 && 2 * padding == dilation * (taps - 1);
    let residual_fits = residual
        .as_ref()
        .is_none_or(|residual| residual.dtype == x.dtype && residual.meta.shape().as_slice() == [batch, outputs, len]);
    let large = batch * inner * taps * len >= LARGE;
    if !large || !keeps_length || weight_inner != inner || !residual_fits || !kernel.fits(&x, outputs) {
        return None;
    }
    let x = rows(x);
    let dtype = x.dtype;
    let residual = residual.map(rows).map(into_contiguous);
    let weight = into_contiguous(permute(kernel.weight.clone(), &[2, 0, 1]));
    let out = empty(&x, vec![batch, len, outputs], DType::F32);
    let (from, to) = (Batched::of(&x)?, Batched::of(&out)?);
    let tap = |tap: usize| -> Option<Term> {
        // Output row t reads input row t + tap · dilation − padding.
        let (ahead, behind) = ((tap * dilation).saturating_sub(padding), padding.saturating_sub(tap * dilation));
        let count = len.checked_sub(ahead + behind).filter(|count| *count > 0)?;
        let b = matrix_transposed(tap * outputs, [outputs, inner]);
        let begins = ahead + behind == 0;
        Some(Term { a: from.rows_from(ahead, count), b, out: to.rows_from(behind, count), begins, first_column: 0 })
    };
    // The middle one reaches every row.
    let middle = taps / 2;
    let terms = [middle].into_iter().chain((0..taps).filter(|index| *index != middle)).filter_map(tap).collect();
    let bias = kernel.wide_bias();
    let wide = dtype == DType::F32;
    let added = Added { bias, residual: residual.clone().filter(|_| wide) };
    let out = Sum { lhs: x, rhs: weight, out, terms, added }.enqueue();
    let out = converted(out, dtype);
    let out = match residual {
        Some(residual) if !wide => decode::joined(residual, out, decode::Joint::Sum)?,
        _ => out,
    };
    Some(swapped(out))
}

/// Returns a transposed convolution whose kernel is twice its stride.
pub(super) fn conv_transpose1d(x: CudaTensor, kernel: &Kernel, [stride, padding]: [usize; 2]) -> Option<CudaTensor> {
    let [batch, inner, len] = *x.meta.shape().as_slice() else { return None };
    let [weight_inner, outputs, taps] = *kernel.weight.meta.shape().as_slice() else { return None };
    let full = (len + 1) * stride;
    let large = batch * outputs * taps * len >= LARGE;
    let fits = large && taps == 2 * stride && weight_inner == inner && 2 * padding < full;
    // A row of the product is what one input gives to `stride` outputs, through the first or the second half of the taps.
    let width = stride * outputs;
    if !fits || !kernel.fits(&x, width) {
        return None;
    }
    let x = rows(x);
    let dtype = x.dtype;
    let weight = into_contiguous(permute(kernel.weight.clone(), &[2, 1, 0]));
    let out = empty(&x, vec![batch, full, outputs], DType::F32);
    let from = Batched::of(&x)?;
    let to = Batched::new(&[batch, len + 1, width], &[full * outputs, width, 1])?;
    let term = |half: usize, start: usize, count: usize, begins: bool| {
        let b = matrix_transposed(half * width, [width, inner]);
        Term { a: from.rows_from(start, count), b, out: to.rows_from(start + half, count), begins, first_column: 0 }
    };
    let mut terms = vec![term(0, 0, len, true), term(1, len - 1, 1, true)];
    if len > 1 {
        terms.push(term(1, 0, len - 1, false));
    }
    let added = Added { bias: kernel.wide_bias(), residual: None };
    let out = Sum { lhs: x, rhs: weight, out, terms, added }.enqueue();
    let out = converted(out, dtype);
    Some(swapped(rows_between(out, padding, full - 2 * padding)))
}

/// A view `[batch, len, channels]` of `[batch, channels, len]` whose rows are contiguous, copied first where they are not.
pub(super) fn rows(x: CudaTensor) -> CudaTensor {
    let x = swapped(x);
    let [_, len, channels] = *x.meta.shape().as_slice() else { return x };
    let [batch_stride, row_stride, stride] = x.meta.strides()[..] else { return x };
    let lie_together = stride == 1 && row_stride == channels && batch_stride >= len * channels;
    if lie_together { x } else { into_contiguous(x) }
}

/// A view with positions and channels exchanged.
pub(super) fn swapped(mut x: CudaTensor) -> CudaTensor {
    x.meta.swap(1, 2);
    x
}

/// A view of `count` rows of each batch from `start` on, of a contiguous tensor.
fn rows_between(mut x: CudaTensor, start: usize, count: usize) -> CudaTensor {
    let [_, len, channels] = *x.meta.shape().as_slice() else { return x };
    let bytes = |rows: usize| (rows * channels * x.dtype.size()) as u64;
    let (before, after) = (bytes(start), bytes(len - start - count));
    x.handle = x.handle.offset_start(before).offset_end(after);
    x.meta.shape_mut()[1] = count;
    x
}

/// The transpose of a contiguous matrix that begins at row `row`.
fn matrix_transposed(row: usize, [rows, columns]: [usize; 2]) -> Part {
    let matrix = Batched::new(&[columns, rows], &[1, columns]).expect("a transposed matrix");
    (matrix, row * columns)
}

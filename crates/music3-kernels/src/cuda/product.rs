//! Products of many rows: which of a task's memory is multiplied with what, and how.

use std::sync::Once;

use burn::tensor::DType;
use burn_cubecl::{cubecl, kernel::into_contiguous};
use cubecl::device::Device;

use super::{
    CudaTensor, decode, empty,
    layout::{Batched, Batches, product_shape},
    lt::{self, Operands, Place, Product, Step},
    split, strict, task,
};
use crate::Matmul;

/// Matrices of a tensor, and how many elements into it they begin.
pub(super) type Part = (Batched, usize);

/// One product of a [`Sum`].
pub(super) struct Term {
    pub(super) a: Part,
    pub(super) b: Part,
    /// The rows that it is added to.
    pub(super) out: Part,
    /// Whether it is the first that reaches these rows, which hold nothing yet.
    pub(super) begins: bool,
    /// The column of the whole output that its first one is.
    pub(super) first_column: usize,
}

/// Rates that a data-centre GPU reaches, in operations and bytes a second. Only their proportions matter, and only for which of
/// two exact forms is taken.
const F32_RATE: f64 = 48e12;
const BF16_RATE: f64 = 700e12;
const BYTE_RATE: f64 = 3.5e12;

/// Bytes moved for a value of an operand that is split: read twice, two parts written, three read.
const SPLIT_BYTES: f64 = 18.0;

/// Rows and columns of the library's tiles in f32, and how many of them a multiprocessor computes at once.
const TILE: usize = 128;
const TILES_AT_ONCE: usize = 2;

impl Term {
    /// Returns the product of the columns `start..start + len` only.
    fn columns_from(&self, start: usize, len: usize) -> Self {
        let ((b, before), (out, ahead)) = (self.b.0.columns_from(start, len), self.out.0.columns_from(start, len));
        Self {
            a: self.a.clone(),
            b: (b, self.b.1 + before),
            out: (out, self.out.1 + ahead),
            begins: self.begins,
            first_column: self.first_column + start,
        }
    }

    fn operations(&self) -> f64 {
        2.0 * self.out.0.elements() as f64 * self.a.0.columns as f64
    }
}

/// What is added to a sum of products, in the output's type.
#[derive(Default)]
pub(super) struct Added {
    /// One value a column, `[columns]`, contiguous.
    pub(super) bias: Option<CudaTensor>,
    /// Laid out as the output.
    pub(super) residual: Option<CudaTensor>,
}

/// Products of parts of two tensors, added up in parts of a third.
pub(super) struct Sum {
    pub(super) lhs: CudaTensor,
    pub(super) rhs: CudaTensor,
    pub(super) out: CudaTensor,
    pub(super) terms: Vec<Term>,
    pub(super) added: Added,
}

impl Sum {
    /// Enqueues all products, f32 operands as [`Matmul::current`] says, and returns the output.
    ///
    /// # Panics
    /// If earlier work failed on the device.
    pub(super) fn enqueue(self) -> CudaTensor {
        if let Some(error) = task::take_error() {
            panic!("earlier work failed on the device: {error}");
        }
        match (self.lhs.dtype, Matmul::current()) {
            (DType::BF16, _) => self.enqueue_as(Operands::Bf16),
            (_, Matmul::Strict) => self.in_full_rounds().enqueue_as(Operands::F32),
            (_, Matmul::Tf32) => self.enqueue_as(Operands::Tf32),
            (_, Matmul::Split) if self.is_faster_split() => self.enqueue_split(),
            (_, Matmul::Split) => self.in_full_rounds().enqueue_as(Operands::F32),
        }
    }

    /// Cuts a single large product in two where its tiles would leave most of the device idle in their last round: the library
    /// divides the inner dimension of a small product, so that its tiles fill a round.
    fn in_full_rounds(mut self) -> Self {
        let [term] = self.terms.as_slice() else { return self };
        let Some(multiprocessors) = self.out.client.properties().hardware.num_streaming_multiprocessors else {
            return self;
        };
        if let Some(kept) = columns_of_full_rounds(&term.out.0, multiprocessors as usize * TILES_AT_ONCE) {
            self.terms = vec![term.columns_from(0, kept), term.columns_from(kept, term.out.0.columns - kept)];
        }
        self
    }

    /// Returns whether the products of parts take less time than one in f32: not where operands or result are large beside the
    /// operations. It depends on shapes alone, so that every run computes the same.
    fn is_faster_split(&self) -> bool {
        let operations: f64 = self.terms.iter().map(Term::operations).sum();
        let [lhs, rhs] = self.extents();
        let counts = u32::try_from(lhs).and(u32::try_from(rhs)).is_ok();
        // Every product writes its rows, and all but the first read them.
        let outputs = self.terms.iter().map(|term| {
            let times = 2 * split::passes(term.a.0.columns) - 1;
            (term.out.0.elements() * times * size_of::<f32>()) as f64
        });
        let in_f32 = operations / F32_RATE;
        let moved = (lhs + rhs) as f64 * SPLIT_BYTES + outputs.sum::<f64>();
        counts && operations * split::PRODUCTS as f64 / BF16_RATE + moved / BYTE_RATE < in_f32
    }

    /// Returns how many values of each operand the terms reach.
    fn extents(&self) -> [usize; 2] {
        let extent = |part: fn(&Term) -> &Part| {
            self.terms.iter().map(part).map(|(batched, start)| start + batched.extent()).max().unwrap_or(0)
        };
        [extent(|term| &term.a), extent(|term| &term.b)]
    }

    fn enqueue_as(self, operands: Operands) -> CudaTensor {
        let rounded = self.out.dtype == DType::BF16;
        let steps = self.terms.iter().map(|term| {
            let ((a, a_start), (b, b_start), (out, _)) = (term.a.clone(), term.b.clone(), term.out.clone());
            let Ends { out: place, added, bias } = self.ends(term, 2);
            let product = Product { a, b, out, operands, rounded };
            let [a, b] = [(0, &self.lhs, a_start), (1, &self.rhs, b_start)]
                .map(|(handle, tensor, start)| Place::start_of(handle).after(start * tensor.dtype.size()));
            Step { product, a, b, out: place, added, bias, factors: None }
        });
        let steps = steps.collect();
        let operands = vec![self.lhs.clone(), self.rhs.clone()];
        self.send(steps, operands)
    }

    fn enqueue_split(self) -> CudaTensor {
        let steps = self.terms.iter().flat_map(|term| {
            let Ends { out, added, bias } = self.ends(term, split::FACTORS + 1);
            let (a, b) = ((&term.a.0, term.a.1), (&term.b.0, term.b.1));
            split::steps(&split::Parted { a, b, out: (&term.out.0, out), added, bias })
        });
        let steps = steps.collect();
        let [lhs, rhs] = self.extents();
        let split::Parts { operands, factors } = split::parts([(&self.lhs, lhs), (&self.rhs, rhs)]);
        self.send(steps, operands.into_iter().flatten().chain([factors]).collect())
    }

    /// Returns where a term's result goes and what is added to it, the output being the handle of this number.
    fn ends(&self, term: &Term, output: usize) -> Ends {
        let start = term.out.1 * self.out.dtype.size();
        let out = Place::start_of(output).after(start);
        if !term.begins {
            return Ends { out, added: Some(out), bias: None };
        }
        let added = self.added.residual.as_ref().map(|_| Place::start_of(output + 1).after(start));
        let columns_before = term.first_column * self.out.dtype.size();
        let bias = self.added.bias.as_ref().map(|_| Place::start_of(output + 2).after(columns_before));
        Ends { out, added, bias }
    }

    /// Enqueues steps on operands, output, residual and bias.
    fn send(self, steps: Vec<Step>, operands: Vec<CudaTensor>) -> CudaTensor {
        let Self { out, added: Added { bias, residual }, .. } = self;
        // What is absent is not read; the output stands in its place.
        let [residual, bias] = [residual, bias].map(|tensor| tensor.unwrap_or_else(|| out.clone()));
        let all = operands.into_iter().chain([out.clone(), residual, bias]);
        lt::enqueue(out.device.to_id(), steps, all.map(|tensor| tensor.handle).collect());
        out
    }
}

/// Where a term's result goes, and what is added to it.
struct Ends {
    out: Place,
    added: Option<Place>,
    bias: Option<Place>,
}

/// Returns how many columns of a product fill whole rounds of so many tiles, where those that are left would be computed in a
/// round that is at most half full.
fn columns_of_full_rounds(out: &Batched, tiles_of_round: usize) -> Option<usize> {
    let down = out.rows.div_ceil(TILE);
    let tiles = down * out.columns.div_ceil(TILE);
    let (rounds, rest) = (tiles / tiles_of_round, tiles % tiles_of_round);
    let columns = rounds * tiles_of_round / down.max(1) * TILE;
    let pays = out.count() == 1 && rounds >= 2 && rest > 0 && 2 * rest <= tiles_of_round;
    (pays && (1..out.columns).contains(&columns)).then_some(columns)
}

/// Enqueues `lhs · rhs` and returns it, in f32 or rounded once to bf16: in memory of its own, or in `out`, a view of rows.
/// `None` for dtypes and shapes that it is not offered for.
pub(super) fn multiply(
    lhs: CudaTensor,
    rhs: CudaTensor,
    dtype: DType,
    added: Added,
    out: Option<CudaTensor>,
) -> Option<CudaTensor> {
    let fits = lhs.dtype == rhs.dtype && matches!(lhs.dtype, DType::F32 | DType::BF16);
    let shape = fits.then(|| product_shape(lhs.meta.shape(), rhs.meta.shape())).flatten()?;
    if !lt::is_available() {
        let adds = added.bias.is_some() || added.residual.is_some();
        return if adds || dtype != DType::F32 { None } else { without_library(lhs, rhs, shape) };
    }
    let out = out.unwrap_or_else(|| empty(&lhs, shape, dtype));
    let ((lhs, a), (rhs, b), (out, c)) = (described(lhs), described(rhs), described(out));
    let parts = a.len().max(b.len()).max(c.len());
    let term = |index| {
        let [a, b, out] = [&a, &b, &c].map(|batches| batches.part(index, parts));
        Term { a, b, out, begins: true, first_column: 0 }
    };
    Some(Sum { terms: (0..parts).map(term).collect(), lhs, rhs, out, added }.enqueue())
}

/// Describes a tensor's memory, copying it first where its strides are no matrix's.
fn described(tensor: CudaTensor) -> (CudaTensor, Batches) {
    match Batches::new(tensor.meta.shape(), tensor.meta.strides()) {
        Some(batches) => (tensor, batches),
        None => {
            let tensor = into_contiguous(tensor);
            let batches = Batches::new(tensor.meta.shape(), tensor.meta.strides());
            (tensor, batches.expect("rows of a contiguous tensor follow each other"))
        }
    }
}

/// Returns `x · weightᵀ + bias`, rounded once, plus a residual, rounded again. `None` without cuBLASLt.
pub(super) fn linear(x: CudaTensor, weight: CudaTensor, added: Added) -> Option<CudaTensor> {
    let dtype = x.dtype;
    let [outputs, _] = *weight.meta.shape().as_slice() else { return None };
    let mut shape = x.meta.shape().to_vec();
    *shape.last_mut()? = outputs;
    let fits = |tensor: &CudaTensor, shape: &[usize]| tensor.dtype == dtype && tensor.meta.shape().as_slice() == shape;
    let added_fits = added.bias.as_ref().is_none_or(|bias| fits(bias, &[outputs]))
        && added.residual.as_ref().is_none_or(|residual| fits(residual, &shape));
    if !added_fits || !lt::is_available() {
        return None;
    }
    let Added { bias, residual } =
        Added { bias: added.bias.map(into_contiguous), residual: added.residual.map(into_contiguous) };
    let weight = transposed(weight);
    match (dtype, bias) {
        (DType::BF16, None) => {
            let product = multiply(x, weight, dtype, Added::default(), None)?;
            residual.map_or(Some(product.clone()), |residual| decode::joined(residual, product, decode::Joint::Sum))
        }
        // With a bias the library may round to bf16 before it adds: seen at 201 rows of 26.
        (DType::BF16, Some(bias)) => {
            decode::can_finish(outputs).then_some(())?;
            decode::finished(multiply(x, weight, DType::F32, Added::default(), None)?, bias, residual)
        }
        (_, bias) => multiply(x, weight, dtype, Added { bias, residual }, None),
    }
}

/// Returns `value ⊙ silu(gate)` of `x · weightᵀ + bias`, whose rows hold the value half first; the product, `silu` and the
/// result round. `None` without cuBLASLt.
pub(super) fn gated_linear(x: CudaTensor, weight: CudaTensor, bias: CudaTensor) -> Option<CudaTensor> {
    let [outputs, _] = *weight.meta.shape().as_slice() else { return None };
    if !decode::can_gate(outputs) || bias.dtype != x.dtype || bias.meta.shape().as_slice() != [outputs] {
        return None;
    }
    match x.dtype {
        DType::BF16 if lt::is_available() => {
            let product = multiply(x, transposed(weight), DType::F32, Added::default(), None)?;
            decode::gate_halves(product, Some(into_contiguous(bias)))
        }
        DType::F32 => decode::gate_halves(linear(x, weight, Added { bias: Some(bias), residual: None })?, None),
        _ => None,
    }
}

/// Returns a view of matrices with their dimensions exchanged.
pub(super) fn transposed(mut matrices: CudaTensor) -> CudaTensor {
    let rank = matrices.meta.rank();
    matrices.meta.swap(rank - 2, rank - 1);
    matrices
}

/// Computes the product with CubeCL's kernels, of which the first that is used says so.
fn without_library(lhs: CudaTensor, rhs: CudaTensor, shape: Vec<usize>) -> Option<CudaTensor> {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        tracing::warn!(
            "the library cublasLt was not found: products run on CubeCL's kernels without tensor cores, which is exact \
             but slow, whatever --matmul says"
        );
    });
    let out = empty(&lhs, shape, DType::F32);
    match strict::multiply(lhs, rhs, &out) {
        Ok(()) => Some(out),
        Err(error) => panic!("a product cannot run without the library cublasLt: {error:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Batched, columns_of_full_rounds};

    fn columns(rows: usize, columns: usize) -> Option<usize> {
        columns_of_full_rounds(&Batched::new(&[rows, columns], &[columns, 1]).expect("rows"), 264)
    }

    #[test]
    fn cuts_where_the_last_round_is_mostly_idle() {
        // 11 · 128 tiles are five rounds of 264 and a third of one.
        assert_eq!(columns(1378, 16_384), Some(15_360));
        // 11 · 48 are two rounds.
        assert_eq!(columns(1378, 6144), None);
        // 11 · 16 are less than one, and 1 · 128 too.
        assert_eq!(columns(1378, 2048), None);
        assert_eq!(columns(87, 16_384), None);
        // 11 · 60 are two rounds and half of one; a column more, and over half.
        assert_eq!(columns(1378, 60 * 128), Some(48 * 128));
        assert_eq!(columns(1378, 61 * 128), None);
    }

    #[test]
    fn never_cuts_off_all_columns() {
        // 600 tiles, one beside the other: whole rounds of them are no whole columns of tiles.
        assert_eq!(columns(76_800, 64), None);
        assert_eq!(columns(76_800, 200), Some(128));
        assert_eq!(columns(176_128, 96), None);
        assert!((1..4000).all(|down| columns(down * 128, 96).is_none()));
    }

    #[test]
    fn never_cuts_a_batch() {
        let batch = Batched::new(&[2, 1378, 16_384], &[1378 * 16_384, 16_384, 1]).expect("rows");
        assert_eq!(columns_of_full_rounds(&batch, 264), None);
    }
}

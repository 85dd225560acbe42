//! Launches of the products of a few rows.

use burn::tensor::DType;
use burn_cubecl::{cubecl, kernel::into_contiguous};
use cubecl::{
    cuda::CudaRuntime,
    prelude::{CubeCount, CubeDim},
};

use super::{
    Norm, PLANES, elements, empty, halves,
    linear::{self, Adds, PLANE, Stretch},
    packed::EIGHT,
    words,
};
use crate::cuda::CudaTensor;

/// More rows than this go through a library product, which reads the weights once for many rows.
pub(super) const MAX_ROWS: usize = 4;

/// Cubes that normalise their input before they multiply, at most; each goes on to further outputs.
const NORMALISING_CUBES: u32 = 528;

/// Returns how many cubes share `outputs`, so that all have as many rounds and the last is full.
fn normalising_cubes(outputs: u32) -> u32 {
    let cubes = outputs.div_ceil(PLANES);
    cubes.div_ceil(cubes.div_ceil(NORMALISING_CUBES))
}

/// Returns how many loads a lane has in flight on so many eights: as many as leave none over, and at most eight.
fn unroll(eights: u32) -> u32 {
    let loads = eights / PLANE;
    (1..=8).rev().find(|unroll| loads.is_multiple_of(*unroll)).unwrap_or(1)
}

/// Returns how many planes share an output: more where there are few outputs or long rows, so that the loads of a whole row are
/// in flight. By shape alone, so that a row's sum does not depend on anything else.
fn stretches(outputs: usize, eights: u32) -> u32 {
    let wanted = if outputs > 4096 {
        1
    } else if outputs > 1024 && eights <= 512 {
        2
    } else {
        4
    };
    if eights.is_multiple_of(wanted * PLANE) { wanted } else { 1 }
}

/// Bytes of normalised input that a cube can hold beside its other needs.
const MAX_STAGED: usize = 40 << 10;

/// The operands of a product over a few rows, checked and contiguous.
pub(super) struct Rows {
    x: CudaTensor,
    pub(super) rows: usize,
    pub(super) inner: usize,
}

impl Rows {
    /// Accepts `[…, inner]` in bf16 with few rows.
    pub(super) fn new(x: CudaTensor) -> Option<Self> {
        let shape: &[usize] = x.meta.shape();
        let (&inner, leading) = shape.split_last()?;
        let rows = leading.iter().product();
        let fits = x.dtype == DType::BF16 && (1..=MAX_ROWS).contains(&rows) && inner > 0 && inner % EIGHT == 0;
        fits.then(|| Self { x: into_contiguous(x), rows, inner })
    }

    /// Returns whether a cube can hold the rows.
    pub(super) fn can_be_staged(&self) -> bool {
        self.rows * self.inner * size_of::<half::bf16>() <= MAX_STAGED
    }

    fn eights(&self) -> u32 {
        (self.inner / EIGHT) as u32
    }

    /// Returns whole rows as a stretch, with so many loads of a lane in flight.
    fn stretch(&self, unroll: u32) -> Stretch {
        Stretch { rows: self.rows as u32, eights: self.eights(), len: self.eights(), unroll }
    }

    /// Returns a bf16 output `[…, outputs]`.
    pub(super) fn output(&self, outputs: usize) -> CudaTensor {
        let mut shape = self.x.meta.shape().to_vec();
        *shape.last_mut().expect("rows have at least one dimension") = outputs;
        empty(&self.x, shape, DType::BF16)
    }
}

/// Accepts a contiguous bf16 matrix with rows of `inner`; returns it and its rows.
pub(super) fn matrix(weight: CudaTensor, inner: usize) -> Option<(CudaTensor, usize)> {
    let [outputs, columns] = *weight.meta.shape().as_slice() else { return None };
    let fits = weight.dtype == DType::BF16 && columns == inner && outputs > 0 && weight.is_contiguous();
    fits.then_some((weight, outputs))
}

pub(super) fn normed_linears(rows: &Rows, norm: &Norm, weights: [CudaTensor; 3], outs: &[CudaTensor; 3]) {
    let outputs = outs.each_ref().map(|out| elements(out) as u32 / rows.rows as u32);
    let ([a, b, c], [out_a, out_b, out_c]) = (weights.each_ref(), outs.each_ref());
    // SAFETY: `matrix`, `Rows` and `Norm::checked` have made sure of shapes, and the outputs are new.
    unsafe {
        linear::normed_linears::launch_unchecked::<CudaRuntime>(
            &out_a.client,
            CubeCount::new_1d(normalising_cubes(outputs.iter().sum())),
            CubeDim::new_1d(PLANES * PLANE),
            words(&rows.x),
            words(&norm.weight),
            words(a),
            words(b),
            words(c),
            halves(out_a),
            halves(out_b),
            halves(out_c),
            norm.eps,
            outputs[0],
            outputs[1],
            outputs[2],
            rows.stretch(unroll(rows.eights())),
            PLANES,
        );
    }
}

/// RMSNorm, then `silu(gate) · up`: `[…, inner]` → `[…, outputs]`.
pub(in super::super) fn gated(x: CudaTensor, norm: Norm, gate: CudaTensor, up: CudaTensor) -> Option<CudaTensor> {
    let rows = Rows::new(x).filter(Rows::can_be_staged)?;
    let norm = norm.checked(rows.inner)?;
    let ((gate, outputs), (up, up_outputs)) = (matrix(gate, rows.inner)?, matrix(up, rows.inner)?);
    if outputs != up_outputs {
        return None;
    }
    let out = rows.output(outputs);
    // SAFETY: as above.
    unsafe {
        linear::normed_gated::launch_unchecked::<CudaRuntime>(
            &out.client,
            CubeCount::new_1d(normalising_cubes(outputs as u32)),
            CubeDim::new_1d(PLANES * PLANE),
            words(&rows.x),
            words(&norm.weight),
            words(&gate),
            words(&up),
            halves(&out),
            norm.eps,
            outputs as u32,
            // Two rows of weights are loaded at once.
            rows.stretch(4),
            PLANES,
        );
    }
    Some(out)
}

/// The product with a weight `[outputs, inner]`, to which `residual` is added where there is one.
pub(in super::super) fn linear_added(
    x: CudaTensor,
    weight: CudaTensor,
    residual: Option<CudaTensor>,
) -> Option<CudaTensor> {
    let rows = Rows::new(x)?;
    let (weight, outputs) = matrix(weight, rows.inner)?;
    let out = rows.output(outputs);
    let adds = match &residual {
        None => Adds::Nothing,
        Some(residual) if residual.dtype != DType::BF16 => return None,
        Some(residual) if residual.meta.shape() == out.meta.shape() => Adds::Rows(rows.rows as u32),
        // One sequence's rows, for every sequence of the batch.
        Some(residual) if is_one_of(residual.meta.shape(), out.meta.shape()) => {
            Adds::Rows((elements(residual) / outputs) as u32)
        }
        Some(_) => return None,
    };
    let residual = residual.map_or_else(|| out.clone(), into_contiguous);
    let stretches = stretches(outputs, rows.eights());
    let len = rows.eights() / stretches;
    // SAFETY: as above; the residual has as many rows as are read of it.
    unsafe {
        linear::linear_added::launch_unchecked::<CudaRuntime>(
            &out.client,
            CubeCount::new_1d((outputs as u32 * stretches).div_ceil(PLANES)),
            CubeDim::new_1d(PLANES * PLANE),
            words(&rows.x),
            words(&weight),
            halves(&residual),
            halves(&out),
            outputs as u32,
            adds,
            Stretch { len, ..rows.stretch(unroll(len)) },
            PLANES,
        );
    }
    Some(out)
}

/// Returns whether the first shape is the second with a single sequence.
fn is_one_of(shape: &[usize], batch: &[usize]) -> bool {
    shape.len() == batch.len() && shape.len() > 1 && shape[0] == 1 && shape[1..] == batch[1..]
}

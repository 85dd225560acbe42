//! What the machine can do, measured beside what it does: how fast it moves memory, and how fast it multiplies.

use std::time::Instant;

use burn::tensor::{Distribution, Tensor, backend::Backend};
use music3_nn::{Width, ops};
use serde::Serialize;

use super::timing::finish;
use crate::failure::Failure;

/// Runs before the measured ones: kernels compile, memory is touched for the first time.
const WARMUPS: usize = 2;

/// Measured runs; the fastest counts, for it is a ceiling.
const RUNS: usize = 5;

/// Sizes that fill the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Shape of what is copied, in f32.
    copied: [usize; 2],
    /// Rows, inner dimension and columns of a product.
    product: [usize; 3],
}

impl Sizes {
    /// More than any cache holds, and some hundredths of a second of work.
    pub(super) const CPU: Self = Self { copied: [1 << 15, 1 << 10], product: [256, 2048, 2048] };

    /// The same for a data-centre GPU.
    pub(super) const GPU: Self = Self { copied: [1 << 18, 1 << 10], product: [8192, 8192, 8192] };
}

/// How fast memory moves.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CopyCeiling {
    /// Bytes read and bytes written.
    pub(super) bytes: usize,
    pub(super) bytes_per_second: f64,
}

/// How fast products are.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ProductCeiling {
    /// What the operands are stored in.
    pub(super) width: &'static str,
    /// Rows, inner dimension and columns.
    pub(super) shape: [usize; 3],
    pub(super) flop_per_second: f64,
}

/// Measures a copy of a large tensor, into new memory and into memory that is there; the faster counts.
pub(super) fn copy<B: Backend>(sizes: Sizes, device: &B::Device) -> Result<CopyCeiling, Failure> {
    let values = Tensor::<B, 2>::random(sizes.copied, Distribution::Default, device);
    let [rows, columns] = sizes.copied;
    let bytes = 2 * rows * columns * size_of::<f32>();
    // A sum with a constant: a plain copy of a tensor only counts its owners.
    let new = fastest::<B>(device, || drop(values.clone().add_scalar(1.0)))?;
    let mut target = Some(values.clone().add_scalar(1.0));
    let present = fastest::<B>(device, || {
        target = target.take().map(|target| target.slice_assign([0..rows, 0..columns], values.clone()));
    })?;
    Ok(CopyCeiling { bytes, bytes_per_second: bytes as f64 / new.min(present) })
}

/// Measures a large product of values stored in `width`, computed as the model's products are.
pub(super) fn product<B: Backend>(sizes: Sizes, width: Width, device: &B::Device) -> Result<ProductCeiling, Failure> {
    let [rows, inner, columns] = sizes.product;
    let draw =
        |shape: [usize; 2]| ops::round(Tensor::<B, 2>::random(shape, Distribution::Uniform(-1.0, 1.0), device), width);
    let (x, weight) = (draw([rows, inner]), draw([columns, inner]));
    let seconds = fastest::<B>(device, || drop(ops::linear(x.clone(), weight.clone(), None, width)))?;
    let width = match width {
        Width::F32 => "f32",
        Width::Bf16 => "bf16",
    };
    let flop = 2.0 * (rows * inner) as f64 * columns as f64;
    Ok(ProductCeiling { width, shape: sizes.product, flop_per_second: flop / seconds })
}

fn fastest<B: Backend>(device: &B::Device, mut work: impl FnMut()) -> Result<f64, Failure> {
    let mut best = f64::INFINITY;
    for run in 0..WARMUPS + RUNS {
        finish::<B>(device)?;
        let start = Instant::now();
        work();
        finish::<B>(device)?;
        if run >= WARMUPS {
            best = best.min(start.elapsed().as_secs_f64());
        }
    }
    Ok(best.max(1e-9))
}

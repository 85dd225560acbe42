//! f32 products against f64, in each of the forms they can be computed in.

use burn::tensor::backend::Backend;
use music3_nn::{Matmul, Width, ops};
use music3_testkit::on_each_backend;

use crate::compare::{errors, host, values};

on_each_backend!(products_keep_to_f64, products_repeat_to_the_bit);

/// Rows, inner dimension, columns: the published transformer's products and the vocoder's convolutions with few rows, an
/// attention head's two, and odd ones. `goldens/generate/product_errors.py` computes them with torch.
const SHAPES: [[usize; 3]; 27] = [
    // Transformer: attention's projections, feed-forward, first and last convolutions and projections, the time.
    [16, 2048, 2048],
    [4, 2048, 16_384],
    [16, 8192, 2048],
    [16, 2304, 2304],
    [16, 2304, 2048],
    [64, 2048, 128],
    [64, 128, 128],
    [16, 256, 2048],
    [64, 64, 689],
    [64, 689, 64],
    // Vocoder: input, transposed convolutions (all taps at once), dilated and 1×1 ones, output.
    [16, 64, 1024],
    [16, 7168, 1536],
    [4, 1536, 12_288],
    [8, 768, 6144],
    [16, 384, 1536],
    [64, 192, 384],
    [16, 5376, 768],
    [16, 2688, 384],
    [32, 1344, 192],
    [64, 672, 96],
    [16, 768, 768],
    [64, 672, 1],
    // Large enough for `split` to take a product apart.
    [700, 2048, 2048],
    // Neither the model's nor any tile's sizes.
    [1, 1000, 33],
    [17, 3, 5],
    [5, 513, 129],
    [8, 12_288, 96],
];

/// What a form may differ from f64 by, as a share of the root mean square of the product: rms and largest.
fn allowed(matmul: Matmul) -> [f64; 2] {
    match matmul {
        Matmul::Strict => [2e-6, 1.5e-5],
        Matmul::Split => [3e-6, 2.5e-5],
        Matmul::Tf32 => [1e-3, 1e-2],
    }
}

fn products_keep_to_f64<B: Backend>(device: &B::Device) {
    for [rows, inner, columns] in SHAPES {
        let a = values::<B, 2>([rows, inner], 61, Width::F32, device);
        let b = values::<B, 2>([columns, inner], 62, Width::F32, device);
        let wanted = in_f64(&host(a.clone()), &host(b.clone()), inner);
        for matmul in [Matmul::Strict, Matmul::Split, Matmul::Tf32] {
            let found = matmul.scope(|| host(ops::linear(a.clone(), b.clone(), None, Width::F32)));
            let [error, worst] = errors(&found, &wanted);
            println!("product {rows} {inner} {columns} {matmul}: rms {error:.2e}, worst {worst:.2e}");
            let [error_allowed, worst_allowed] = allowed(matmul);
            assert!(
                error <= error_allowed,
                "{rows}×{inner}×{columns} {matmul}: rms {error:.2e} of {error_allowed:.0e}"
            );
            assert!(worst <= worst_allowed, "{rows}×{inner}×{columns} {matmul}: {worst:.2e} of {worst_allowed:.0e}");
        }
    }
}

/// `[rows, inner]` times the transpose of `[columns, inner]`.
fn in_f64(a: &[f32], b: &[f32], inner: usize) -> Vec<f64> {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    a.chunks_exact(inner).flat_map(|a| b.chunks_exact(inner).map(move |b| dot(a, b))).collect()
}

/// Small products are as fast in f32, so `split` leaves them whole; of a large one its bits must differ.
#[cfg(feature = "cuda")]
#[test]
fn split_takes_large_products_apart() {
    type B = music3_testkit::Cuda;
    let device = Default::default();
    for (rows, inner, columns, apart) in [(700, 2048, 2048, true), (64, 64, 689, false)] {
        let a = values::<B, 2>([rows, inner], 61, Width::F32, &device);
        let b = values::<B, 2>([columns, inner], 62, Width::F32, &device);
        let run = |matmul: Matmul| matmul.scope(|| host(ops::linear(a.clone(), b.clone(), None, Width::F32)));
        assert_eq!(run(Matmul::Split) != run(Matmul::Strict), apart, "{rows}×{inner}×{columns}");
    }
}

fn products_repeat_to_the_bit<B: Backend>(device: &B::Device) {
    let a = values::<B, 2>([33, 2048], 71, Width::F32, device);
    let b = values::<B, 2>([700, 2048], 72, Width::F32, device);
    for matmul in [Matmul::Strict, Matmul::Split, Matmul::Tf32] {
        let run = || matmul.scope(|| host(ops::linear(a.clone(), b.clone(), None, Width::F32)));
        assert_eq!(run(), run(), "{matmul}");
    }
}

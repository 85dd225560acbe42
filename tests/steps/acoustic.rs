//! The ops between large products: norms, gates, heads, sums, biases, convolutions.

use burn::tensor::backend::Backend;
use music3_nn::{
    ComputePath, RotaryTable, Width,
    ops::{self, Conv1dOptions, ConvTranspose1dOptions},
    rotary::split_heads,
};
use music3_testkit::on_each_backend;

use crate::compare::{WIDTHS, both, values};

on_each_backend!(
    layer_norm,
    gates,
    heads,
    snakes,
    sums,
    products_with_a_bias,
    gated_products,
    convolutions,
    transposed_convolutions,
);

fn layer_norm<B: Backend>(device: &B::Device) {
    for width in WIDTHS {
        for (rows, channels) in [(3, 2048), (70, 100), (1, 1), (2, 33), (5, 2052), (2, 4096), (2, 6000), (1, 8200)] {
            let x = values::<B, 3>([2, rows, channels], 1, width, device);
            let (weight, bias) = (values([channels], 2, width, device), values([channels], 3, width, device));
            both(&format!("layer norm of {channels}, {width}"), width, || {
                ops::layer_norm(x.clone(), weight.clone(), bias.clone(), 1e-5, width)
            });
        }
    }
}

fn gates<B: Backend>(device: &B::Device) {
    for width in WIDTHS {
        for (tokens, half) in [(5, 1024), (3, 7), (1, 1)] {
            let halves = values::<B, 3>([2, tokens, 2 * half], 4, width, device);
            both(&format!("gate of {half}, {width}"), width, || ops::gate_halves(halves.clone(), width));
            let (gate, up) = (
                values::<B, 3>([2, tokens, 8 * half], 5, width, device),
                values([2, tokens, 8 * half], 6, width, device),
            );
            both(&format!("silu product of {half}, {width}"), width, || {
                ops::silu_product(gate.clone(), up.clone(), width)
            });
        }
    }
}

fn heads<B: Backend>(device: &B::Device) {
    for width in WIDTHS {
        for (tokens, heads, head_dim, rotary_dim) in [(9, 4, 64, 32), (3, 5, 10, 4), (1, 1, 6, 6)] {
            let x = values::<B, 3>([2, tokens, heads * head_dim], 7, width, device);
            let table = RotaryTable::new(rotary_dim, 10_000.0, tokens, width, device);
            both(&format!("{heads} heads of {head_dim}, {width}"), width, || table.split(x.clone(), heads, width));
            both(&format!("{heads} plain heads of {head_dim}, {width}"), width, || split_heads(x.clone(), heads));
        }
    }
}

fn snakes<B: Backend>(device: &B::Device) {
    for width in WIDTHS {
        for (channels, len) in [(7, 33), (8, 33), (96, 5)] {
            let x = values::<B, 3>([2, channels, len], 16, width, device);
            let alpha = values([1, channels, 1], 17, width, device);
            both(&format!("snake of {channels}, {width}"), width, || ops::snake(x.clone(), alpha.clone(), 1e-9, width));
        }
    }
}

fn sums<B: Backend>(device: &B::Device) {
    for width in WIDTHS {
        let (a, b) = (values::<B, 3>([2, 3, 40], 8, width, device), values([2, 3, 40], 9, width, device));
        both(&format!("sum, {width}"), width, || ops::add(a.clone(), b.clone(), width));
    }
}

fn products_with_a_bias<B: Backend>(device: &B::Device) {
    for width in WIDTHS {
        // Those with rows for several vectors, blocks and tasks have sizes that fill none of them.
        for (rows, inner, outputs) in [(40, 256, 96), (101, 519, 77), (9, 1000, 67), (7, 24, 5), (1, 8, 16)] {
            let x = values::<B, 3>([2, rows, inner], 10, width, device);
            let (weight, bias) = (values([outputs, inner], 11, width, device), values([outputs], 12, width, device));
            both(&format!("{inner} to {outputs} with a bias, {width}"), width, || {
                ops::linear(x.clone(), weight.clone(), Some(bias.clone()), width)
            });
            let residual = values::<B, 3>([2, rows, outputs], 18, width, device);
            for bias in [Some(bias), None] {
                both(&format!("{inner} to {outputs} with a residual, {width}"), width, || {
                    ops::linear_added(x.clone(), weight.clone(), bias.clone(), residual.clone(), width)
                });
            }
        }
    }
}

fn gated_products<B: Backend>(device: &B::Device) {
    for width in WIDTHS {
        for (rows, inner, half) in [(40, 256, 96), (53, 300, 37), (7, 24, 5), (1, 8, 16)] {
            let x = values::<B, 3>([2, rows, inner], 19, width, device);
            let (weight, bias) = (values([2 * half, inner], 20, width, device), values([2 * half], 21, width, device));
            both(&format!("gated {inner} to {half}, {width}"), width, || {
                ops::gated_linear(x.clone(), weight.clone(), bias.clone(), width)
            });
        }
    }
}

fn convolutions<B: Backend>(device: &B::Device) {
    for width in WIDTHS {
        // Channels, length, taps, dilation: large enough to be shifted, with one tap too, and small ones.
        for (inner, out, len, taps, dilation) in [
            (64, 48, 6000, 7, 1),
            (32, 5, 10_000, 7, 9),
            (50, 13, 401, 7, 9),
            (300, 9, 193, 3, 100),
            (70, 101, 19, 7, 9),
            (64, 12, 33_000, 1, 1),
            (8, 8, 9, 7, 3),
            (5, 3, 12, 3, 2),
            (8, 4, 1, 7, 1),
        ] {
            let x = values::<B, 3>([2, inner, len], 22, width, device);
            let weight = values::<B, 3>([out, inner, taps], 23, width, device);
            let (bias, residual) = (values([out], 24, width, device), values([2, out, len], 25, width, device));
            let options = Conv1dOptions { padding: dilation * (taps - 1) / 2, dilation };
            let what = format!("{inner} to {out} over {taps} taps of {len} at {dilation}, {width}");
            for bias in [Some(bias), None] {
                both(&what, width, || ops::conv1d(x.clone(), weight.clone(), bias.clone(), options, width));
                let convolution = ops::Convolution { weight: weight.clone(), bias, options };
                both(&format!("{what}, added"), width, || {
                    ops::conv1d_added(x.clone(), convolution.clone(), residual.clone(), width)
                });
            }
        }
    }
}

fn transposed_convolutions<B: Backend>(device: &B::Device) {
    for width in WIDTHS {
        for (inner, out, len, stride) in
            [(16, 24, 6000, 8), (12, 4, 90_000, 3), (300, 13, 201, 8), (8, 4, 9, 2), (12, 6, 5, 3), (8, 8, 1, 4)]
        {
            let x = values::<B, 3>([2, inner, len], 26, width, device);
            let weight = values::<B, 3>([inner, out, 2 * stride], 27, width, device);
            let (bias, alpha) = (values([out], 28, width, device), values([1, out, 1], 29, width, device));
            let options = ConvTranspose1dOptions { stride, padding: stride.div_ceil(2) };
            let what = format!("{inner} to {out} times {stride} of {len}, {width}");
            both(&what, width, || ops::conv_transpose1d(x.clone(), weight.clone(), Some(bias.clone()), options, width));
            // What follows reads rows that begin inside a larger buffer.
            if width == Width::F32 {
                both(&format!("{what}, bent"), width, || {
                    let upsampled = ops::conv_transpose1d(x.clone(), weight.clone(), None, options, width);
                    ops::snake(upsampled, alpha.clone(), 1e-9, width)
                });
            }
        }
    }
}

/// Without this the comparisons above could compare the plain form with itself.
#[cfg(feature = "flex")]
#[test]
fn flex_is_offered_what_is_large() {
    type B = music3_testkit::Flex;
    let device = Default::default();
    let offered = |width: Width| {
        let rows = values::<B, 2>([18, 640], 1, width, &device);
        let (weight, bias) = (values([98, 640], 2, width, &device), values([98], 3, width, &device));
        let channels = values::<B, 3>([2, 30, 700], 4, width, &device);
        let (taps, upsampling) = (values([98, 30, 7], 5, width, &device), values([30, 98, 8], 6, width, &device));
        let (alpha, scale) = (values([1, 30, 1], 7, width, &device), values([640], 8, width, &device));
        let table = RotaryTable::<B>::new(8, 10_000.0, 30, width, &device);
        let heads = values::<B, 4>([2, 3, 110, 30], 9, width, &device);
        [
            music3_kernels::try_linear(&rows, &weight, Some(&bias), None).is_some(),
            music3_kernels::try_gated_linear(&rows, &weight, &bias).is_some(),
            music3_kernels::try_conv1d(&channels, &taps, Some(&bias), None, [9, 3]).is_some(),
            music3_kernels::try_conv_transpose1d(&channels, &upsampling, Some(&bias), [4, 2]).is_some(),
            music3_kernels::try_snake(&channels, &alpha, 1e-9).is_some(),
            music3_kernels::try_layer_norm(&rows, &scale, &scale, 1e-5).is_some(),
            music3_kernels::try_rotate_heads(&channels, 7, [&table.cos(), &table.sin()]).is_some(),
            music3_kernels::try_attend(&heads, &heads, &heads, 0.25).is_some(),
        ]
    };
    for width in WIDTHS {
        assert_eq!(offered(width), [true; 8], "{width}");
        assert_eq!(ComputePath::Plain.scope(|| offered(width)), [false; 8], "{width}, plain");
    }
}

/// Without this the comparisons above could compare the plain form with itself.
#[cfg(feature = "cuda")]
#[test]
fn cuda_is_offered_every_kernel() {
    type B = music3_testkit::Cuda;
    let device = Default::default();
    for width in WIDTHS {
        let x = values::<B, 3>([2, 9, 64], 1, width, &device);
        let rows = || x.clone().reshape([18, 64]);
        let (weight, bias) = (values([48, 64], 2, width, &device), values([48], 3, width, &device));
        let (scale, shift) = (values([64], 4, width, &device), values([64], 5, width, &device));
        assert!(music3_kernels::try_layer_norm(&x, &scale, &shift, 1e-5).is_some(), "layer norm, {width}");
        assert!(music3_kernels::try_gated_linear(&rows(), &weight, &bias).is_some(), "gated product, {width}");
        assert!(music3_kernels::try_gate_halves(&x).is_some(), "gate, {width}");
        let residual = values([18, 48], 6, width, &device);
        for bias in [Some(&bias), None] {
            for residual in [Some(&residual), None] {
                assert!(music3_kernels::try_linear(&rows(), &weight, bias, residual).is_some(), "product, {width}");
            }
        }
        let table = RotaryTable::<B>::new(8, 10_000.0, 9, width, &device);
        let rotated = music3_kernels::try_rotate_heads(&x, 4, [&table.cos(), &table.sin()]);
        let heads = rotated.unwrap_or_else(|| panic!("rotation, {width}"));
        assert!(music3_kernels::try_attend(&heads, &heads, &heads, 0.25).is_some(), "attention, {width}");
        let square = || values::<B, 2>([64, 64], 11, width, &device);
        let weights = [square(), square(), square()];
        let tables = [&table.cos(), &table.sin()];
        let attended = music3_kernels::try_attend_projected(&x, weights.each_ref(), 4, tables);
        assert!(attended.is_some(), "attention of hidden states, {width}");
        let joined = music3_kernels::try_join_rows(weights.each_ref());
        let joined = joined.unwrap_or_else(|| panic!("joined weights, {width}"));
        assert!(music3_kernels::try_join_rows(joined.each_ref()).is_none(), "joined again, {width}");
        let channels = values::<B, 3>([2, 64, 6000], 10, width, &device);
        let alpha = values([1, 64, 1], 7, width, &device);
        assert!(music3_kernels::try_snake(&channels, &alpha, 1e-9).is_some(), "snake, {width}");
        let (taps, upsampling) = (values([48, 64, 7], 8, width, &device), values([64, 48, 8], 9, width, &device));
        let convolved = music3_kernels::try_conv1d(&channels, &taps, Some(&bias), None, [9, 3]);
        assert!(convolved.is_some(), "convolution, {width}");
        let upsampled = music3_kernels::try_conv_transpose1d(&channels, &upsampling, Some(&bias), [4, 2]);
        assert!(upsampled.is_some(), "transposed convolution, {width}");
    }
}

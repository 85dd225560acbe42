//! The ops between large products: norms, gates, heads, sums, biases, attention over whole sequences.

use burn::tensor::{Tensor, backend::Backend};
use music3_nn::{
    ComputePath, RotaryTable, Width,
    ops::{self, AttentionMask},
    rotary::split_heads,
};
use music3_testkit::on_each_backend;

use crate::compare::{assert_close, assert_rounded_alike, host, values};

on_each_backend!(layer_norm, gates, heads, snakes, sums, products_with_a_bias, attention_over_sequences);

const WIDTHS: [Width; 2] = [Width::F32, Width::Bf16];

/// Runs `compute` with kernels and without, and compares.
fn both<B: Backend, const D: usize>(what: &str, width: Width, compute: impl Fn() -> Tensor<B, D>) {
    let [found, wanted] = [ComputePath::Kernels, ComputePath::Plain].map(|path| path.scope(|| host(compute())));
    match width {
        Width::F32 => assert_close(what, &found, &wanted),
        Width::Bf16 => assert_rounded_alike(what, &found, &wanted),
    }
}

fn layer_norm<B: Backend>(device: &B::Device) {
    for width in WIDTHS {
        for (rows, channels) in [(3, 2048), (70, 100), (1, 1), (2, 33)] {
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
        let (x, alpha) = (values::<B, 3>([2, 7, 33], 16, width, device), values([1, 7, 1], 17, width, device));
        both(&format!("snake, {width}"), width, || ops::snake(x.clone(), alpha.clone(), 1e-9, width));
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
        for (rows, inner, outputs) in [(40, 256, 96), (7, 24, 5), (1, 8, 16)] {
            let x = values::<B, 3>([2, rows, inner], 10, width, device);
            let (weight, bias) = (values([outputs, inner], 11, width, device), values([outputs], 12, width, device));
            both(&format!("{inner} to {outputs} with a bias, {width}"), width, || {
                ops::linear(x.clone(), weight.clone(), Some(bias.clone()), width)
            });
        }
    }
}

fn attention_over_sequences<B: Backend>(device: &B::Device) {
    for width in WIDTHS {
        for (queries, keys, heads, kv_heads, head_dim) in [(70, 70, 4, 4, 64), (9, 30, 6, 2, 10), (1, 5, 2, 1, 8)] {
            let query = values::<B, 4>([2, heads, queries, head_dim], 13, width, device);
            let key = values([2, kv_heads, keys, head_dim], 14, width, device);
            let value = values([2, kv_heads, keys, head_dim], 15, width, device);
            for mask in [AttentionMask::Full, AttentionMask::Causal] {
                both(&format!("attention {queries}×{keys} of {head_dim}, {mask:?}, {width}"), width, || {
                    let (query, key, value) = (query.clone(), key.clone(), value.clone());
                    ops::scaled_dot_product_attention(query, key, value, mask, width)
                });
            }
        }
    }
}

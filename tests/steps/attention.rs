//! Attention over whole sequences: of heads that are there, of hidden states, and against f64.

#[cfg(feature = "cuda")]
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use music3_nn::{
    ComputePath, Matmul, RotaryTable, Width,
    layers::Linear,
    ops::{self, AttentionMask},
    rotary::split_heads,
};
use music3_testkit::on_each_backend;

#[cfg(feature = "cuda")]
use crate::compare::errors;
use crate::compare::{WIDTHS, assert_rounded_alike, both, host, values};

on_each_backend!(attention_over_sequences, attention_of_hidden_states);

fn attention_over_sequences<B: Backend>(device: &B::Device) {
    for width in WIDTHS {
        for (queries, keys, heads, kv_heads, head_dim) in [
            (70, 70, 4, 4, 64),
            (201, 201, 3, 3, 16),
            (67, 300, 3, 3, 33),
            (5, 130, 2, 2, 48),
            (9, 30, 6, 2, 10),
            (1, 5, 2, 1, 8),
        ] {
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

/// Queries, keys, values and attention in one, against the ops one by one; in f32 their products come in parts.
fn attention_of_hidden_states<B: Backend>(device: &B::Device) {
    for (tokens, dim, heads, head_dim, rotary_dim) in [
        (70, 96, 4, 64, 32),
        (201, 40, 3, 16, 16),
        (690, 64, 2, 32, 8),
        (1, 24, 2, 48, 24),
        (64, 32, 3, 64, 32),
        (128, 32, 1, 48, 16),
    ] {
        for width in WIDTHS {
            let x = values::<B, 3>([2, tokens, dim], 13, width, device);
            let inner = heads * head_dim;
            let mut layers = [14, 15, 16].map(|seed| {
                let mut layer = Linear::new(dim, inner, width, device);
                // So that no key takes all of the attention, which would make one rounding turn a whole head.
                let weight = values::<B, 2>([inner, dim], seed, width, device).mul_scalar(0.125);
                layer.weight = burn::module::Param::from_tensor(weight);
                layer
            });
            let rotary = RotaryTable::<B>::new(rotary_dim, 10_000.0, tokens, width, device);
            let attend = |layers: &[Linear<B>; 3]| {
                let weights = layers.each_ref().map(|layer| layer.weight.val());
                if let Some(attended) = rotary.try_attend(&x, weights, heads, width) {
                    return host(attended);
                }
                let [query, key, value] = layers.each_ref().map(|layer| layer.forward(x.clone()));
                let (query, key) = (rotary.split(query, heads, width), rotary.split(key, heads, width));
                let value = split_heads(value, heads);
                let attended = ops::scaled_dot_product_attention(query, key, value, AttentionMask::Full, width);
                host(attended.swap_dims(1, 2).reshape([2, tokens, inner]))
            };
            let wanted = ComputePath::Plain.scope(|| attend(&layers));
            for joined in [false, true] {
                let what =
                    format!("attention of {tokens} × {dim}, {heads} heads of {head_dim}, {width}, joined {joined}");
                if joined {
                    let [a, b, c] = &mut layers;
                    Linear::join([a, b, c]);
                }
                match width {
                    Width::Bf16 => assert_rounded_alike(&what, &attend(&layers), &wanted),
                    Width::F32 => {
                        for (matmul, allowed) in [(Matmul::Strict, 2e-5), (Matmul::Split, 3e-5), (Matmul::Tf32, 1e-2)] {
                            assert_within(
                                &format!("{what}, {matmul}"),
                                &matmul.scope(|| attend(&layers)),
                                &wanted,
                                allowed,
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Asserts that values are at most so much of their rms apart.
fn assert_within(what: &str, found: &[f32], wanted: &[f32], allowed: f64) {
    assert_eq!(found.len(), wanted.len(), "{what}: sizes");
    let rms = (wanted.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / wanted.len() as f64).sqrt();
    let apart = found.iter().zip(wanted).map(|(a, b)| f64::from((a - b).abs()) / rms);
    let worst = apart.clone().fold(0.0, f64::max);
    let mean = apart.sum::<f64>() / found.len() as f64;
    println!("{what}: mean {mean:.2e}, worst {worst:.2e} of rms");
    // Written so that a NaN fails.
    assert!(worst <= allowed && mean.is_finite(), "{what}: {worst:.2e}, {allowed:.0e} may");
}

/// Attention in tiles of three bf16 parts against f64, beside the same attention through f32 products: weights that copy and
/// tables that turn nothing leave nothing else to differ.
#[cfg(feature = "cuda")]
#[test]
fn attention_in_parts_is_as_exact_as_in_f32() {
    type B = music3_testkit::Cuda;
    let device = Default::default();
    for (tokens, heads, head_dim, spread) in [(689, 4, 64, 2.0), (201, 3, 32, 3.0), (130, 2, 64, 0.5)] {
        let inner = heads * head_dim;
        let x = values::<B, 3>([1, tokens, inner], 61, Width::F32, &device).mul_scalar(spread);
        let copy = Tensor::<B, 2>::eye(inner, &device);
        let (ones, zeros) = (Tensor::<B, 2>::ones([tokens, 8], &device), Tensor::<B, 2>::zeros([tokens, 8], &device));
        let attended = music3_kernels::try_attend_projected(&x, [&copy, &copy, &copy], heads, [&ones, &zeros]);
        let found = host(attended.expect("heads divide into tiles"));
        let heads_of_x = split_heads(x.clone(), heads);
        let in_f32 = ops::scaled_dot_product_attention(
            heads_of_x.clone(),
            heads_of_x.clone(),
            heads_of_x,
            AttentionMask::Full,
            Width::F32,
        );
        let in_f32 = host(in_f32.swap_dims(1, 2).reshape([1, tokens, inner]));
        let exact = attention_in_f64(&host(x), [tokens, heads, head_dim]);
        let [of_tiles, of_products] = [found, in_f32].map(|values| errors(&values, &exact));
        println!(
            "{tokens} tokens, {heads} heads of {head_dim}, spread {spread}: rms {:.2e}, max {:.2e} in tiles; {:.2e}, {:.2e} \
             as f32 products",
            of_tiles[0], of_tiles[1], of_products[0], of_products[1]
        );
        assert!(of_tiles[0] <= 2.0 * of_products[0], "rms {:e} and {:e}", of_tiles[0], of_products[0]);
        assert!(of_tiles[1] <= 4.0 * of_products[1], "max {:e} and {:e}", of_tiles[1], of_products[1]);
    }
}

/// Returns attention of `[tokens, heads·head_dim]` over itself.
#[cfg(feature = "cuda")]
fn attention_in_f64(x: &[f32], [tokens, heads, head_dim]: [usize; 3]) -> Vec<f64> {
    let at = |token: usize, head: usize, place: usize| f64::from(x[(token * heads + head) * head_dim + place]);
    let mut out = vec![0.0; x.len()];
    for head in 0..heads {
        for query in 0..tokens {
            let score =
                |key: usize| (0..head_dim).map(|place| at(query, head, place) * at(key, head, place)).sum::<f64>();
            let scores: Vec<f64> = (0..tokens).map(|key| score(key) / (head_dim as f64).sqrt()).collect();
            let highest = scores.iter().copied().fold(f64::MIN, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - highest).exp()).collect();
            let total: f64 = weights.iter().sum();
            for place in 0..head_dim {
                let sum: f64 = weights.iter().enumerate().map(|(key, weight)| weight * at(key, head, place)).sum();
                out[(query * heads + head) * head_dim + place] = sum / total;
            }
        }
    }
    out
}

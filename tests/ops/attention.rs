//! Attention in torch's MATH form: all keys, causal, grouped queries, one query against a cache.

use burn::tensor::{Tensor, backend::Backend};
use music3_nn::{
    Width,
    ops::{self, AttentionMask},
};
use music3_testkit::on_each_backend;

use crate::{draw::Normal, judge::Judge};

on_each_backend!(attention_equals_torchs_math_form_in_bf16, attention_equals_torchs_math_form_in_f32);

struct Case {
    label: &'static str,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    queries: usize,
    keys: usize,
    mask: AttentionMask,
}

const fn case(
    label: &'static str,
    [heads, kv_heads, head_dim]: [usize; 3],
    tokens: [usize; 2],
    mask: AttentionMask,
) -> Case {
    let [queries, keys] = tokens;
    Case { label, heads, kv_heads, head_dim, queries, keys, mask }
}

const CASES: [Case; 7] = [
    case("full", [3, 3, 10], [17, 17], AttentionMask::Full),
    case("causal", [3, 3, 10], [17, 17], AttentionMask::Causal),
    case("grouped_causal", [6, 2, 16], [33, 33], AttentionMask::Causal),
    case("grouped_decode_201", [8, 2, 64], [1, 201], AttentionMask::Full),
    case("grouped_after_12", [4, 2, 16], [5, 17], AttentionMask::Causal),
    case("single", [2, 1, 8], [1, 1], AttentionMask::Causal),
    case("wide", [2, 2, 256], [10, 40], AttentionMask::Full),
];

fn attention_equals_torchs_math_form_in_bf16<B: Backend>(device: &B::Device) {
    judge::<B>(Width::Bf16, device);
}

fn attention_equals_torchs_math_form_in_f32<B: Backend>(device: &B::Device) {
    judge::<B>(Width::F32, device);
}

fn judge<B: Backend>(width: Width, device: &B::Device) {
    let mut judge = Judge::<B>::new("attention", width, device);
    for Case { label, heads, kv_heads, head_dim, queries, keys, mask } in CASES {
        let name = format!("attention_{label}");
        let draw = |part: &str, heads, tokens| {
            judge.normal(&format!("{name}.{part}"), [2, heads, tokens, head_dim], Normal::scaled(1.5))
        };
        let query = draw("query", heads, queries);
        let (key, value) = (draw("key", kv_heads, keys), draw("value", kv_heads, keys));
        if mask == AttentionMask::Full && heads == kv_heads {
            let rounded = rounded_at_each_step(query.clone(), key.clone(), value.clone(), width);
            judge.refuses(&name, "rounded scores and probabilities", rounded);
        }
        judge.reduction(&name, ops::scaled_dot_product_attention(query, key, value, mask, width));
    }
    judge.finish();
}

/// Attention as separate ops would compute it, which is not what torch's MATH form does.
fn rounded_at_each_step<B: Backend>(
    query: Tensor<B, 4>,
    key: Tensor<B, 4>,
    value: Tensor<B, 4>,
    width: Width,
) -> Tensor<B, 4> {
    let scale = (query.dims()[3] as f32).sqrt().recip();
    let scores = ops::mul_scalar(ops::matmul(query, key.swap_dims(2, 3), width), scale, width);
    ops::matmul(ops::softmax(scores, 3, width), value, width)
}

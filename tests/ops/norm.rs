//! Normalisations, softmax and sums, from one value a row to 4096.

use burn::tensor::{Tensor, backend::Backend};
use music3_nn::{Width, ops};
use music3_testkit::on_each_backend;

use crate::{draw::Normal, judge::Judge};

on_each_backend!(
    normalisations_equal_torch_in_bf16,
    normalisations_equal_torch_in_f32,
    sums_equal_torch_in_bf16,
    sums_equal_torch_in_f32,
);

const SIZES: [usize; 5] = [1, 7, 64, 1000, 4096];
const RMS_EPS: f32 = 1e-6;
const LAYER_EPS: f32 = 1e-5;

fn normalisations_equal_torch_in_bf16<B: Backend>(device: &B::Device) {
    judge_normalisations::<B>(Width::Bf16, device);
}

fn normalisations_equal_torch_in_f32<B: Backend>(device: &B::Device) {
    judge_normalisations::<B>(Width::F32, device);
}

fn sums_equal_torch_in_bf16<B: Backend>(device: &B::Device) {
    judge_sums::<B>(Width::Bf16, device);
}

fn sums_equal_torch_in_f32<B: Backend>(device: &B::Device) {
    judge_sums::<B>(Width::F32, device);
}

fn judge_normalisations<B: Backend>(width: Width, device: &B::Device) {
    let mut judge = Judge::<B>::new("normalisations", width, device);
    for size in SIZES {
        let rows = 64.min(4096 / size);
        let mut values = Normal::scaled(1.7).values(&format!("norm_{size}.x"), rows * size);
        let mut logits = Normal::scaled(4.0).values(&format!("softmax_{size}.x"), rows * size);
        if rows > 3 {
            tell_rows_apart(&mut values, &mut logits, size);
        }
        let x: Tensor<B, 2> = judge.tensor(values, [rows, size]);
        let weight = judge.normal(&format!("norm_{size}.weight"), [size], Normal { scale: 0.3, mean: 1.0 });
        let bias = judge.normal(&format!("norm_{size}.bias"), [size], Normal::scaled(0.3));
        let logits: Tensor<B, 2> = judge.tensor(logits, [rows, size]);
        let rms = ops::rms_norm(x.clone(), weight.clone(), RMS_EPS, width);
        let layer = ops::layer_norm(x.clone(), weight.clone(), bias.clone(), LAYER_EPS, width);
        judge.reduction(&format!("rms_norm_{size}"), rms);
        judge.reduction(&format!("layer_norm_{size}"), layer);
        judge.reduction(&format!("softmax_{size}"), ops::softmax(logits.clone(), 1, width));
        if size >= 64 {
            refuse_other_roundings(&mut judge, size, [x, logits], [weight, bias]);
        }
    }
    // The condition encoder's softmax is over one row of eight.
    let layers: Tensor<B, 2> = judge.normal("softmax_layers.x", [40, 8], Normal::scaled(1.0));
    let row = |row| ops::softmax::<B, 1>(layers.clone().narrow(0, row, 1).reshape([8]), 0, width);
    judge.reduction("softmax_layers", Tensor::stack::<2>((0..40).map(row).collect(), 0));
    judge.finish();
}

fn refuse_other_roundings<B: Backend>(
    judge: &mut Judge<'_, B>,
    size: usize,
    [x, logits]: [Tensor<B, 2>; 2],
    [weight, bias]: [Tensor<B, 1>; 2],
) {
    let width = judge.width;
    let rms = ops::rms_norm(ops::widen(x.clone()), ops::widen(weight.clone()), RMS_EPS, Width::F32);
    judge.refuses(&format!("rms_norm_{size}"), "one rounding", ops::round(rms, width));

    let plain = ops::layer_norm(x, weight.ones_like(), bias.zeros_like(), LAYER_EPS, width);
    let affine = ops::add(ops::mul(plain, weight.unsqueeze(), width), bias.unsqueeze(), width);
    judge.refuses(&format!("layer_norm_{size}"), "a rounding at each step", affine);

    let logits = ops::widen(logits);
    let exponentials = (logits.clone() - logits.max_dim(1)).exp();
    let sum = exponentials.clone().sum_dim(1);
    let numerators = ops::widen(ops::round(exponentials, width));
    judge.refuses(&format!("softmax_{size}"), "rounded exponentials", ops::round(numerators / sum, width));
}

/// Normalisations: zeros, values so small that epsilon matters, an offset. Logits: every second one masked, all of them
/// masked, equal ones.
fn tell_rows_apart(values: &mut [f32], logits: &mut [f32], size: usize) {
    values[..size].fill(0.0);
    values[size..2 * size].iter_mut().for_each(|value| *value *= 2f32.powi(-10));
    values[2 * size..3 * size].iter_mut().for_each(|value| *value += 3.0);
    logits[..size].iter_mut().step_by(2).for_each(|logit| *logit = f32::NEG_INFINITY);
    logits[size..2 * size].fill(f32::NEG_INFINITY);
    logits[2 * size..3 * size].fill(3.0);
}

fn judge_sums<B: Backend>(width: Width, device: &B::Device) {
    let mut judge = Judge::<B>::new("sums", width, device);
    let embeddings = judge.normal("sum_7.x", [3, 7, 400], Normal::scaled(0.9));
    judge.reduction("sum_dim_7_embeddings", ops::sum_dim(embeddings.clone(), 1, width));
    let one_by_one = embeddings.split(1, 1).into_iter().reduce(|sum, next| ops::add(sum, next, width));
    judge.refuses("sum_dim_7_embeddings", "one addition after the other", one_by_one.expect("there are seven"));
    for size in SIZES {
        let x = judge.normal(&format!("sum_{size}.x"), [40, size], Normal::scaled(0.9));
        judge.reduction(&format!("sum_dim_{size}"), ops::sum_dim(x, 1, width));
    }
    let layers = judge.normal("mix.x", [2, 5, 8, 96], Normal::scaled(0.9));
    let weights = judge.normal("mix.weights", [8], Normal { scale: 0.1, mean: 0.125 });
    judge.reduction("mix_layers", ops::mix_layers(layers.clone(), weights.clone(), width));
    let weighted = ops::mul(layers, weights.reshape([1, 1, 8, 1]), width);
    judge.refuses("mix_layers", "rounded products", ops::sum_dim(weighted, 2, width).reshape([2, 5, 96]));
    judge.finish();
}

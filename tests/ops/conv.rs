//! Convolutions over time, plain and transposed.

use burn::tensor::backend::Backend;
use music3_nn::{
    Width,
    ops::{self, Conv1dOptions, ConvTranspose1dOptions},
};
use music3_testkit::on_each_backend;

use crate::{draw::Normal, judge::Judge};

on_each_backend!(convolutions_equal_torch_in_bf16, convolutions_equal_torch_in_f32);

fn convolutions_equal_torch_in_bf16<B: Backend>(device: &B::Device) {
    judge::<B>(Width::Bf16, device);
}

fn convolutions_equal_torch_in_f32<B: Backend>(device: &B::Device) {
    judge::<B>(Width::F32, device);
}

fn judge<B: Backend>(width: Width, device: &B::Device) {
    const INPUTS: usize = 13;
    const OUTPUTS: usize = 11;
    let mut judge = Judge::<B>::new("convolutions", width, device);
    for (taps, dilation) in [(1, 1), (3, 1), (3, 3), (3, 9), (7, 1), (7, 3), (7, 9)] {
        let name = format!("conv1d_{taps}_{dilation}");
        let x = judge.normal(&format!("{name}.x"), [2, INPUTS, 41], Normal::scaled(1.0));
        let fitting = Normal::for_products(INPUTS * taps);
        let weight = judge.normal(&format!("{name}.weight"), [OUTPUTS, INPUTS, taps], fitting);
        let bias = judge.normal(&format!("{name}.bias"), [OUTPUTS], Normal::scaled(0.7));
        let options = Conv1dOptions { padding: dilation * (taps - 1) / 2, dilation };
        let apart = ops::conv1d(x.clone(), weight.clone(), None, options, width);
        if dilation == 1 {
            judge.reduction(&name, apart.clone());
        }
        judge.reduction(&format!("{name}_bias"), ops::conv1d(x, weight, Some(bias.clone()), options, width));
        let apart = ops::add(apart, bias.reshape([1, OUTPUTS, 1]), width);
        judge.refuses(&format!("{name}_bias"), "a bias rounded apart", apart);
    }
    for stride in [1, 2, 3, 8] {
        let name = format!("conv_transpose1d_{stride}");
        let x = judge.normal(&format!("{name}.x"), [2, INPUTS, 19], Normal::scaled(1.0));
        let fitting = Normal::for_products(2 * INPUTS);
        let weight = judge.normal(&format!("{name}.weight"), [INPUTS, OUTPUTS, 2 * stride], fitting);
        let bias = judge.normal(&format!("{name}.bias"), [OUTPUTS], Normal::scaled(0.7));
        let options = ConvTranspose1dOptions { stride, padding: stride.div_ceil(2) };
        let apart = ops::conv_transpose1d(x.clone(), weight.clone(), None, options, width);
        judge.reduction(&name, ops::conv_transpose1d(x, weight, Some(bias.clone()), options, width));
        judge.refuses(&name, "a bias rounded apart", ops::add(apart, bias.reshape([1, OUTPUTS, 1]), width));
    }
    judge.finish();
}

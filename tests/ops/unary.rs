//! Elementwise ops of one operand: in bf16 over all 65 536 values.

use std::f64::consts::PI;

use burn::tensor::{Tensor, backend::Backend};
use music3_nn::{Width, ops};
use music3_testkit::on_each_backend;

use crate::{
    draw::{self, Normal},
    judge::Judge,
};

on_each_backend!(unary_ops_equal_torch_over_every_bf16_value, unary_ops_equal_torch_in_f32);

fn unary_ops_equal_torch_over_every_bf16_value<B: Backend>(device: &B::Device) {
    judge::<B>(draw::every_bf16(), Width::Bf16, device);
}

fn unary_ops_equal_torch_in_f32<B: Backend>(device: &B::Device) {
    let mut values = Normal::scaled(3.0).values("unary.usual", 1000);
    values.extend(draw::any_bits("unary.any", 1000, Width::F32));
    values.extend(draw::edges(Width::F32));
    judge::<B>(values, Width::F32, device);
}

fn judge<B: Backend>(values: Vec<f32>, width: Width, device: &B::Device) {
    let mut judge = Judge::<B>::new("unary", width, device);
    let count = values.len();
    let x: Tensor<B, 1> = judge.tensor(values, [count]);
    judge.exact("neg", ops::neg(x.clone()));
    judge.exact("recip", ops::recip(x.clone(), width));
    judge.exact("square", ops::square(x.clone(), width));
    let scalars = [("inv_sqrt_8", 8f64.powf(-0.5)), ("1_7", 1.7), ("2_pi", 2.0 * PI), ("1_5", 1.5)];
    for (name, scalar) in scalars {
        judge.exact(&format!("mul_scalar_{name}"), ops::mul_scalar(x.clone(), scalar as f32, width));
    }
    let scalar = judge.tensor(vec![1.7], [1]);
    judge.refuses("mul_scalar_1_7", "a rounded factor", ops::mul(x.clone(), scalar, width));
    judge.exact("add_scalar_1e_9", ops::add_scalar(x.clone(), 1e-9, width));
    let sum = ops::add_scalar(ops::widen(x.clone()), 1e-9, Width::F32);
    judge.refuses("add_scalar_1e_9", "a summand of f32", ops::round(sum, width));
    judge.transcendental("silu", ops::silu(x.clone(), width));
    let sigmoid = ops::recip(ops::widen(x.clone()).neg().exp().add_scalar(1.0), width);
    judge.refuses("silu", "a rounded sigmoid", ops::mul(x.clone(), sigmoid, width));
    judge.transcendental("sin", ops::sin(x.clone(), width));
    judge.transcendental("cos", ops::cos(x.clone(), width));
    judge.transcendental("tanh", ops::tanh(x, width));
    judge.finish();
}

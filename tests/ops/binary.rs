//! Elementwise ops of two operands: exact.

use burn::tensor::{Tensor, backend::Backend};
use music3_nn::{Width, ops};
use music3_testkit::on_each_backend;

use crate::{
    draw::{self, Normal},
    judge::Judge,
};

on_each_backend!(binary_ops_equal_torch_to_the_bit_in_bf16, binary_ops_equal_torch_to_the_bit_in_f32);

fn binary_ops_equal_torch_to_the_bit_in_bf16<B: Backend>(device: &B::Device) {
    judge::<B>(Width::Bf16, device);
}

fn binary_ops_equal_torch_to_the_bit_in_f32<B: Backend>(device: &B::Device) {
    judge::<B>(Width::F32, device);
}

fn judge<B: Backend>(width: Width, device: &B::Device) {
    const DRAWN: usize = 1500;
    let mut judge = Judge::<B>::new("binary", width, device);
    let edges = draw::edges(width);
    let mut near = Normal::scaled(2.0).values("binary.near", DRAWN);
    let mut a: Vec<f32> = edges.iter().flat_map(|&edge| vec![edge; edges.len()]).collect();
    let mut b = edges.repeat(edges.len());
    a.extend(draw::any_bits("binary.a", DRAWN, width));
    b.extend(draw::any_bits("binary.b", DRAWN, width));
    a.extend(Normal::scaled(1.0).values("binary.c", DRAWN));
    b.extend(Normal::scaled(1.0).values("binary.d", DRAWN));
    a.extend(&near);
    near.rotate_right(1);
    b.extend(&near);

    let count = a.len();
    let (a, b): (Tensor<B, 1>, Tensor<B, 1>) = (judge.tensor(a, [count]), judge.tensor(b, [count]));
    judge.exact("add", ops::add(a.clone(), b.clone(), width));
    judge.exact("sub", ops::sub(a.clone(), b.clone(), width));
    judge.exact("mul", ops::mul(a, b, width));

    let row = judge.normal("binary.row", [3, 1, 5], Normal::scaled(1.0));
    let column = judge.normal("binary.column", [1, 4, 5], Normal::scaled(1.0));
    judge.exact("add_broadcast", ops::add(row.clone(), column.clone(), width));
    judge.exact("sub_broadcast", ops::sub(row.clone(), column.clone(), width));
    judge.exact("mul_broadcast", ops::mul(row, column, width));
    judge.finish();
}

//! Products of matrices, with one row or few as in decoding, and with more.

use burn::tensor::backend::Backend;
use music3_nn::{Width, ops};
use music3_testkit::on_each_backend;

use crate::{draw::Normal, judge::Judge};

on_each_backend!(products_equal_torch_in_bf16, products_equal_torch_in_f32);

/// Rows, inner size, outputs.
const LINEAR: [(usize, usize, usize); 8] = [
    (2, 1, 5),
    (1, 7, 33),
    (3, 64, 131),
    (17, 77, 130),
    (2, 1000, 513),
    (21, 1000, 65),
    (2, 4096, 301),
    (19, 4096, 23),
];

/// Batch, rows, inner size, columns.
const MATMUL: [(usize, usize, usize, usize); 3] = [(1, 5, 7, 3), (3, 11, 64, 13), (2, 6, 1000, 29)];

fn products_equal_torch_in_bf16<B: Backend>(device: &B::Device) {
    judge::<B>(Width::Bf16, device);
}

fn products_equal_torch_in_f32<B: Backend>(device: &B::Device) {
    judge::<B>(Width::F32, device);
}

fn judge<B: Backend>(width: Width, device: &B::Device) {
    let mut judge = Judge::<B>::new("products", width, device);
    for (rows, inner, outputs) in LINEAR {
        let name = format!("linear_{rows}_{inner}_{outputs}");
        let x = judge.normal(&format!("{name}.x"), [rows, inner], Normal::scaled(1.0));
        let weight = judge.normal(&format!("{name}.weight"), [outputs, inner], Normal::for_products(inner));
        let bias = judge.normal(&format!("{name}.bias"), [outputs], Normal::scaled(0.7));
        let product = ops::linear(x.clone(), weight.clone(), None, width);
        judge.reduction(&name, product.clone());
        judge.reduction(&format!("{name}_bias"), ops::linear(x, weight, Some(bias.clone()), width));
        if outputs > 100 {
            let apart = ops::add(product, bias.unsqueeze(), width);
            judge.refuses(&format!("{name}_bias"), "a bias rounded apart", apart);
        }
    }
    for (batch, rows, inner, columns) in MATMUL {
        let name = format!("matmul_{batch}_{rows}_{inner}_{columns}");
        let a = judge.normal(&format!("{name}.a"), [batch, rows, inner], Normal::scaled(1.0));
        let b = judge.normal(&format!("{name}.b"), [batch, inner, columns], Normal::for_products(inner));
        judge.reduction(&name, ops::matmul(a, b, width));
    }
    judge.finish();
}

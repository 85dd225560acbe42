//! Rotary tables at positions up to 10 000, and their use on a whole head or on part of it.

use burn::tensor::{Tensor, backend::Backend};
use music3_nn::{RotaryTable, Width, ops};
use music3_testkit::on_each_backend;

use crate::{draw::Normal, judge::Judge};

on_each_backend!(rotary_tables_equal_torch_in_bf16, rotary_tables_equal_torch_in_f32);

/// Rotated values of a head, theta, values of a head. The odd halves are 13 and 5.
const TABLES: [(usize, f64, usize); 4] = [(128, 1e6, 128), (32, 1e4, 40), (26, 1e4, 34), (10, 1e6, 18)];

const LAST: usize = 10_000;

fn positions() -> Vec<usize> {
    let chosen = [25, 63, 100, 201, 345, 689, 1000, 2047, 4096, 5000, 6173, 7919, 8999, 9973, 9999, LAST];
    (0..17).chain(chosen).collect()
}

fn rotary_tables_equal_torch_in_bf16<B: Backend>(device: &B::Device) {
    judge::<B>(Width::Bf16, device);
}

fn rotary_tables_equal_torch_in_f32<B: Backend>(device: &B::Device) {
    judge::<B>(Width::F32, device);
}

fn judge<B: Backend>(width: Width, device: &B::Device) {
    let mut judge = Judge::<B>::new("rotary", width, device);
    for (rotary_dim, theta, head_dim) in TABLES {
        let name = format!("rotary_{rotary_dim}");
        let table = RotaryTable::<B>::new(rotary_dim, theta, LAST + 1, width, device);
        let half = rotary_dim / 2;
        for (part, values) in [("cos", table.cos()), ("sin", table.sin())] {
            let [first, second] = [0, half].map(|start| values.clone().narrow(1, start, half));
            second.into_data().assert_eq(&first.clone().into_data(), true);
            judge.reduction(&format!("{name}_{part}"), ops::index_select(first, 0, &positions()));
        }
        // Torch's tensor is [batch, positions, heads, head_dim].
        let x: Tensor<B, 4> = judge.normal(&format!("{name}.x"), [1, 5, 2, head_dim], Normal::scaled(1.5));
        let x = x.swap_dims(1, 2);
        judge.reduction(&format!("{name}_apply"), table.narrow(1000, 5).apply(x.clone(), width));
        let wide = RotaryTable::<B>::new(rotary_dim, theta, 1005, Width::F32, device).narrow(1000, 5);
        let once = ops::round(wide.apply(ops::widen(x), Width::F32), width);
        judge.refuses(&format!("{name}_apply"), "one rounding", once);
    }
    judge.finish();
}

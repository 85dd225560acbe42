//! Ops that only move values: exact, whatever their bits.

use burn::tensor::{Int, Tensor, TensorData, backend::Backend};
use music3_nn::{Width, ops};
use music3_testkit::on_each_backend;

use crate::{draw, judge::Judge};

on_each_backend!(index_ops_move_bf16_values_as_torch_does, index_ops_move_f32_values_as_torch_does);

fn index_ops_move_bf16_values_as_torch_does<B: Backend>(device: &B::Device) {
    judge::<B>(Width::Bf16, device);
}

fn index_ops_move_f32_values_as_torch_does<B: Backend>(device: &B::Device) {
    judge::<B>(Width::F32, device);
}

fn judge<B: Backend>(width: Width, device: &B::Device) {
    let mut judge = Judge::<B>::new("indexing", width, device);
    let table = judge.tensor(draw::any_bits("embedding.table", 37 * 9, width), [37, 9]);
    let ids: Vec<i32> = draw::integers("embedding.ids", 2 * 11, 37).into_iter().map(|id| id as i32).collect();
    let ids = Tensor::<B, 2, Int>::from_data(TensorData::new(ids, [2, 11]), device);
    judge.exact("embedding", ops::embedding(ids, table));

    let x = judge.tensor(draw::any_bits("select.x", 2 * 13 * 5, width), [2, 13, 5]);
    let indices = draw::integers("select.indices", 29, 13);
    judge.exact("index_select", ops::index_select(x, 1, &indices));
    judge.finish();
}

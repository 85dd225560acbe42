//! A decoder layer's pieces: projections into the cache, attention over it, the gated feed-forward, products with a sum.

use burn::tensor::backend::Backend;
use music3_nn::{
    ComputePath, KvCache, RotaryTable, Width,
    decoder::{HeadPreparation, Projections, attend_stored, gated},
    kv_cache::KvCacheShape,
    layers::{Linear, RmsNorm},
    ops,
};
use music3_testkit::on_each_backend;

use crate::compare::{assert_rounded_alike, assert_share_alike, host, values};

on_each_backend!(
    projections_fill_the_cache,
    attention_over_a_cache,
    attention_of_new_positions,
    feed_forward,
    products_with_a_sum,
    rms_norm,
);

/// Sizes of a layer; the first two are the published language model's and depth decoder's, a few layers narrower.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    hidden: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    tokens: usize,
    rotates: bool,
}

const SIZES: [Sizes; 6] = [
    Sizes { hidden: 1024, heads: 8, kv_heads: 2, head_dim: 128, tokens: 1, rotates: true },
    Sizes { hidden: 512, heads: 2, kv_heads: 2, head_dim: 256, tokens: 2, rotates: false },
    Sizes { hidden: 40, heads: 6, kv_heads: 2, head_dim: 10, tokens: 1, rotates: true },
    Sizes { hidden: 264, heads: 3, kv_heads: 3, head_dim: 66, tokens: 2, rotates: true },
    Sizes { hidden: 8, heads: 5, kv_heads: 1, head_dim: 2, tokens: 1, rotates: false },
    Sizes { hidden: 1288, heads: 7, kv_heads: 7, head_dim: 62, tokens: 1, rotates: false },
];

struct Layer<B: Backend> {
    norm: RmsNorm<B>,
    query: Linear<B>,
    key: Linear<B>,
    value: Linear<B>,
    query_norm: RmsNorm<B>,
    key_norm: RmsNorm<B>,
}

fn linear<B: Backend>(inputs: usize, outputs: usize, seed: u32, device: &B::Device) -> Linear<B> {
    let mut linear = Linear::new(inputs, outputs, Width::Bf16, device);
    // By a power of two, so that outputs are of the inputs' size: with larger scores one key takes all of the attention, and one
    // rounding in it turns every value of its head.
    let scale = 0.5f32.powi((inputs as f32).log2() as i32 / 2);
    let weight = values::<B, 2>([outputs, inputs], seed, Width::Bf16, device).mul_scalar(scale);
    linear.weight = burn::module::Param::from_tensor(weight);
    linear
}

fn norm<B: Backend>(channels: usize, seed: u32, device: &B::Device) -> RmsNorm<B> {
    let mut norm = RmsNorm::new(channels, 1e-6, Width::Bf16, device);
    norm.weight = burn::module::Param::from_tensor(values([channels], seed, Width::Bf16, device));
    norm
}

impl<B: Backend> Layer<B> {
    fn new(sizes: Sizes, device: &B::Device) -> Self {
        let Sizes { hidden, heads, kv_heads, head_dim, .. } = sizes;
        Self {
            norm: norm(hidden, 1, device),
            query: linear(hidden, heads * head_dim, 2, device),
            key: linear(hidden, kv_heads * head_dim, 3, device),
            value: linear(hidden, kv_heads * head_dim, 4, device),
            query_norm: norm(head_dim, 5, device),
            key_norm: norm(head_dim, 6, device),
        }
    }

    fn projections<'a>(&'a self, sizes: Sizes, rotary: &'a RotaryTable<B>) -> Projections<'a, B> {
        let (query_norm, key_norm) = (&self.query_norm, &self.key_norm);
        Projections {
            norm: &self.norm,
            query: &self.query,
            key: &self.key,
            value: &self.value,
            head_dim: sizes.head_dim,
            preparation: sizes.rotates.then_some(HeadPreparation { query_norm, key_norm, rotary }),
        }
    }
}

fn cache<B: Backend>(sizes: Sizes, capacity: usize, device: &B::Device) -> KvCache<B> {
    let shape = KvCacheShape { layers: 1, batch: 2, kv_heads: sizes.kv_heads, capacity, head_dim: sizes.head_dim };
    KvCache::new(shape, Width::Bf16, device)
}

fn projections_fill_the_cache<B: Backend>(device: &B::Device) {
    for sizes in SIZES {
        let layer = Layer::<B>::new(sizes, device);
        let position = 5;
        let x = values([2, sizes.tokens, sizes.hidden], 9, Width::Bf16, device);
        let table = RotaryTable::new(sizes.head_dim, 1e6, 20, Width::Bf16, device).narrow(position, sizes.tokens);
        let run = |path: ComputePath| {
            let mut cache = cache::<B>(sizes, 11, device);
            path.scope(|| {
                cache.extend(position, |_, _| ());
                cache.extend(sizes.tokens, |layers, position| {
                    let queries = layer.projections(sizes, &table).read(x.clone(), &mut layers[0], position);
                    let (keys, values) = layers[0].whole();
                    [host(queries), host(keys.clone()), host(values.clone())]
                })
            })
        };
        let (found, wanted) = (run(ComputePath::Kernels), run(ComputePath::Plain));
        for (what, (found, wanted)) in ["queries", "keys", "values"].iter().zip(found.iter().zip(&wanted)) {
            assert_rounded_alike(&format!("{what} of {sizes:?}"), found, wanted);
        }
    }
}

fn attention_over_a_cache<B: Backend>(device: &B::Device) {
    for sizes in SIZES {
        // One part, one part that is full, two parts, as many parts as there can be, and more keys than that.
        for stored in [0, 63, 64, 130, 1023, 1500] {
            let capacity = stored + sizes.tokens + 3;
            let shape = [2, sizes.kv_heads, stored + sizes.tokens, sizes.head_dim];
            let mut cache = cache::<B>(sizes, capacity, device);
            let queries = values([2, sizes.tokens, sizes.heads, sizes.head_dim], 13, Width::Bf16, device);
            let [found, wanted] = cache.extend(stored + sizes.tokens, |layers, _| {
                let keys = values(shape, 11, Width::Bf16, device);
                layers[0].append(0, keys, values(shape, 12, Width::Bf16, device));
                [ComputePath::Kernels, ComputePath::Plain]
                    .map(|path| path.scope(|| host(attend_stored(queries.clone(), &layers[0], stored, Width::Bf16))))
            });
            assert_rounded_alike(&format!("attention over {stored} of {sizes:?}"), &found, &wanted);
        }
    }
}

/// Projections, cache and attention in one: the attention, and what the cache holds afterwards.
fn attention_of_new_positions<B: Backend>(device: &B::Device) {
    for sizes in SIZES {
        let layer = Layer::<B>::new(sizes, device);
        // The first position, the last of a tile, the first of a part, and more parts than one can hold.
        for stored in [0, 31, 128, 1500] {
            let x = values([2, sizes.tokens, sizes.hidden], 14, Width::Bf16, device);
            let table = RotaryTable::new(sizes.head_dim, 1e6, stored + sizes.tokens, Width::Bf16, device);
            let table = table.narrow(stored, sizes.tokens);
            let run = |path: ComputePath| {
                let mut cache = cache::<B>(sizes, stored + sizes.tokens + 3, device);
                cache.extend(stored, |layers, _| {
                    if stored > 0 {
                        let shape = [2, sizes.kv_heads, stored, sizes.head_dim];
                        let keys = values(shape, 11, Width::Bf16, device);
                        layers[0].append(0, keys, values(shape, 12, Width::Bf16, device));
                    }
                });
                path.scope(|| {
                    cache.extend(sizes.tokens, |layers, position| {
                        let attended = layer.projections(sizes, &table).attend(x.clone(), &mut layers[0], position);
                        let (keys, values) = layers[0].whole();
                        [host(attended), host(keys.clone()), host(values.clone())]
                    })
                })
            };
            let (found, wanted) = (run(ComputePath::Kernels), run(ComputePath::Plain));
            // A query or a key that rounded to its other neighbour moves all values of its head a little.
            let shares = [("attention", 0.03), ("keys", 0.01), ("values", 0.01)];
            for ((what, share), (found, wanted)) in shares.iter().zip(found.iter().zip(&wanted)) {
                assert_share_alike(&format!("{what} at {stored} of {sizes:?}"), found, wanted, *share);
            }
        }
    }
}

fn feed_forward<B: Backend>(device: &B::Device) {
    for (hidden, intermediate, rows) in [(1024, 3072, 2), (64, 44, 4), (8, 3, 1), (1288, 771, 3)] {
        let (gate, up) = (linear(hidden, intermediate, 21, device), linear(hidden, intermediate, 22, device));
        let norm = norm::<B>(hidden, 23, device);
        let x = values([rows, 1, hidden], 24, Width::Bf16, device);
        let run = |path: ComputePath| path.scope(|| host(gated(&norm, &gate, &up, x.clone())));
        let (found, wanted) = (run(ComputePath::Kernels), run(ComputePath::Plain));
        assert_rounded_alike(&format!("gated {hidden} to {intermediate}, {rows} rows"), &found, &wanted);
    }
}

fn products_with_a_sum<B: Backend>(device: &B::Device) {
    for (inner, outputs, rows) in
        [(4096, 512, 2), (4096, 1100, 2), (512, 4100, 1), (12_288, 64, 2), (24, 7, 4), (8, 1, 1), (1032, 100, 3)]
    {
        let weight = linear::<B>(inner, outputs, 31, device);
        let x = values::<B, 3>([rows, 1, inner], 32, Width::Bf16, device);
        let residual = values::<B, 3>([rows, 1, outputs], 33, Width::Bf16, device);
        let run = |path: ComputePath| {
            path.scope(|| {
                let added = weight.forward_added(x.clone(), residual.clone());
                let repeated = weight.forward_added(x.clone(), residual.clone().narrow(0, 0, 1));
                [
                    host(added),
                    host(repeated),
                    host(weight.forward(x.clone())),
                    host(weight.forward_rows(x.clone(), 0..outputs.div_ceil(2))),
                ]
            })
        };
        let (found, wanted) = (run(ComputePath::Kernels), run(ComputePath::Plain));
        for (what, (found, wanted)) in
            ["added", "one row added to all", "alone", "some rows"].iter().zip(found.iter().zip(&wanted))
        {
            assert_rounded_alike(&format!("{inner} to {outputs}, {rows} rows, {what}"), found, wanted);
        }
    }
}

fn rms_norm<B: Backend>(device: &B::Device) {
    for (rows, channels) in [(1, 4096), (5, 4096), (300, 264), (2, 8)] {
        let weight = values::<B, 1>([channels], 41, Width::Bf16, device);
        let x = values::<B, 2>([rows, channels], 42, Width::Bf16, device);
        let run = |path: ComputePath| path.scope(|| host(ops::rms_norm(x.clone(), weight.clone(), 1e-6, Width::Bf16)));
        let (found, wanted) = (run(ComputePath::Kernels), run(ComputePath::Plain));
        assert_rounded_alike(&format!("{rows} rows of {channels}"), &found, &wanted);
    }
}

/// A row's result does not depend on which rows are read beside it.
#[test]
#[cfg(feature = "cuda")]
fn rows_do_not_depend_on_their_number() {
    type B = music3_testkit::Cuda;
    let device = Default::default();
    let weight = linear::<B>(4096, 257, 51, &device);
    let x = values::<B, 3>([4, 1, 4096], 52, Width::Bf16, &device);
    let all = host(weight.forward(x.clone()));
    for row in 0..4 {
        let alone = host(weight.forward(x.clone().narrow(0, row, 1)));
        assert_eq!(alone, all[row * 257..(row + 1) * 257], "row {row}");
    }
}

/// Every kernel is the one that runs on CUDA: where none is offered, the two paths above would agree for no reason.
#[test]
#[cfg(feature = "cuda")]
fn cuda_takes_every_kernel() {
    use music3_kernels::{Norm, Stored};
    type B = music3_testkit::Cuda;
    let device = Default::default();
    assert_eq!(ComputePath::of::<B>(), ComputePath::Kernels);
    for sizes in SIZES {
        let x: burn::tensor::Tensor<B, 3> = values([2, sizes.tokens, sizes.hidden], 1, Width::Bf16, &device);
        let layer = Layer::<B>::new(sizes, &device);
        let weight = layer.norm.weight.val();
        let norm = || Norm { weight: &weight, eps: 1e-6 };
        let [query, key, value] = [&layer.query, &layer.key, &layer.value].map(|linear| linear.weight.val());
        let stored: burn::tensor::Tensor<B, 4> =
            values([2, sizes.kv_heads, 9, sizes.head_dim], 2, Width::Bf16, &device);
        let cache = || Stored { keys: &stored, values: &stored, position: 3 };
        let queries = music3_kernels::try_read_positions(&x, norm(), [&query, &key, &value], None, &cache());
        let queries = queries.unwrap_or_else(|| panic!("projections of {sizes:?}"));
        assert!(music3_kernels::try_attend_stored(&queries, &cache()).is_some(), "attention of {sizes:?}");
        let newest = music3_kernels::try_attend_newest(&x, norm(), [&query, &key, &value], None, &cache());
        assert_eq!(newest.is_some(), sizes.tokens == 1, "attention of the newest of {sizes:?}");
        assert!(music3_kernels::try_gated(&x, norm(), &key, &value).is_some(), "gate of {sizes:?}");
        assert!(music3_kernels::try_linear_added(&x, &key, None).is_some(), "product of {sizes:?}");
        assert!(music3_kernels::try_rms_norm(&x, norm()).is_some(), "norm of {sizes:?}");
    }
}

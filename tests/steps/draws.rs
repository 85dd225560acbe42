//! Codes drawn on a device against codes drawn on the host, from the same logits and the same random numbers.

use burn::tensor::{DType, Int, Tensor, TensorData, backend::Backend};
use music3::{
    rng::{Randomness, TorchGenerator},
    sampling,
};
use music3_nn::{Draw, PendingRead, Width, ops, try_draw};

/// Values spread like logits, coarse enough that many are equal.
fn logits<B: Backend>(columns: usize, seed: u64, device: &B::Device) -> Tensor<B, 2> {
    let normals = TorchGenerator::new(seed).standard_normal(2 * columns, music3::rng::NoiseDtype::F32);
    let values: Vec<f32> = normals.iter().map(|normal| 3.0 * normal).collect();
    ops::round(Tensor::from_data(TensorData::new(values, [2, columns]), (device, DType::F32)), Width::Bf16)
}

fn rows<B: Backend>(logits: &Tensor<B, 2>, skipped: usize) -> [Vec<f32>; 2] {
    let columns = logits.dims()[1];
    let values: Vec<f32> = ops::widen(logits.clone()).into_data().into_vec().expect("widened tensors are f32");
    let row = |row: usize| {
        let values = &values[row * columns..(row + 1) * columns];
        [&values[..1], &values[1 + skipped..]].concat()
    };
    [row(0), row(1)]
}

/// The first of the largest quotients, as the host draws.
fn on_host([conditional, unconditional]: &[Vec<f32>; 2], exponentials: &[f32], filters: bool) -> usize {
    let guided = match filters {
        true => {
            let (scale, best) = (sampling::GUIDANCE_SCALE, sampling::GUIDANCE_TOP_K);
            sampling::guided_candidates(conditional, unconditional, scale, best)
        }
        false => sampling::guide(conditional, unconditional, sampling::GUIDANCE_SCALE),
    };
    let probabilities = sampling::sample_probabilities(&guided, sampling::SAMPLING_TOP_K);
    let quotients = probabilities.iter().zip(exponentials).map(|(share, number)| share / number);
    quotients
        .enumerate()
        .fold((0, 0.0f32), |best, (index, quotient)| if quotient > best.1 { (index, quotient) } else { best })
        .0
}

fn draw(candidates: usize, skipped: usize, filters: bool) -> Draw {
    let top_k = sampling::SAMPLING_TOP_K;
    Draw { slot: 1, slots: 3, candidates, skipped, top_k, filters, first_exponential: 5, base: 40, origin: 1 }
}

#[test]
fn a_device_draws_what_the_host_draws() {
    type B = music3_testkit::Cuda;
    let device = Default::default();
    for (candidates, skipped, filters) in
        [(16_385, 4, true), (1024, 0, false), (80, 0, false), (51, 3, true), (30, 2, true), (1, 0, false)]
    {
        for seed in 0..40 {
            let logits = logits::<B>(candidates + skipped, seed, &device);
            let columns: Vec<usize> = (0..candidates + 5).collect();
            let numbers = TorchGenerator::new(100 + seed).exponential_columns(columns.len(), &columns);
            let wanted = on_host(&rows(&logits, skipped), &numbers[5..], filters);
            let exponentials: Tensor<B, 1> =
                Tensor::from_data(TensorData::new(numbers.clone(), [numbers.len()]), (&device, DType::F32));
            let outcome = Tensor::<B, 1, Int>::from_data(TensorData::new(vec![-7i32; 12], [12]), &device);
            let rows = try_draw(&logits, &exponentials, &outcome, draw(candidates, skipped, filters))
                .expect("bf16 logits on CUDA");
            let outcome = PendingRead::begin(&outcome).expect("on CUDA").wait().expect("a copy");
            let row = 40 + (wanted as i32 - 1).max(0);
            let expected = [-7, wanted as i32, -7, -7, 0, -7, -7, -7, row, row, -7, -7];
            assert_eq!(outcome, expected, "{candidates} candidates, {skipped} skipped, seed {seed}");
            assert_eq!(rows.into_data().iter::<i32>().collect::<Vec<_>>(), [row, row], "its row for both sequences");
        }
    }
}

#[test]
fn a_device_counts_logits_that_are_not_finite() {
    type B = music3_testkit::Cuda;
    let device = Default::default();
    let mut values = vec![0.25f32; 2 * 70];
    (values[3], values[69], values[75]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
    let logits: Tensor<B, 2> = Tensor::from_data(TensorData::new(values, [2, 70]), (&device, DType::F32));
    let logits = ops::round(logits, Width::Bf16);
    let exponentials: Tensor<B, 1> = Tensor::ones([75], (&device, DType::F32));
    let outcome = Tensor::<B, 1, Int>::from_data(TensorData::new(vec![0i32; 12], [12]), &device);
    try_draw(&logits, &exponentials, &outcome, draw(70, 0, false)).expect("bf16 logits on CUDA");
    let outcome = PendingRead::begin(&outcome).expect("on CUDA").wait().expect("a copy");
    assert_eq!(outcome[4], 3);
}

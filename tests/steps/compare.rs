//! Values to compute with, and how two results are compared.

use burn::tensor::{DType, Tensor, TensorData, backend::Backend};
use music3_nn::{ComputePath, Width, ops};

/// Values between −1 and 1 from a counter, so that every backend computes with the same.
pub(crate) fn values<B: Backend, const D: usize>(
    shape: [usize; D],
    seed: u32,
    width: Width,
    device: &B::Device,
) -> Tensor<B, D> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (f64::from(state >> 8) / f64::from(1 << 23) - 1.0) as f32
        })
        .collect();
    // Through one dimension, as weights are: a device may pad the rows of several.
    let len = values.len();
    let values = Tensor::<B, 1>::from_data(TensorData::new(values, [len]), (device, DType::F32));
    ops::round(values, width).reshape(shape)
}

/// The values, widened.
pub(crate) fn host<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Vec<f32> {
    ops::widen(tensor).into_data().into_vec().expect("widened tensors are f32")
}

/// Asserts that two bf16 results are the same but for single roundings; prints how far apart they are.
pub(crate) fn assert_rounded_alike(what: &str, found: &[f32], wanted: &[f32]) {
    assert_share_alike(what, found, wanted, 0.01);
}

/// Asserts as much, where at most so large a share of the values may differ.
pub(crate) fn assert_share_alike(what: &str, found: &[f32], wanted: &[f32], share: f64) {
    assert_eq!(found.len(), wanted.len(), "{what}: sizes");
    assert!(found.iter().all(|value| value.is_finite()), "{what}: a value is not finite");
    let rms = (wanted.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / wanted.len() as f64).sqrt();
    let apart = |(a, b): (&f32, &f32)| f64::from((a - b).abs());
    let differing = found.iter().zip(wanted).filter(|(a, b)| a != b).count();
    let worst = found.iter().zip(wanted).map(apart).fold(0.0, f64::max);
    println!(
        "{what}: {} values, {differing} differ, worst {:.3e} of rms {rms:.3e}",
        found.len(),
        worst / rms.max(1e-30)
    );
    let allowed = ((found.len() as f64 * share) as usize).max(2);
    assert!(differing <= allowed, "{what}: {differing} of {} values differ, {allowed} may", found.len());
    for (index, (a, b)) in found.iter().zip(wanted).enumerate() {
        let bound = (f64::from(b.abs()) / 64.0).max(rms / 128.0);
        assert!(apart((a, b)) <= bound, "{what}: value {index} is {a}, wanted {b}");
    }
}

/// Asserts that two f32 results are the same but for the order of sums; prints how far apart they are.
pub(crate) fn assert_close(what: &str, found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len(), "{what}: sizes");
    let rms = (wanted.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / wanted.len() as f64).sqrt();
    let mut worst = 0.0f64;
    for (index, (a, b)) in found.iter().zip(wanted).enumerate() {
        let apart = (f64::from(*a) - f64::from(*b)).abs();
        worst = worst.max(apart);
        let bound = 1e-5 * f64::from(b.abs()) + 1e-5 * rms;
        // Written so that a NaN fails.
        assert!(apart <= bound, "{what}: value {index} is {a}, wanted {b}");
    }
    println!("{what}: {} values, worst {worst:.3e} of rms {rms:.3e}", found.len());
}

/// What most ops are compared in.
pub(crate) const WIDTHS: [Width; 2] = [Width::F32, Width::Bf16];

/// Runs `compute` with kernels and without, and compares.
pub(crate) fn both<B: Backend, const D: usize>(what: &str, width: Width, compute: impl Fn() -> Tensor<B, D>) {
    let [found, wanted] = [ComputePath::Kernels, ComputePath::Plain].map(|path| path.scope(|| host(compute())));
    match width {
        Width::F32 => assert_close(what, &found, &wanted),
        Width::Bf16 => assert_rounded_alike(what, &found, &wanted),
    }
}

/// Returns the rms and the largest of the errors, in units of the rms of what is exact.
pub(crate) fn errors(found: &[f32], exact: &[f64]) -> [f64; 2] {
    let rms = |values: &mut dyn Iterator<Item = f64>| (values.map(|v| v * v).sum::<f64>() / exact.len() as f64).sqrt();
    let unit = rms(&mut exact.iter().copied());
    let apart = || found.iter().zip(exact).map(|(found, exact)| f64::from(*found) - exact);
    [rms(&mut apart()) / unit, apart().fold(0.0, |most: f64, error| most.max(error.abs())) / unit]
}

//! One forward of the transformer and one of the vocoder on every backend of this build, and how far apart they are.
//!
//! `cargo run --release --example compare_backends`, or with `--features music3-examples/cuda`

use std::error::Error;

use burn::tensor::{Tensor, TensorData, backend::Backend};
use burn_flex::Flex;
use burn_ndarray::NdArray;
use music3::{ComputePath, Music3, Options, Precision, SongError};

/// What one backend answers.
struct Answer {
    backend: &'static str,
    path: ComputePath,
    velocity: Vec<f32>,
    samples: Vec<f32>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let answers = [
        answer::<NdArray>("ndarray")?,
        answer::<Flex>("flex")?,
        #[cfg(feature = "cuda")]
        answer::<burn_cuda::Cuda<f32, i32>>("cuda")?,
    ];
    let [first, others @ ..] = answers.as_slice() else { return Ok(()) };
    eprintln!("{}: {} values of the velocity, {} samples", first.backend, first.velocity.len(), first.samples.len());
    for other in others {
        eprintln!("{} ({} path) against {}, in units of the rms:", other.backend, other.path, first.backend);
        show("velocity", &other.velocity, &first.velocity);
        show("samples", &other.samples, &first.samples);
    }
    Ok(())
}

/// Both forwards on one backend, in f32, of the same weights and inputs.
fn answer<B: Backend>(backend: &'static str) -> Result<Answer, SongError> {
    let device = B::Device::default();
    let options = Options { precision: Precision::F32, ..Options::default() };
    let music = Music3::<B>::open(&music3::demo::unpack(music3::demo::Demo::Random)?, device.clone(), options)?;
    let channels = music.configs().transformer.in_channels;
    let condition = music.configs().transformer.condition_dim;
    let latents: Tensor<B, 3> = waves([2, channels, 86], &device);
    let (velocity, samples) = music.scope(|| -> Result<_, SongError> {
        let transformer = music.load_transformer(&mut ())?;
        let time = Tensor::from_data([0.25_f32, 0.25], &device);
        let velocity = transformer.forward(latents.clone(), time, waves([2, 86, condition], &device));
        let vocoder = music.load_vocoder(&mut ())?;
        Ok((velocity, vocoder.forward(latents.narrow(0, 0, 1))))
    })?;
    let values = |tensor: Tensor<B, 3>| tensor.into_data().iter::<f32>().collect();
    Ok(Answer { backend, path: ComputePath::of::<B>(), velocity: values(velocity), samples: values(samples) })
}

/// Inputs that every backend can be given alike: sines of different frequencies.
fn waves<B: Backend>(shape: [usize; 3], device: &B::Device) -> Tensor<B, 3> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|index| (index as f64 * 0.37).sin() as f32 * 1.4).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn show(what: &str, found: &[f32], expected: &[f32]) {
    let rms = (expected.iter().map(|value| value * value).sum::<f32>() / expected.len() as f32).sqrt();
    let differences: Vec<f32> = found.iter().zip(expected).map(|(a, b)| (a - b).abs() / rms).collect();
    let equal = differences.iter().filter(|difference| **difference == 0.0).count();
    let mean = differences.iter().sum::<f32>() / differences.len() as f32;
    let most = differences.iter().copied().fold(0.0, f32::max);
    let share = 100.0 * equal as f64 / differences.len() as f64;
    eprintln!("  {what:<9} mean {mean:.1e}, most {most:.1e}, {share:.1} % equal to the bit");
}

//! A few steps of training: the transformer learns latents that it has not made, and its loss falls.
//!
//! `cargo run --release --example fine_tune_dit [STEPS]`
//!
//! The latents are synthetic. With real ones this is how a style is taught: latents and conditions of a recording, a time
//! drawn for each, and the velocity that leads from noise to the latents as what is asked for.

use std::error::Error;

use burn::{
    module::{AutodiffModule, Module},
    optim::{AdamConfig, GradientsParams, Optimizer},
    record::{BinFileRecorder, FullPrecisionSettings},
    tensor::{Distribution, Tensor, TensorData, backend::Backend},
};
use burn_autodiff::Autodiff;
use burn_flex::{Flex, FlexDevice};
use music3::{Music3, Options, Precision, model::Transformer1DModel};

/// Gradients flow through any backend that is wrapped so.
type Trained = Autodiff<Flex>;

/// Examples per step, and latents of each.
const BATCH: usize = 4;
const LATENTS: usize = 24;

/// Upstream keeps this trace of the noise at the end of the flow.
const REST: f32 = 1e-6;

fn main() -> Result<(), Box<dyn Error>> {
    let steps: usize = std::env::args().nth(1).map_or(Ok(12), |steps| steps.parse())?;
    let device = FlexDevice;
    // f32, where nothing is rounded between a weight and its gradient.
    let options = Options { precision: Precision::F32, ..Options::default() };
    let music = Music3::<Trained>::open(&music3::demo::unpack(music3::demo::Demo::Random)?, device, options)?;
    let mut transformer = music.load_transformer(&mut ())?;
    let (channels, condition_dim) = (transformer.in_channels(), music.configs().transformer.condition_dim);
    eprintln!("{} parameters, all of them trained", transformer.num_params());

    Trained::seed(&device, 0);
    let condition = Tensor::random([BATCH, LATENTS, condition_dim], Distribution::Normal(0.0, 1.0), &device);
    let examples: Tensor<Trained, 3> = waves(channels);
    // What the loss is measured on does not change from step to step.
    let held = Batch::draw(&examples, &condition);
    let before = loss(&transformer, &held).into_scalar();

    let mut optimizer = AdamConfig::new().init();
    for step in 1..=steps {
        let batch = Batch::draw(&examples, &condition);
        let loss = loss(&transformer, &batch);
        let gradients = GradientsParams::from_grads(loss.backward(), &transformer);
        transformer = optimizer.step(2e-3, transformer, gradients);
        eprintln!("step {step}: loss {:.3}", loss.into_scalar());
    }
    let after = loss(&transformer, &held).into_scalar();
    eprintln!("on the examples that were held: {before:.3} before, {after:.3} after");

    // Without `Autodiff` it is the module of the backend inside, as fast as ever; a record keeps it.
    let trained: Transformer1DModel<Flex> = transformer.valid();
    let file = std::env::temp_dir().join(format!("music3-fine-tuned-{}", std::process::id()));
    trained.clone().save_file(&file, &BinFileRecorder::<FullPrecisionSettings>::new())?;
    let fresh = music.configs().transformer.init::<Flex>(trained.width(), &device)?;
    let again = fresh.load_file(&file, &BinFileRecorder::<FullPrecisionSettings>::new(), &device)?;
    std::fs::remove_file(file.with_extension("bin"))?;
    let velocity = |module: &Transformer1DModel<Flex>| {
        module.forward(held.noisy.clone().inner(), held.time.clone().inner(), held.condition.clone().inner())
    };
    let same = velocity(&trained).equal(velocity(&again)).all().into_scalar();
    eprintln!("the same after a record was written and read: {same}");
    Ok(())
}

/// What the transformer is given, and the velocity that it should answer.
struct Batch<B: Backend> {
    noisy: Tensor<B, 3>,
    time: Tensor<B, 1>,
    condition: Tensor<B, 3>,
    velocity: Tensor<B, 3>,
}

impl<B: Backend> Batch<B> {
    /// Puts each example somewhere between noise, at time 0, and itself, at time 1.
    fn draw(examples: &Tensor<B, 3>, condition: &Tensor<B, 3>) -> Self {
        let device = examples.device();
        let noise = examples.random_like(Distribution::Normal(0.0, 1.0));
        let time = Tensor::<B, 1>::random([BATCH], Distribution::Uniform(0.0, 1.0), &device);
        let t: Tensor<B, 3> = time.clone().reshape([BATCH, 1, 1]);
        let remaining = t.clone().mul_scalar(REST - 1.0).add_scalar(1.0);
        Self {
            noisy: noise.clone() * remaining + examples.clone() * t,
            time,
            condition: condition.clone(),
            velocity: examples.clone() - noise.mul_scalar(1.0 - REST),
        }
    }
}

/// Returns the mean squared distance to the velocity that is asked for.
fn loss<B: Backend>(transformer: &Transformer1DModel<B>, batch: &Batch<B>) -> Tensor<B, 1> {
    let velocity = transformer.forward(batch.noisy.clone(), batch.time.clone(), batch.condition.clone());
    (velocity - batch.velocity.clone()).powi_scalar(2).mean()
}

/// Synthetic latents: in each channel a wave of its own.
fn waves(channels: usize) -> Tensor<Trained, 3> {
    let value = |index: usize| {
        let (example, channel, latent) = (index / (channels * LATENTS), index / LATENTS % channels, index % LATENTS);
        ((example + 1) as f32 * 0.3 + channel as f32 * 0.7 + latent as f32 * 0.25).sin()
    };
    let values: Vec<f32> = (0..BATCH * channels * LATENTS).map(value).collect();
    Tensor::from_data(TensorData::new(values, [BATCH, channels, LATENTS]), &FlexDevice)
}

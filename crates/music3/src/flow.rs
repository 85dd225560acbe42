//! The flow: frames in, latents out, window by window, each tied to the one before it by an overlap.
//!
//! # Source
//! `modular_pipelines/minimax_music3/before_denoise.py:62-73` and `denoise.py:67-280`.

use std::ops::ControlFlow;

use burn::tensor::{DType, Tensor, TensorData, backend::Backend};
use music3_audio::WindowPlan;
use music3_model::{ConditionMix, Transformer1DModel};
use music3_nn::{RotaryTable, Width, ops};

use crate::{
    error::{SongError, Stage},
    progress::{Listener, Progress, Tap},
    schedule::{self, Schedule},
    window_memory::WindowMemory,
};

/// Where a window's noise comes from: a draw, or a recording that is replayed.
pub trait NoiseSource {
    /// Returns standard normal noise for `[1, channels, latents]`, row-major, in the transformer's width.
    fn noise(&mut self, window: usize, len: usize, width: Width) -> Vec<f32>;
}

/// How a flow is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowOptions {
    /// Euler steps per window.
    pub steps: usize,
    /// Scale of the guidance.
    pub guidance_scale: f32,
}

impl Default for FlowOptions {
    fn default() -> Self {
        Self { steps: schedule::DEFAULT_STEPS, guidance_scale: schedule::GUIDANCE_SCALE }
    }
}

/// The condition encoder and the transformer, used window by window.
#[derive(Debug)]
pub struct Flow<B: Backend> {
    /// Frames to condition.
    pub condition_encoder: ConditionMix<B>,
    /// Predicts the velocity.
    pub transformer: Transformer1DModel<B>,
}

/// What one window hands to the next.
struct Carry<B: Backend> {
    latents: Tensor<B, 3>,
    condition: Tensor<B, 3>,
}

impl<B: Backend> Flow<B> {
    /// Returns the latents of each window, uncropped: `[1, channels, latents]`.
    ///
    /// # Shapes
    /// `frame_hiddens` `[1, frames, num_codebooks·hidden_size]`
    ///
    /// # Errors
    /// [`SongError::NonFinite`] with the window, [`SongError::Cancelled`] if the listener breaks.
    pub fn run(
        &self,
        frame_hiddens: Tensor<B, 3>,
        options: FlowOptions,
        noise: &mut dyn NoiseSource,
        listener: &mut dyn Listener<B>,
    ) -> Result<Vec<Tensor<B, 3>>, SongError> {
        // Steps ask for the same sizes, and so do windows, all but the last.
        let device = frame_hiddens.device();
        music3_nn::exact_memory::<B, _>(&device, || self.run_windows(frame_hiddens, options, noise, listener))
    }

    fn run_windows(
        &self,
        frame_hiddens: Tensor<B, 3>,
        options: FlowOptions,
        noise: &mut dyn NoiseSource,
        listener: &mut dyn Listener<B>,
    ) -> Result<Vec<Tensor<B, 3>>, SongError> {
        let plan = WindowPlan::new(frame_hiddens.dims()[1], &self.condition_encoder.config().latent_rates());
        let schedule = Schedule::new(options.steps);
        let windows = plan.windows().len();
        let mut chunks = Vec::with_capacity(windows);
        let mut carry: Option<Carry<B>> = None;
        let mut memory = WindowMemory::default();
        for (window, planned) in plan.windows().iter().enumerate() {
            // 1. Condition, with the previous window's spliced in over the overlap.
            let frames = planned.frames.clone();
            let hiddens = frame_hiddens.clone().narrow(1, frames.start, frames.len());
            let raw = self.condition_encoder.forward(hiddens);
            listener.tap(Tap::ConditionRaw { window, tensor: &raw });
            let condition = ops::round(ops::widen(raw), self.transformer.width());
            let condition = splice(condition, carry.as_ref().map(|carry| &carry.condition));
            listener.tap(Tap::Condition { window, tensor: &condition });
            // 2. Denoise.
            let len = condition.dims()[1];
            memory.begin::<B>(len, &condition.device());
            let denoise = Denoise { flow: self, schedule: &schedule, options, window, windows };
            let noise = self.noise_tensor(window, len, noise, &condition.device());
            let latents = denoise.run(condition.clone(), noise, carry.map(|carry| carry.latents), listener)?;
            listener.tap(Tap::LatentChunk { window, tensor: &latents });
            refuse_non_finite(&latents, window)?;
            // 3. What the next window starts from. The last one, which may be too short to give any, has none.
            let kept = planned.carry.clone();
            carry = (window + 1 < windows).then(|| Carry {
                latents: latents.clone().narrow(2, kept.start, kept.len()),
                condition: condition.narrow(1, kept.start, kept.len()),
            });
            chunks.push(latents);
        }
        Ok(chunks)
    }

    fn noise_tensor(
        &self,
        window: usize,
        latents: usize,
        noise: &mut dyn NoiseSource,
        device: &B::Device,
    ) -> Tensor<B, 3> {
        let (channels, width) = (self.transformer.in_channels(), self.transformer.width());
        let values = noise.noise(window, channels * latents, width);
        ops::from_data(TensorData::new(values, [1, channels, latents]), width, device)
    }
}

/// One window's Euler steps.
struct Denoise<'a, B: Backend> {
    flow: &'a Flow<B>,
    schedule: &'a Schedule,
    options: FlowOptions,
    window: usize,
    windows: usize,
}

impl<B: Backend> Denoise<'_, B> {
    fn run(
        &self,
        condition: Tensor<B, 3>,
        noise: Tensor<B, 3>,
        previous: Option<Tensor<B, 3>>,
        listener: &mut dyn Listener<B>,
    ) -> Result<Tensor<B, 3>, SongError> {
        let (window, width) = (self.window, self.flow.transformer.width());
        let (windows, steps) = (self.windows, self.schedule.steps());
        let length = condition.dims()[1];
        let previous = previous.map(|latents| {
            let overlap = latents.dims()[2].min(length);
            (latents.narrow(2, 0, overlap), noise.clone().narrow(2, 0, overlap))
        });
        // The conditional and the unconditional row are one batch; the latter's condition is zeros.
        let condition = Tensor::cat(vec![condition.clone(), condition.zeros_like()], 0);
        let rotary = self.flow.transformer.rotary(length + 1, &condition.device());
        let mut latents = noise;
        for (step, &time) in self.schedule.timesteps().iter().enumerate() {
            if let Some((previous, noise)) = &previous {
                let blended = schedule::blend(noise.clone(), previous.clone(), time, width);
                latents = replace_start(latents, blended);
            }
            let velocity = self.velocity(latents.clone(), time, condition.clone(), &rotary);
            listener.tap(Tap::Velocity { window, step, tensor: &velocity });
            latents = self.schedule.step(step, latents, velocity, width);
            listener.tap(Tap::Latents { window, step, tensor: &latents });
            if let ControlFlow::Break(()) = listener.progress(Progress::Step { window, windows, step: step + 1, steps })
            {
                return Err(SongError::Cancelled { stage: Stage::Flow });
            }
        }
        Ok(match previous {
            Some((previous, _)) => replace_start(latents, previous),
            None => latents,
        })
    }

    /// `[1, channels, latents]` → the guided velocity, the same shape
    fn velocity(
        &self,
        latents: Tensor<B, 3>,
        time: f32,
        condition: Tensor<B, 3>,
        rotary: &RotaryTable<B>,
    ) -> Tensor<B, 3> {
        let transformer = &self.flow.transformer;
        let width = transformer.width();
        let device = latents.device();
        let time = Tensor::<B, 1>::from_data(TensorData::from([time, time]), (&device, DType::F32));
        let (latents, time) = (latents.repeat_dim(0, 2), ops::round(time, width));
        let both = transformer.forward_rotated(latents, time, condition, rotary);
        let row = |index| both.clone().narrow(0, index, 1);
        schedule::guide(row(0), row(1), self.options.guidance_scale, width)
    }
}

/// Replaces the start of a condition by the previous window's.
fn splice<B: Backend>(condition: Tensor<B, 3>, previous: Option<&Tensor<B, 3>>) -> Tensor<B, 3> {
    let Some(previous) = previous else { return condition };
    let [_, length, _] = condition.dims();
    let overlap = previous.dims()[1].min(length);
    let start = previous.clone().narrow(1, 0, overlap);
    if overlap == length { start } else { Tensor::cat(vec![start, condition.narrow(1, overlap, length - overlap)], 1) }
}

/// Replaces the first latents.
fn replace_start<B: Backend>(latents: Tensor<B, 3>, start: Tensor<B, 3>) -> Tensor<B, 3> {
    let [_, _, length] = latents.dims();
    let overlap = start.dims()[2];
    if overlap == length { start } else { Tensor::cat(vec![start, latents.narrow(2, overlap, length - overlap)], 2) }
}

/// A sum of finite values is finite, and of others is not: one number is read back per window.
fn refuse_non_finite<B: Backend>(latents: &Tensor<B, 3>, window: usize) -> Result<(), SongError> {
    let sum = ops::widen(latents.clone()).abs().sum().into_data();
    if sum.iter::<f32>().all(f32::is_finite) {
        return Ok(());
    }
    Err(SongError::NonFinite { stage: Stage::Flow, what: "the latents", place: format!("window {}", window + 1) })
}

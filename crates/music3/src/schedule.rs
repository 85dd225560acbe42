//! The flow-matching schedule: times, one Euler step, guidance and the blend that ties a window to the one before it.
//!
//! # Source
//! `modular_pipelines/minimax_music3/denoise.py:165-250`, `schedulers/scheduling_flow_match_euler_discrete.py:283-526`,
//! `guiders/classifier_free_guidance.py:120-122`.

use burn::tensor::{Tensor, backend::Backend};
use music3_nn::{
    Width,
    ops::{self, round_scalar},
};

/// Guidance of the flow. Upstream: `denoise.py:217`.
pub const GUIDANCE_SCALE: f32 = 1.7;

/// Euler steps per window unless asked otherwise. Upstream: `denoise.py:181`.
pub const DEFAULT_STEPS: usize = 30;

/// Keeps a trace of the noise at the end of the blend. Upstream: `denoise.py:249`.
const BLEND_EPS: f64 = 1e-6;

/// Times of a window's steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    sigmas: Vec<f32>,
}

impl Schedule {
    /// Returns the schedule of `steps` steps: `linspace(1, 1/N, N)` in f64, rounded to f32, then `1 − x` in f32, and a
    /// last sigma of 1. Neither `i/N` nor an f32 linspace gives the same bits.
    ///
    /// # Panics
    /// If `steps` is zero.
    pub fn new(steps: usize) -> Self {
        assert!(steps > 0, "a schedule has at least one step");
        let stop = 1.0 / steps as f64;
        let stride = if steps > 1 { (stop - 1.0) / (steps - 1) as f64 } else { 0.0 };
        let value = |i: usize| if i > 0 && i + 1 == steps { stop } else { i as f64 * stride + 1.0 };
        let sigmas = (0..steps).map(|i| 1.0 - value(i) as f32).chain([1.0]).collect();
        Self { sigmas }
    }

    /// Returns the time of each step, 0 = noise.
    pub fn timesteps(&self) -> &[f32] {
        &self.sigmas[..self.sigmas.len() - 1]
    }

    /// Returns the times and the final 1.
    pub fn sigmas(&self) -> &[f32] {
        &self.sigmas
    }

    /// Returns the number of steps.
    pub fn steps(&self) -> usize {
        self.sigmas.len() - 1
    }

    /// Returns the latents after step `step`: `latents + Δσ·velocity`, the sum in f32. In bf16 both `Δσ` and the product
    /// round before the sum, as they do upstream, where `Δσ` is a tensor without dimensions.
    ///
    /// # Shapes
    /// Both tensors have one shape.
    pub fn step<B: Backend, const D: usize>(
        &self,
        step: usize,
        latents: Tensor<B, D>,
        velocity: Tensor<B, D>,
        width: Width,
    ) -> Tensor<B, D> {
        let delta = round_scalar(self.sigmas[step + 1] - self.sigmas[step], width);
        let change = ops::mul_scalar(velocity, delta, width);
        ops::add(latents, change, width)
    }
}

/// Returns `u + scale·(c − u)`; each operation rounds.
pub fn guide<B: Backend, const D: usize>(
    conditional: Tensor<B, D>,
    unconditional: Tensor<B, D>,
    scale: f32,
    width: Width,
) -> Tensor<B, D> {
    let shift = ops::sub(conditional, unconditional.clone(), width);
    ops::add(unconditional, ops::mul_scalar(shift, scale, width), width)
}

/// Returns `(1 − (1 − 1e-6)·t)·noise + t·previous`: what the overlap of a window is set to before each step.
pub fn blend<B: Backend>(noise: Tensor<B, 3>, previous: Tensor<B, 3>, time: f32, width: Width) -> Tensor<B, 3> {
    let time = round_scalar(time, width);
    let faded = round_scalar((1.0 - BLEND_EPS) as f32 * time, width);
    let remaining = round_scalar(1.0 - faded, width);
    ops::add(ops::mul_scalar(noise, remaining, width), ops::mul_scalar(previous, time, width), width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_at_one_and_starts_at_noise() {
        for steps in [1, 2, 3, 30, 50] {
            let schedule = Schedule::new(steps);
            assert_eq!(schedule.steps(), steps);
            assert_eq!(schedule.sigmas()[0], 0.0);
            assert_eq!(schedule.sigmas()[steps], 1.0);
        }
    }

    #[test]
    fn is_not_the_plain_fraction() {
        assert_eq!(Schedule::new(30).timesteps()[1].to_bits(), 0.033_333_36_f32.to_bits());
        assert_ne!(Schedule::new(30).timesteps()[1], 1.0 / 30.0);
    }
}

//! Condition encoder: mixes a frame's eight hidden states into one, projects it and stretches the sequence from frames
//! (25 Hz) to latents (86.13 Hz). It stands between the autoregressive half and the flow-matching transformer.
//!
//! # Upstream
//! diffusers 0.42.1 `models/condition_embedders/condition_embedder_minimax_music3.py`,
//! `MiniMaxMusic3ConditionEncoder`. Deviations: none.
//!
//! # Formula
//! ```text
//! w ← softmax(layer_weight_logits)
//! m[t] ← layer_scale · Σ_l w[l] · hidden[t, l]
//! condition ← nearest(Conv1d_k3(m), latents),   latents = max(1, ⌊frames · 44100/24000 · 960/512⌋)
//! ```
//!
//! # Tensors
//! ```text
//! layer_weight_logits     [num_condition_layers]
//! layer_scale             [1]
//! proj.weight, proj.bias  [out_dim, condition_hidden_dim, 3], [out_dim]
//! ```
//!
//! # Precision
//! Published in f32; it runs in the language model's dtype. The softmax is f32 inside and rounded once, so in bf16 the
//! weights do not sum to one exactly. The mix, the scale and the convolution round once each.

use burn::{
    module::{Initializer, Module, Param},
    tensor::{Tensor, backend::Backend},
};
use music3_audio::LatentRates;
use music3_nn::{
    Width,
    layers::{Conv1d, Conv1dConfig, lazy_param},
    ops,
};
use serde::Deserialize;

use crate::error::{ConfigError, refuse_zeros};

const COMPONENT: &str = "condition_encoder";

/// Dimensions and rates of the condition encoder, as its `config.json` names them; missing keys take upstream's
/// defaults.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ConditionMixConfig {
    /// Width of one hidden state.
    pub condition_hidden_dim: usize,
    /// Hidden states per frame.
    pub num_condition_layers: usize,
    /// Width of the condition.
    pub out_dim: usize,
    /// Sampling rate of the frames' audio, in Hz.
    pub input_sampling_rate: u32,
    /// Samples per frame, at that rate.
    pub input_hop_length: u32,
    /// Sampling rate of the latents' audio, in Hz.
    pub output_sampling_rate: u32,
    /// Samples per latent, at that rate.
    pub output_hop_length: u32,
}

impl Default for ConditionMixConfig {
    fn default() -> Self {
        Self {
            condition_hidden_dim: 4096,
            num_condition_layers: 8,
            out_dim: 2048,
            input_sampling_rate: 24_000,
            input_hop_length: 960,
            output_sampling_rate: 44_100,
            output_hop_length: 512,
        }
    }
}

impl ConditionMixConfig {
    /// Checks that a module can be built from these values.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the key.
    pub fn validate(&self) -> Result<(), ConfigError> {
        refuse_zeros(
            COMPONENT,
            &[
                ("condition_hidden_dim", self.condition_hidden_dim),
                ("num_condition_layers", self.num_condition_layers),
                ("out_dim", self.out_dim),
                ("input_sampling_rate", self.input_sampling_rate as usize),
                ("input_hop_length", self.input_hop_length as usize),
                ("output_sampling_rate", self.output_sampling_rate as usize),
                ("output_hop_length", self.output_hop_length as usize),
            ],
        )
    }

    /// Returns the clocks of frames and latents.
    pub fn latent_rates(&self) -> LatentRates {
        LatentRates {
            input_sampling_rate: self.input_sampling_rate,
            input_hop_length: self.input_hop_length,
            output_sampling_rate: self.output_sampling_rate,
            output_hop_length: self.output_hop_length,
        }
    }

    /// Returns a module whose weights are drawn on first use unless they are loaded before.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn init<B: Backend>(&self, width: Width, device: &B::Device) -> Result<ConditionMix<B>, ConfigError> {
        self.validate()?;
        let proj =
            Conv1dConfig { inputs: self.condition_hidden_dim, outputs: self.out_dim, kernel_size: 3, dilation: 1 };
        Ok(ConditionMix {
            layer_weight_logits: lazy_param([self.num_condition_layers], Initializer::Zeros, width, device),
            layer_scale: lazy_param([1], Initializer::Ones, width, device),
            proj: proj.init(width, device),
            config: self.clone(),
            width,
        })
    }
}

/// The condition encoder.
#[derive(Module, Debug)]
pub struct ConditionMix<B: Backend> {
    /// `[num_condition_layers]`
    pub layer_weight_logits: Param<Tensor<B, 1>>,
    /// `[1]`
    pub layer_scale: Param<Tensor<B, 1>>,
    /// `[out_dim, condition_hidden_dim, 3]`
    pub proj: Conv1d<B>,
    #[module(skip)]
    config: ConditionMixConfig,
    #[module(skip)]
    width: Width,
}

impl<B: Backend> ConditionMix<B> {
    /// Returns the condition of a window.
    ///
    /// # Shapes
    /// `[batch, frames, num_condition_layers·condition_hidden_dim]`, layer-major → `[batch, latents, out_dim]`
    ///
    /// # Panics
    /// If the last dimension has another size.
    pub fn forward(&self, hidden_states: Tensor<B, 3>) -> Tensor<B, 3> {
        let [batch, frames, _] = hidden_states.dims();
        let (layers, hidden) = (self.config.num_condition_layers, self.config.condition_hidden_dim);
        // 1. Mix the layers.
        let hidden_states = hidden_states.reshape([batch, frames, layers, hidden]);
        let layer_weights = ops::softmax(self.layer_weight_logits.val(), 0, self.width);
        let mixed = ops::mix_layers(hidden_states, layer_weights, self.width);
        let mixed = ops::mul(mixed, self.layer_scale.val().unsqueeze(), self.width);
        // 2. Project over time, then stretch to latents.
        let projected = self.proj.forward(mixed.swap_dims(1, 2));
        ops::index_select(projected, 2, &self.config.latent_rates().nearest_index(frames)).swap_dims(1, 2)
    }

    /// Returns the dimensions and rates it was built with.
    pub fn config(&self) -> &ConditionMixConfig {
        &self.config
    }
}

//! Flow-matching transformer (DiT): given noisy latents, a time and the condition, it predicts the velocity that leads
//! from noise to music. It runs twice per step, with the condition and with zeros.
//!
//! # Upstream
//! diffusers 0.42.1 `models/transformers/transformer_minimax_music3.py`, `MiniMaxMusic3Transformer1DModel`.
//! Deviations: attention is always the MATH form; the dropout, which has probability zero, is left out.
//!
//! # Formula
//! ```text
//! x ← [latents ‖ zeros ‖ condition] over channels;  x ← preprocess_conv(x) + x;  h ← proj_in(x)
//! temb ← linear_2(silu(linear_1(cos(2πt·w) ‖ sin(2πt·w))))     one token, put in front, position 0
//! per block:  h ← h + to_out · softmax(q kᵀ / √head_dim) v,     q, k rotated, from LayerNorm(h)
//!             value, gate ← halves of ff_in(LayerNorm(h));  h ← h + ff_out(value ⊙ silu(gate))
//! y ← proj_out(h without the time token);  velocity ← postprocess_conv(y) + y
//! ```
//!
//! # Tensors
//! ```text
//! time_proj.weight                                     [fourier_embedding_dim/2, 1]
//! time_embed.linear_{1,2}.{weight,bias}                [dim, fourier_embedding_dim], [dim, dim], [dim]
//! preprocess_conv.weight                               [concat, concat, 1]     concat = 2·in_channels + condition_dim
//! proj_in.weight                                       [dim, concat]           dim = heads·head_dim
//! transformer_blocks.{i}.norm{1,2}.{weight,bias}       [dim]
//! transformer_blocks.{i}.attn.to_{q,k,v}.weight        [dim, dim]
//! transformer_blocks.{i}.attn.to_out.0.weight          [dim, dim]
//! transformer_blocks.{i}.ff_in.{weight,bias}           [2·ff_inner_dim, dim], [2·ff_inner_dim]
//! transformer_blocks.{i}.ff_out.{weight,bias}          [dim, ff_inner_dim], [dim]
//! proj_out.weight                                      [in_channels, dim]
//! postprocess_conv.weight                              [in_channels, in_channels, 1]
//! ```
//!
//! # Precision
//! Published in f32. In bf16 `2π·t` rounds before the Fourier product, and rotary tables, computed in f32, are cast.

use std::f32::consts::TAU;

use burn::{
    module::{Initializer, Module, Param},
    tensor::{Tensor, backend::Backend},
};
use music3_nn::{
    RotaryTable, Width,
    layers::{Conv1d, Conv1dConfig, LayerNorm, Linear, lazy_param},
    ops::{self, AttentionMask},
    rotary::split_heads,
};
use serde::Deserialize;

use crate::error::{ConfigError, refuse_remainder, refuse_zeros};

const COMPONENT: &str = "transformer";

/// Upstream: `transformer_minimax_music3.py:42`.
const ROPE_THETA: f64 = 10_000.0;

/// torch's default, which upstream keeps.
const LAYER_NORM_EPS: f32 = 1e-5;

/// Dimensions of the transformer, as its `config.json` names them; missing keys take upstream's defaults.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Transformer1DModelConfig {
    /// Channels of a latent.
    pub in_channels: usize,
    /// Width of the condition.
    pub condition_dim: usize,
    /// Blocks.
    pub num_layers: usize,
    /// Attention heads.
    pub num_attention_heads: usize,
    /// Values per head.
    pub attention_head_dim: usize,
    /// Width inside the feed-forward, one half.
    pub ff_inner_dim: usize,
    /// Leading values of a head that rotate.
    pub rotary_dim: usize,
    /// Width of the Fourier features of the time.
    pub fourier_embedding_dim: usize,
}

impl Default for Transformer1DModelConfig {
    fn default() -> Self {
        Self {
            in_channels: 128,
            condition_dim: 2048,
            num_layers: 36,
            num_attention_heads: 32,
            attention_head_dim: 64,
            ff_inner_dim: 8192,
            rotary_dim: 32,
            fourier_embedding_dim: 256,
        }
    }
}

impl Transformer1DModelConfig {
    /// Checks that a module can be built from these values.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the key.
    pub fn validate(&self) -> Result<(), ConfigError> {
        refuse_zeros(
            COMPONENT,
            &[
                ("in_channels", self.in_channels),
                ("condition_dim", self.condition_dim),
                ("num_layers", self.num_layers),
                ("num_attention_heads", self.num_attention_heads),
                ("attention_head_dim", self.attention_head_dim),
                ("ff_inner_dim", self.ff_inner_dim),
                ("rotary_dim", self.rotary_dim),
                ("fourier_embedding_dim", self.fourier_embedding_dim),
            ],
        )?;
        refuse_remainder(COMPONENT, ("rotary_dim", self.rotary_dim), ("2, the halves that rotate", 2))?;
        refuse_remainder(COMPONENT, ("fourier_embedding_dim", self.fourier_embedding_dim), ("2, cosine and sine", 2))?;
        if self.rotary_dim > self.attention_head_dim {
            return Err(ConfigError::Unsupported {
                component: COMPONENT,
                key: "rotary_dim",
                found: self.rotary_dim.to_string(),
                expected: "at most `attention_head_dim`",
            });
        }
        Ok(())
    }

    /// Returns a module whose weights are drawn on first use unless they are loaded before.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn init<B: Backend>(&self, width: Width, device: &B::Device) -> Result<Transformer1DModel<B>, ConfigError> {
        self.validate()?;
        let dim = self.num_attention_heads * self.attention_head_dim;
        let concat = 2 * self.in_channels + self.condition_dim;
        let pointwise = |channels| {
            Conv1dConfig { inputs: channels, outputs: channels, kernel_size: 1, dilation: 1 }
                .init_without_bias(width, device)
        };
        let block = TransformerBlockConfig {
            dim,
            heads: self.num_attention_heads,
            head_dim: self.attention_head_dim,
            ff_inner_dim: self.ff_inner_dim,
        };
        Ok(Transformer1DModel {
            time_proj: FourierEmbedding::new(self.fourier_embedding_dim, width, device),
            time_embed: TimestepEmbedding {
                linear_1: Linear::with_bias(self.fourier_embedding_dim, dim, width, device),
                linear_2: Linear::with_bias(dim, dim, width, device),
                width,
            },
            preprocess_conv: pointwise(concat),
            proj_in: Linear::new(concat, dim, width, device),
            transformer_blocks: (0..self.num_layers).map(|_| block.init(width, device)).collect(),
            proj_out: Linear::new(dim, self.in_channels, width, device),
            postprocess_conv: pointwise(self.in_channels),
            in_channels: self.in_channels,
            rotary_dim: self.rotary_dim,
            width,
        })
    }
}

/// The flow-matching transformer.
#[derive(Module, Debug)]
pub struct Transformer1DModel<B: Backend> {
    /// `[fourier_embedding_dim/2, 1]`
    pub time_proj: FourierEmbedding<B>,
    /// Two linear layers.
    pub time_embed: TimestepEmbedding<B>,
    /// `[concat, concat, 1]`
    pub preprocess_conv: Conv1d<B>,
    /// `[dim, concat]`
    pub proj_in: Linear<B>,
    /// Blocks, first to last.
    pub transformer_blocks: Vec<TransformerBlock<B>>,
    /// `[in_channels, dim]`
    pub proj_out: Linear<B>,
    /// `[in_channels, in_channels, 1]`
    pub postprocess_conv: Conv1d<B>,
    #[module(skip)]
    in_channels: usize,
    #[module(skip)]
    rotary_dim: usize,
    #[module(skip)]
    width: Width,
}

impl<B: Backend> Transformer1DModel<B> {
    /// Returns the velocity.
    ///
    /// # Shapes
    /// `hidden_states` `[batch, in_channels, latents]`, `timestep` `[batch]` in `[0, 1]` with 0 = noise,
    /// `encoder_hidden_states` `[batch, latents, condition_dim]` → `[batch, in_channels, latents]`
    ///
    /// # Panics
    /// If the shapes do not fit each other or the configuration.
    pub fn forward(
        &self,
        hidden_states: Tensor<B, 3>,
        timestep: Tensor<B, 1>,
        encoder_hidden_states: Tensor<B, 3>,
    ) -> Tensor<B, 3> {
        let rotary = self.rotary(hidden_states.dims()[2] + 1, &hidden_states.device());
        self.forward_rotated(hidden_states, timestep, encoder_hidden_states, &rotary)
    }

    /// Does what [`forward`](Self::forward) does, with the [`rotary`](Self::rotary) table of `latents + 1` tokens, which is the
    /// same for all steps of a window.
    ///
    /// # Panics
    /// If the shapes do not fit each other, the configuration or the table.
    pub fn forward_rotated(
        &self,
        hidden_states: Tensor<B, 3>,
        timestep: Tensor<B, 1>,
        encoder_hidden_states: Tensor<B, 3>,
        rotary: &RotaryTable<B>,
    ) -> Tensor<B, 3> {
        let length = hidden_states.dims()[2];
        // 1. Latents, as many channels of zeros, condition.
        let zeros = hidden_states.zeros_like();
        let hidden_states = Tensor::cat(vec![hidden_states, zeros, encoder_hidden_states.swap_dims(1, 2)], 1);
        let hidden_states = self.preprocess_conv.forward_added(hidden_states.clone(), hidden_states);
        let hidden_states = self.proj_in.forward(hidden_states.swap_dims(1, 2));
        // 2. The time, as one more token in front.
        let temb = self.time_embed.forward(self.time_proj.forward(timestep));
        let mut hidden_states = Tensor::cat(vec![temb.unsqueeze_dim(1), hidden_states], 1);
        // 3. Blocks.
        for block in &self.transformer_blocks {
            hidden_states = block.forward(hidden_states, rotary);
        }
        // 4. Drop the time token and go back to channels.
        let hidden_states = self.proj_out.forward(hidden_states.narrow(1, 1, length)).swap_dims(1, 2);
        self.postprocess_conv.forward_added(hidden_states.clone(), hidden_states)
    }

    /// Lays the weights of each block's queries, keys and values behind each other, where the backend reads them faster so. No
    /// value changes; call it once, after loading.
    #[must_use]
    pub fn with_joined_projections(mut self) -> Self {
        for block in &mut self.transformer_blocks {
            let Attention { to_q, to_k, to_v, .. } = &mut block.attn;
            Linear::join([to_q, to_k, to_v]);
            // The memory that they lay in before is of no use to anything else.
            B::memory_cleanup(&self.proj_in.weight.device());
        }
        self
    }

    /// Returns the channels of a latent.
    pub fn in_channels(&self) -> usize {
        self.in_channels
    }

    /// Returns the width its values are stored in.
    pub fn width(&self) -> Width {
        self.width
    }

    /// Returns the rotary table for a sequence of `tokens`, the time token included.
    pub fn rotary(&self, tokens: usize, device: &B::Device) -> RotaryTable<B> {
        RotaryTable::new(self.rotary_dim, ROPE_THETA, tokens, self.width, device)
    }
}

/// Fourier features of the time, with frequencies that are weights.
#[derive(Module, Debug)]
pub struct FourierEmbedding<B: Backend> {
    /// `[fourier_embedding_dim/2, 1]`
    pub weight: Param<Tensor<B, 2>>,
    #[module(skip)]
    width: Width,
}

impl<B: Backend> FourierEmbedding<B> {
    fn new(embedding_dim: usize, width: Width, device: &B::Device) -> Self {
        let initializer = Initializer::Normal { mean: 0.0, std: 1.0 };
        Self { weight: lazy_param([embedding_dim / 2, 1], initializer, width, device), width }
    }

    /// `[batch]` → `[batch, fourier_embedding_dim]`
    fn forward(&self, timestep: Tensor<B, 1>) -> Tensor<B, 2> {
        let turns: Tensor<B, 2> = ops::mul_scalar(timestep, TAU, self.width).unsqueeze_dim(1);
        let angles = ops::matmul(turns, self.weight.val().transpose(), self.width);
        Tensor::cat(vec![ops::cos(angles.clone(), self.width), ops::sin(angles, self.width)], 1)
    }
}

/// Two linear layers with a `silu` between them.
#[derive(Module, Debug)]
pub struct TimestepEmbedding<B: Backend> {
    /// `[dim, fourier_embedding_dim]`
    pub linear_1: Linear<B>,
    /// `[dim, dim]`
    pub linear_2: Linear<B>,
    #[module(skip)]
    width: Width,
}

impl<B: Backend> TimestepEmbedding<B> {
    fn forward(&self, features: Tensor<B, 2>) -> Tensor<B, 2> {
        self.linear_2.forward(ops::silu(self.linear_1.forward(features), self.width))
    }
}

/// Dimensions of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct TransformerBlockConfig {
    /// Width of the residual stream.
    pub dim: usize,
    /// Attention heads.
    pub heads: usize,
    /// Values per head.
    pub head_dim: usize,
    /// Width inside the feed-forward, one half.
    pub ff_inner_dim: usize,
}

impl TransformerBlockConfig {
    /// Returns a block whose weights are drawn on first use unless they are loaded before.
    pub fn init<B: Backend>(&self, width: Width, device: &B::Device) -> TransformerBlock<B> {
        let inner = self.heads * self.head_dim;
        let norm = || LayerNorm::new(self.dim, LAYER_NORM_EPS, width, device);
        TransformerBlock {
            norm1: norm(),
            attn: Attention {
                to_q: Linear::new(self.dim, inner, width, device),
                to_k: Linear::new(self.dim, inner, width, device),
                to_v: Linear::new(self.dim, inner, width, device),
                to_out: Linear::new(inner, self.dim, width, device),
                heads: self.heads,
                width,
            },
            norm2: norm(),
            ff_in: Linear::with_bias(self.dim, 2 * self.ff_inner_dim, width, device),
            ff_out: Linear::with_bias(self.ff_inner_dim, self.dim, width, device),
            width,
        }
    }
}

/// One block: attention and a gated feed-forward, each after a LayerNorm.
#[derive(Module, Debug)]
pub struct TransformerBlock<B: Backend> {
    /// `[dim]`
    pub norm1: LayerNorm<B>,
    /// Attention over all positions.
    pub attn: Attention<B>,
    /// `[dim]`
    pub norm2: LayerNorm<B>,
    /// `[2·ff_inner_dim, dim]`: the value half first, the gate half second.
    pub ff_in: Linear<B>,
    /// `[dim, ff_inner_dim]`
    pub ff_out: Linear<B>,
    #[module(skip)]
    width: Width,
}

impl<B: Backend> TransformerBlock<B> {
    /// Returns the hidden states after the block.
    ///
    /// # Shapes
    /// `[batch, tokens, dim]` → the same
    pub fn forward(&self, hidden_states: Tensor<B, 3>, rotary: &RotaryTable<B>) -> Tensor<B, 3> {
        let attended = self.attn.forward(self.norm1.forward(hidden_states.clone()), rotary);
        let hidden_states = self.attn.to_out.forward_added(attended, hidden_states);
        // Upstream quirk: the second half is the gate.
        let gated = self.ff_in.forward_gated(self.norm2.forward(hidden_states.clone()));
        self.ff_out.forward_added(gated, hidden_states)
    }
}

/// Attention over all positions, with partial rotation.
#[derive(Module, Debug)]
pub struct Attention<B: Backend> {
    /// `[heads·head_dim, dim]`
    pub to_q: Linear<B>,
    /// `[heads·head_dim, dim]`
    pub to_k: Linear<B>,
    /// `[heads·head_dim, dim]`
    pub to_v: Linear<B>,
    /// `[dim, heads·head_dim]`. Upstream: `to_out.0`.
    pub to_out: Linear<B>,
    #[module(skip)]
    heads: usize,
    #[module(skip)]
    width: Width,
}

impl<B: Backend> Attention<B> {
    /// Attends, without the last projection: `[batch, tokens, dim]` → `[batch, tokens, heads·head_dim]`
    fn forward(&self, hidden_states: Tensor<B, 3>, rotary: &RotaryTable<B>) -> Tensor<B, 3> {
        let [batch, tokens, _] = hidden_states.dims();
        let weights = [&self.to_q, &self.to_k, &self.to_v].map(|layer| layer.weight.val());
        if let Some(attended) = rotary.try_attend(&hidden_states, weights, self.heads, self.width) {
            return attended;
        }
        let query = rotary.split(self.to_q.forward(hidden_states.clone()), self.heads, self.width);
        let key = rotary.split(self.to_k.forward(hidden_states.clone()), self.heads, self.width);
        let value = split_heads(self.to_v.forward(hidden_states), self.heads);
        let attended = ops::scaled_dot_product_attention(query, key, value, AttentionMask::Full, self.width);
        let [_, heads, _, head_dim] = attended.dims();
        attended.swap_dims(1, 2).reshape([batch, tokens, heads * head_dim])
    }
}

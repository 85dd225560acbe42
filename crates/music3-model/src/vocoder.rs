//! Vocoder: decodes a window's latents into a stereo waveform. It is the last stage of the pipeline.
//!
//! # Upstream
//! diffusers 0.42.1 `models/autoencoders/minimax_music3_vocoder.py`, `MiniMaxMusic3Vocoder`. Deviations: weight
//! normalisation is folded when the weights are loaded; convolutions are products.
//!
//! # Formula
//! ```text
//! the two halves of the latent channels are two sequences: left and right
//! h ← conv_in(dec_in_proj(latents))
//! per block:  h ← conv_t1(snake(h)),  three times h ← h + conv2(snake(conv1(snake(h)))), dilations 1, 3, 9
//! waveform ← tanh(conv_out(snake(h)))        snake(x) = x + sin²(αx) / (α + 1e-9)
//! ```
//!
//! # Tensors
//! ```text
//! dec_in_proj.{weight,bias}                   [decoder_input_dim, latent_channels/2, 1], [decoder_input_dim]
//! conv_in.{weight,bias}                       [decoder_hidden_dim, decoder_input_dim, 7], …
//! blocks.{i}.snake1.alpha                     [1, in, 1]       in = decoder_hidden_dim / 2^i, out = in / 2
//! blocks.{i}.conv_t1.{weight,bias}            [in, out, 2·ratio], [out]
//! blocks.{i}.res_unit{1,2,3}.snake{1,2}.alpha [1, out, 1]
//! blocks.{i}.res_unit{1,2,3}.conv1            [out, out, 7], [out]
//! blocks.{i}.res_unit{1,2,3}.conv2            [out, out, 1], [out]
//! snake_out.alpha, conv_out.{weight,bias}     [1, out, 1], [1, out, 7], [1]
//! ```
//!
//! # Precision
//! Published in f32. In bf16 every op of Snake rounds.

use burn::{
    module::{Initializer, Module, Param},
    tensor::{Tensor, backend::Backend},
};
use music3_nn::{
    Width,
    layers::{Conv1d, Conv1dConfig, ConvTranspose1d, ConvTranspose1dConfig, lazy_param},
    ops,
};
use serde::Deserialize;

use crate::error::{ConfigError, refuse_remainder, refuse_zeros};

const COMPONENT: &str = "vocoder";

/// Upstream: `minimax_music3_vocoder.py:30`. Keeps the reciprocal finite where α is zero.
const SNAKE_EPS: f32 = 1e-9;

/// Dimensions of the vocoder, as its `config.json` names them; missing keys take upstream's defaults.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VocoderConfig {
    /// Channels of a latent, left and right together.
    pub latent_channels: usize,
    /// Channels after the first projection.
    pub decoder_input_dim: usize,
    /// Channels before the first block; each block halves them.
    pub decoder_hidden_dim: usize,
    /// Upsampling of each block; their product is the samples per latent.
    pub upsampling_ratios: Vec<usize>,
    /// Sampling rate of the waveform, in Hz.
    pub sampling_rate: usize,
}

impl Default for VocoderConfig {
    fn default() -> Self {
        Self {
            latent_channels: 128,
            decoder_input_dim: 1024,
            decoder_hidden_dim: 1536,
            upsampling_ratios: vec![8, 8, 4, 2],
            sampling_rate: 44_100,
        }
    }
}

impl VocoderConfig {
    /// Checks that a module can be built from these values.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the key.
    pub fn validate(&self) -> Result<(), ConfigError> {
        refuse_zeros(
            COMPONENT,
            &[
                ("latent_channels", self.latent_channels),
                ("decoder_input_dim", self.decoder_input_dim),
                ("decoder_hidden_dim", self.decoder_hidden_dim),
                ("upsampling_ratios (their number)", self.upsampling_ratios.len()),
                ("upsampling_ratios (one of them)", self.upsampling_ratios.iter().copied().min().unwrap_or(0)),
                ("sampling_rate", self.sampling_rate),
            ],
        )?;
        refuse_remainder(COMPONENT, ("latent_channels", self.latent_channels), ("2, the stereo streams", 2))?;
        let halvings = u32::try_from(self.upsampling_ratios.len()).unwrap_or(u32::MAX);
        if self.decoder_hidden_dim.checked_shr(halvings).unwrap_or(0) == 0 {
            return Err(ConfigError::Unsupported {
                component: COMPONENT,
                key: "decoder_hidden_dim",
                found: self.decoder_hidden_dim.to_string(),
                expected: "at least one channel after each block has halved them",
            });
        }
        Ok(())
    }

    /// Returns a module whose weights are drawn on first use unless they are loaded before.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn init<B: Backend>(&self, width: Width, device: &B::Device) -> Result<Vocoder<B>, ConfigError> {
        self.validate()?;
        let (input, hidden) = (self.decoder_input_dim, self.decoder_hidden_dim);
        let channels = |index: usize| hidden >> index;
        let blocks = self.upsampling_ratios.iter().enumerate().map(|(index, &stride)| {
            VocoderBlockConfig { input_dim: channels(index), output_dim: channels(index + 1), stride }
                .init(width, device)
        });
        let last = channels(self.upsampling_ratios.len());
        Ok(Vocoder {
            dec_in_proj: conv(self.latent_channels / 2, input, 1, 1).init(width, device),
            conv_in: conv(input, hidden, 7, 1).init(width, device),
            blocks: blocks.collect(),
            snake_out: Snake1d::new(last, width, device),
            conv_out: conv(last, 1, 7, 1).init(width, device),
            width,
        })
    }
}

/// The vocoder.
#[derive(Module, Debug)]
pub struct Vocoder<B: Backend> {
    /// `[decoder_input_dim, latent_channels/2, 1]`
    pub dec_in_proj: Conv1d<B>,
    /// `[decoder_hidden_dim, decoder_input_dim, 7]`
    pub conv_in: Conv1d<B>,
    /// Upsampling blocks, first to last.
    pub blocks: Vec<VocoderBlock<B>>,
    /// `[1, channels, 1]`
    pub snake_out: Snake1d<B>,
    /// `[1, channels, 7]`
    pub conv_out: Conv1d<B>,
    #[module(skip)]
    width: Width,
}

impl<B: Backend> Vocoder<B> {
    /// Returns the waveform of a window, within ±1.
    ///
    /// # Shapes
    /// `[batch, latent_channels, latents]` → `[batch, 2, samples]`
    ///
    /// # Panics
    /// If the channels are not those of the configuration.
    pub fn forward(&self, latents: Tensor<B, 3>) -> Tensor<B, 3> {
        let [batch, channels, length] = latents.dims();
        let hidden_states = latents.reshape([batch * 2, channels / 2, length]);
        let mut hidden_states = self.conv_in.forward(self.dec_in_proj.forward(hidden_states));
        for block in &self.blocks {
            hidden_states = block.forward(hidden_states);
        }
        let waveform = ops::tanh(self.conv_out.forward(self.snake_out.forward(hidden_states)), self.width);
        let samples = waveform.dims()[2];
        waveform.reshape([batch, 2, samples])
    }

    /// Returns the width its values are stored in.
    pub fn width(&self) -> Width {
        self.width
    }
}

/// Dimensions of one upsampling block.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct VocoderBlockConfig {
    /// Channels in.
    pub input_dim: usize,
    /// Channels out.
    pub output_dim: usize,
    /// Outputs per input.
    pub stride: usize,
}

impl VocoderBlockConfig {
    /// Returns a block whose weights are drawn on first use unless they are loaded before.
    pub fn init<B: Backend>(&self, width: Width, device: &B::Device) -> VocoderBlock<B> {
        let unit = |dilation| VocoderResidualUnit::new(self.output_dim, dilation, width, device);
        let conv_t1 = ConvTranspose1dConfig { inputs: self.input_dim, outputs: self.output_dim, stride: self.stride };
        VocoderBlock {
            snake1: Snake1d::new(self.input_dim, width, device),
            conv_t1: conv_t1.init(width, device),
            res_unit1: unit(1),
            res_unit2: unit(3),
            res_unit3: unit(9),
        }
    }
}

/// An upsampling block: transposed convolution, then three residual units.
#[derive(Module, Debug)]
pub struct VocoderBlock<B: Backend> {
    /// `[1, in, 1]`
    pub snake1: Snake1d<B>,
    /// `[in, out, 2·stride]`
    pub conv_t1: ConvTranspose1d<B>,
    /// Dilation 1.
    pub res_unit1: VocoderResidualUnit<B>,
    /// Dilation 3.
    pub res_unit2: VocoderResidualUnit<B>,
    /// Dilation 9.
    pub res_unit3: VocoderResidualUnit<B>,
}

impl<B: Backend> VocoderBlock<B> {
    /// Returns the upsampled hidden states.
    ///
    /// # Shapes
    /// `[batch, in, len]` → `[batch, out, len·stride − stride % 2]`
    pub fn forward(&self, hidden_states: Tensor<B, 3>) -> Tensor<B, 3> {
        let hidden_states = self.conv_t1.forward(self.snake1.forward(hidden_states));
        let hidden_states = self.res_unit1.forward(hidden_states);
        let hidden_states = self.res_unit2.forward(hidden_states);
        self.res_unit3.forward(hidden_states)
    }
}

/// A residual unit: a dilated convolution and a 1×1 one, each after a Snake.
#[derive(Module, Debug)]
pub struct VocoderResidualUnit<B: Backend> {
    /// `[1, channels, 1]`
    pub snake1: Snake1d<B>,
    /// `[channels, channels, 7]`
    pub conv1: Conv1d<B>,
    /// `[1, channels, 1]`
    pub snake2: Snake1d<B>,
    /// `[channels, channels, 1]`
    pub conv2: Conv1d<B>,
    #[module(skip)]
    width: Width,
}

impl<B: Backend> VocoderResidualUnit<B> {
    fn new(channels: usize, dilation: usize, width: Width, device: &B::Device) -> Self {
        Self {
            snake1: Snake1d::new(channels, width, device),
            conv1: conv(channels, channels, 7, dilation).init(width, device),
            snake2: Snake1d::new(channels, width, device),
            conv2: conv(channels, channels, 1, 1).init(width, device),
            width,
        }
    }

    fn forward(&self, hidden_states: Tensor<B, 3>) -> Tensor<B, 3> {
        let residual = self.conv1.forward(self.snake1.forward(hidden_states.clone()));
        self.conv2.forward_added(self.snake2.forward(residual), hidden_states)
    }
}

/// The periodic activation `x + sin²(αx) / (α + 1e-9)`, one α per channel.
#[derive(Module, Debug)]
pub struct Snake1d<B: Backend> {
    /// `[1, channels, 1]`
    pub alpha: Param<Tensor<B, 3>>,
    #[module(skip)]
    width: Width,
}

impl<B: Backend> Snake1d<B> {
    /// Returns an activation over `channels`.
    pub fn new(channels: usize, width: Width, device: &B::Device) -> Self {
        Self { alpha: lazy_param([1, channels, 1], Initializer::Ones, width, device), width }
    }

    /// Returns the activation, in upstream's order of operations.
    ///
    /// # Shapes
    /// `[batch, channels, len]` → the same
    pub fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        ops::snake(x, self.alpha.val(), SNAKE_EPS, self.width)
    }
}

fn conv(inputs: usize, outputs: usize, kernel_size: usize, dilation: usize) -> Conv1dConfig {
    Conv1dConfig { inputs, outputs, kernel_size, dilation }
}

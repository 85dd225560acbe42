//! One-dimensional convolution layers. Weight normalisation is folded when weights are loaded.

use burn::{
    module::{Module, Param},
    tensor::{Tensor, backend::Backend},
};

use super::{lazy_param, uniform};
use crate::{
    Width,
    ops::{self, Conv1dOptions, ConvTranspose1dOptions, Convolution},
};

/// The shape of a [`Conv1d`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv1dConfig {
    /// Input channels.
    pub inputs: usize,
    /// Output channels.
    pub outputs: usize,
    /// Taps.
    pub kernel_size: usize,
    /// Distance between taps.
    pub dilation: usize,
}

impl Conv1dConfig {
    /// Returns a convolution that keeps the length: padding `dilation·(kernel_size − 1)/2`.
    ///
    /// # Panics
    /// If the kernel size is even.
    pub fn init<B: Backend>(self, width: Width, device: &B::Device) -> Conv1d<B> {
        assert!(self.kernel_size % 2 == 1, "an even kernel does not keep the length");
        let fan_in = self.inputs * self.kernel_size;
        let shape = [self.outputs, self.inputs, self.kernel_size];
        let padding = self.dilation * (self.kernel_size - 1) / 2;
        Conv1d {
            weight: lazy_param(shape, uniform(fan_in), width, device),
            bias: Some(lazy_param([self.outputs], uniform(fan_in), width, device)),
            options: Conv1dOptions { padding, dilation: self.dilation },
            width,
        }
    }

    /// Returns the same without a bias.
    pub fn init_without_bias<B: Backend>(self, width: Width, device: &B::Device) -> Conv1d<B> {
        Conv1d { bias: None, ..self.init(width, device) }
    }
}

/// A convolution over time that keeps the length.
#[derive(Module, Debug)]
pub struct Conv1d<B: Backend> {
    /// `[out, in, taps]`
    pub weight: Param<Tensor<B, 3>>,
    /// `[out]`
    pub bias: Option<Param<Tensor<B, 1>>>,
    #[module(skip)]
    options: Conv1dOptions,
    #[module(skip)]
    width: Width,
}

impl<B: Backend> Conv1d<B> {
    /// Returns the convolution.
    ///
    /// # Shapes
    /// `[batch, in, len]` → `[batch, out, len]`
    pub fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        ops::conv1d(x, self.weight.val(), self.bias.as_ref().map(Param::val), self.options, self.width)
    }

    /// Returns the convolution added to `residual`.
    ///
    /// # Shapes
    /// `x` `[batch, in, len]`, `residual` `[batch, out, len]` → `[batch, out, len]`
    pub fn forward_added(&self, x: Tensor<B, 3>, residual: Tensor<B, 3>) -> Tensor<B, 3> {
        let (weight, bias) = (self.weight.val(), self.bias.as_ref().map(Param::val));
        ops::conv1d_added(x, Convolution { weight, bias, options: self.options }, residual, self.width)
    }
}

/// The shape of a [`ConvTranspose1d`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvTranspose1dConfig {
    /// Input channels.
    pub inputs: usize,
    /// Output channels.
    pub outputs: usize,
    /// Outputs per input; the kernel is twice as long.
    pub stride: usize,
}

impl ConvTranspose1dConfig {
    /// Returns upstream's upsampling convolution: kernel `2·stride`, padding `ceil(stride/2)`.
    pub fn init<B: Backend>(self, width: Width, device: &B::Device) -> ConvTranspose1d<B> {
        let taps = 2 * self.stride;
        let fan_in = self.outputs * taps;
        ConvTranspose1d {
            weight: lazy_param([self.inputs, self.outputs, taps], uniform(fan_in), width, device),
            bias: lazy_param([self.outputs], uniform(fan_in), width, device),
            options: ConvTranspose1dOptions { stride: self.stride, padding: self.stride.div_ceil(2) },
            width,
        }
    }
}

/// A convolution that makes `stride` outputs of each input (one fewer in all where the stride is odd).
#[derive(Module, Debug)]
pub struct ConvTranspose1d<B: Backend> {
    /// `[in, out, taps]`
    pub weight: Param<Tensor<B, 3>>,
    /// `[out]`
    pub bias: Param<Tensor<B, 1>>,
    #[module(skip)]
    options: ConvTranspose1dOptions,
    #[module(skip)]
    width: Width,
}

impl<B: Backend> ConvTranspose1d<B> {
    /// Returns the upsampled tensor.
    ///
    /// # Shapes
    /// `[batch, in, len]` → `[batch, out, len·stride − stride % 2]`
    pub fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        ops::conv_transpose1d(x, self.weight.val(), Some(self.bias.val()), self.options, self.width)
    }
}

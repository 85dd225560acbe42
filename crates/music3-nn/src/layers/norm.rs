//! Normalisation layers.

use burn::{
    module::{Initializer, Module, Param},
    tensor::{Tensor, backend::Backend},
};

use super::lazy_param;
use crate::{Width, ops};

/// RMS normalisation over the last dimension, rounded before and after the weight.
#[derive(Module, Debug)]
pub struct RmsNorm<B: Backend> {
    /// `[channels]`
    pub weight: Param<Tensor<B, 1>>,
    #[module(skip)]
    pub(crate) eps: f32,
    #[module(skip)]
    pub(crate) width: Width,
}

impl<B: Backend> RmsNorm<B> {
    /// Returns a layer over `channels`.
    pub fn new(channels: usize, eps: f32, width: Width, device: &B::Device) -> Self {
        Self { weight: lazy_param([channels], Initializer::Ones, width, device), eps, width }
    }

    /// Returns the normalised tensor.
    ///
    /// # Shapes
    /// `[..., channels]` → the same
    pub fn forward<const D: usize>(&self, x: Tensor<B, D>) -> Tensor<B, D> {
        ops::rms_norm(x, self.weight.val(), self.eps, self.width)
    }
}

/// Layer normalisation over the last dimension, rounded once.
#[derive(Module, Debug)]
pub struct LayerNorm<B: Backend> {
    /// `[channels]`
    pub weight: Param<Tensor<B, 1>>,
    /// `[channels]`
    pub bias: Param<Tensor<B, 1>>,
    #[module(skip)]
    eps: f32,
    #[module(skip)]
    width: Width,
}

impl<B: Backend> LayerNorm<B> {
    /// Returns a layer over `channels`.
    pub fn new(channels: usize, eps: f32, width: Width, device: &B::Device) -> Self {
        Self {
            weight: lazy_param([channels], Initializer::Ones, width, device),
            bias: lazy_param([channels], Initializer::Zeros, width, device),
            eps,
            width,
        }
    }

    /// Returns the normalised tensor.
    ///
    /// # Shapes
    /// `[..., channels]` → the same
    pub fn forward<const D: usize>(&self, x: Tensor<B, D>) -> Tensor<B, D> {
        ops::layer_norm(x, self.weight.val(), self.bias.val(), self.eps, self.width)
    }
}

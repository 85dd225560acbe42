//! Linear layer and embedding table.

use burn::{
    module::{Initializer, Module, Param},
    tensor::{Int, Tensor, backend::Backend},
};

use super::{lazy_param, uniform};
use crate::{Width, ops};

/// `y = x·weightᵀ + bias`, with the weight stored `[out, in]` as upstream stores it (Burn's own layer stores
/// `[in, out]`, which the device reads at a quarter of the speed for a few rows).
#[derive(Module, Debug)]
pub struct Linear<B: Backend> {
    /// `[out, in]`
    pub weight: Param<Tensor<B, 2>>,
    /// `[out]`
    pub bias: Option<Param<Tensor<B, 1>>>,
    #[module(skip)]
    width: Width,
}

impl<B: Backend> Linear<B> {
    /// Returns a layer without bias.
    pub fn new(inputs: usize, outputs: usize, width: Width, device: &B::Device) -> Self {
        Self { weight: lazy_param([outputs, inputs], uniform(inputs), width, device), bias: None, width }
    }

    /// Returns a layer with bias.
    pub fn with_bias(inputs: usize, outputs: usize, width: Width, device: &B::Device) -> Self {
        let bias = Some(lazy_param([outputs], uniform(inputs), width, device));
        Self { bias, ..Self::new(inputs, outputs, width, device) }
    }

    /// Puts the weights of three layers of one shape into one piece of memory where the backend has a product that reads them
    /// together; else, and in every value, nothing changes.
    pub fn join(layers: [&mut Self; 3]) {
        let weights = layers.each_ref().map(|layer| layer.weight.val());
        if let Some(joined) = music3_kernels::try_join_rows(weights.each_ref()) {
            for (layer, weight) in layers.into_iter().zip(joined) {
                layer.weight = layer.weight.clone().map(|_| weight);
            }
        }
    }

    /// Returns the product.
    ///
    /// # Shapes
    /// `[..., in]` → `[..., out]`
    pub fn forward<const D: usize>(&self, x: Tensor<B, D>) -> Tensor<B, D> {
        ops::linear(x, self.weight.val(), self.bias.as_ref().map(Param::val), self.width)
    }

    /// Returns the product added to `residual`.
    ///
    /// # Shapes
    /// `x` `[..., in]`, `residual` `[..., out]`, or with a first dimension of one for all of the batch → `[..., out]`
    pub fn forward_added<const D: usize>(&self, x: Tensor<B, D>, residual: Tensor<B, D>) -> Tensor<B, D> {
        ops::linear_added(x, self.weight.val(), self.bias.as_ref().map(Param::val), residual, self.width)
    }

    /// Returns `value ⊙ silu(gate)` of the product, whose rows hold the value half first and the gate half second.
    ///
    /// # Shapes
    /// `[batch, tokens, in]` → `[batch, tokens, out/2]`
    pub fn forward_gated(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        match &self.bias {
            Some(bias) => ops::gated_linear(x, self.weight.val(), bias.val(), self.width),
            None => ops::gate_halves(self.forward(x), self.width),
        }
    }

    /// Returns the product with `rows` of the weight only: the outputs `start..start + len`.
    ///
    /// # Shapes
    /// `[..., in]` → `[..., len]`
    ///
    /// # Panics
    /// If the layer has a bias or the rows do not exist.
    pub fn forward_rows<const D: usize>(&self, x: Tensor<B, D>, rows: std::ops::Range<usize>) -> Tensor<B, D> {
        assert!(self.bias.is_none(), "a layer with bias has no sliced form");
        let weight = self.weight.val().narrow(0, rows.start, rows.len());
        ops::linear(x, weight, None, self.width)
    }
}

/// A table of rows, looked up by id.
#[derive(Module, Debug)]
pub struct Embedding<B: Backend> {
    /// `[rows, hidden]`
    pub weight: Param<Tensor<B, 2>>,
}

impl<B: Backend> Embedding<B> {
    /// Returns a table of `rows` rows.
    pub fn new(rows: usize, hidden: usize, width: Width, device: &B::Device) -> Self {
        let initializer = Initializer::Normal { mean: 0.0, std: 1.0 };
        Self { weight: lazy_param([rows, hidden], initializer, width, device) }
    }

    /// Returns the rows that `ids` name.
    ///
    /// # Shapes
    /// `[batch, tokens]` → `[batch, tokens, hidden]`
    pub fn forward(&self, ids: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        ops::embedding(ids, self.weight.val())
    }
}

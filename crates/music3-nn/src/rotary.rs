//! Rotary position embedding, half-split as Qwen and upstream's transformer use it.

use burn::tensor::{DType, Tensor, TensorData, backend::Backend};

use crate::{Width, ops};

/// Cosines and sines for a run of positions, computed once on the host.
///
/// Burn's own rotary encoding rotates interleaved pairs; here a head's first half is rotated against its second.
#[derive(Clone, Debug)]
pub struct RotaryTable<B: Backend> {
    cos: Tensor<B, 2>,
    sin: Tensor<B, 2>,
}

impl<B: Backend> RotaryTable<B> {
    /// Returns the table for positions `0..positions`, rounded to `width` as upstream casts its tables to the
    /// activations' dtype. Frequencies and angles are f32, as upstream's are.
    ///
    /// # Shapes
    /// cosines and sines `[positions, rotary_dim]`; the two halves of a row are equal.
    pub fn new(rotary_dim: usize, theta: f64, positions: usize, width: Width, device: &B::Device) -> Self {
        let frequencies = inverse_frequencies(rotary_dim, theta);
        let mut cos = Vec::with_capacity(positions * rotary_dim);
        let mut sin = Vec::with_capacity(positions * rotary_dim);
        for position in 0..positions {
            for &frequency in frequencies.iter().chain(&frequencies) {
                let (s, c) = f64::from(position as f32 * frequency).sin_cos();
                cos.push(c as f32);
                sin.push(s as f32);
            }
        }
        let tensor = |values| {
            let data = TensorData::new(values, [positions, rotary_dim]);
            ops::round(Tensor::from_data(data, (device, DType::F32)), width)
        };
        Self { cos: tensor(cos), sin: tensor(sin) }
    }

    /// Returns the rows of `tokens` positions from `start` on.
    pub fn narrow(&self, start: usize, tokens: usize) -> Self {
        Self { cos: self.cos.clone().narrow(0, start, tokens), sin: self.sin.clone().narrow(0, start, tokens) }
    }

    /// Returns the cosines, `[positions, rotary_dim]`.
    pub fn cos(&self) -> Tensor<B, 2> {
        self.cos.clone()
    }

    /// Returns the sines, `[positions, rotary_dim]`.
    pub fn sin(&self) -> Tensor<B, 2> {
        self.sin.clone()
    }

    /// Returns heads in their own layout and rotated as [`apply`](Self::apply) does.
    ///
    /// # Shapes
    /// `x` `[batch, positions, heads·head_dim]` → `[batch, heads, positions, head_dim]`.
    pub fn split(&self, x: Tensor<B, 3>, heads: usize, width: Width) -> Tensor<B, 4> {
        if x.dtype() == width.store_dtype::<B>(&x.device())
            && let Some(rotated) = music3_kernels::try_rotate_heads(&x, heads, [&self.cos, &self.sin])
        {
            return rotated;
        }
        self.apply(split_heads(x, heads), width)
    }

    /// Returns attention of `x` over itself where the backend has it in one piece: queries, keys and values without bias, queries
    /// and keys taken apart as [`split`](Self::split) does.
    ///
    /// # Shapes
    /// `x` `[batch, positions, dim]`, three weights `[heads·head_dim, dim]` → `[batch, positions, heads·head_dim]`
    pub fn try_attend(
        &self,
        x: &Tensor<B, 3>,
        weights: [Tensor<B, 2>; 3],
        heads: usize,
        width: Width,
    ) -> Option<Tensor<B, 3>> {
        let as_stored = x.dtype() == width.store_dtype::<B>(&x.device());
        let tables = [&self.cos, &self.sin];
        as_stored.then(|| music3_kernels::try_attend_projected(x, weights.each_ref(), heads, tables)).flatten()
    }

    /// Returns `x` with the first `rotary_dim` values of each head rotated: `x·cos + rotate_half(x)·sin`, where both
    /// products and the sum round.
    ///
    /// # Shapes
    /// `x` `[batch, heads, positions, head_dim]` → the same.
    pub fn apply(&self, x: Tensor<B, 4>, width: Width) -> Tensor<B, 4> {
        let head_dim = x.dims()[3];
        let rotary_dim = self.cos.dims()[1];
        let half = rotary_dim / 2;
        let rotated = x.clone().narrow(3, 0, rotary_dim);
        let first = rotated.clone().narrow(3, 0, half);
        let second = rotated.clone().narrow(3, half, half);
        let turned = Tensor::cat(vec![ops::neg(second), first], 3);
        let rotated = ops::add(
            ops::mul(rotated, self.cos.clone().unsqueeze(), width),
            ops::mul(turned, self.sin.clone().unsqueeze(), width),
            width,
        );
        if rotary_dim == head_dim {
            return rotated;
        }
        Tensor::cat(vec![rotated, x.narrow(3, rotary_dim, head_dim - rotary_dim)], 3)
    }
}

/// Returns heads in their own layout.
///
/// # Shapes
/// `[batch, positions, heads·head_dim]` → `[batch, heads, positions, head_dim]`.
pub fn split_heads<B: Backend>(x: Tensor<B, 3>, heads: usize) -> Tensor<B, 4> {
    let [batch, positions, width] = x.dims();
    x.reshape([batch, positions, heads, width / heads]).swap_dims(1, 2)
}

/// Returns `1 / theta^(2i / dim)` in f32. Each step is rounded to f32 as torch does, because an angle is a frequency
/// times a position of up to ten thousand, which magnifies the last bit.
///
/// Torch's vectorised power misses the nearest f32 once among the language model's 64 frequencies (the 38th, by one unit
/// in the last place). Up to position 10 000 that moves a cosine or sine by at most 5e-7, and 9 of the 1 280 128 values
/// of the bf16 table to a neighbour.
fn inverse_frequencies(dim: usize, theta: f64) -> Vec<f32> {
    (0..dim / 2)
        .map(|i| {
            let exponent = (2 * i) as f32 / dim as f32;
            1.0 / (theta.powf(f64::from(exponent)) as f32)
        })
        .collect()
}

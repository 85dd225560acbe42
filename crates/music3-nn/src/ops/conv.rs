//! One-dimensional convolutions written as products, so that they run at a product's speed on every backend.

use burn::tensor::{Tensor, backend::Backend};

use super::{add, product::product, round, widen};
use crate::Width;

/// The geometry of a [`conv1d`] with stride 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv1dOptions {
    /// Zeros added at each end.
    pub padding: usize,
    /// Distance between taps.
    pub dilation: usize,
}

/// The geometry of a [`conv_transpose1d`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvTranspose1dOptions {
    /// Outputs per input.
    pub stride: usize,
    /// Outputs cut from each end.
    pub padding: usize,
}

/// Values of the unfolded input that are held at once; longer inputs are taken in blocks, which changes no value.
const MAX_UNFOLDED: usize = 1 << 24;

/// Returns the convolution as one product over channels and taps of the unfolded input, summed wide, bias included in
/// the one rounding.
///
/// # Shapes
/// `x` `[batch, in, len]`, `weight` `[out, in, taps]`, `bias` `[out]` →
/// `[batch, out, len + 2·padding − dilation·(taps − 1)]`.
pub fn conv1d<B: Backend>(
    x: Tensor<B, 3>,
    weight: Tensor<B, 3>,
    bias: Option<Tensor<B, 1>>,
    options: Conv1dOptions,
    width: Width,
) -> Tensor<B, 3> {
    let Conv1dOptions { padding, dilation } = options;
    if x.dtype() == width.store_dtype::<B>(&x.device())
        && let Some(y) = music3_kernels::try_conv1d(&x, &weight, bias.as_ref(), None, [padding, dilation])
    {
        return y;
    }
    let [out, inner, taps] = weight.dims();
    let x = pad(widen(x), padding, padding);
    let [batch, _, padded] = x.dims();
    let len = padded - dilation * (taps - 1);
    let matrix = widen(weight).reshape([1, out, taps * inner]);
    let block = (MAX_UNFOLDED / (batch * inner * taps)).clamp(1, len);
    let blocks = (0..len).step_by(block).map(|start| {
        let count = block.min(len - start);
        let tap = |tap: usize| x.clone().narrow(2, start + tap * dilation, count);
        let unfolded = if taps == 1 {
            tap(0)
        } else {
            Tensor::stack::<4>((0..taps).map(tap).collect(), 2).reshape([batch, inner * taps, count])
        };
        round(with_bias(product(matrix.clone(), unfolded), bias.clone()), width)
    });
    let mut blocks: Vec<_> = blocks.collect();
    if blocks.len() == 1 { blocks.remove(0) } else { Tensor::cat(blocks, 2) }
}

/// A convolution with its weights.
#[derive(Clone, Debug)]
pub struct Convolution<B: Backend> {
    /// `[out, in, taps]`
    pub weight: Tensor<B, 3>,
    /// `[out]`
    pub bias: Option<Tensor<B, 1>>,
    /// Padding and dilation.
    pub options: Conv1dOptions,
}

/// Returns `residual` plus the convolution of `x`, which rounds before the sum.
///
/// # Shapes
/// `x` `[batch, in, len]`, `residual` and result as the convolution's.
pub fn conv1d_added<B: Backend>(
    x: Tensor<B, 3>,
    convolution: Convolution<B>,
    residual: Tensor<B, 3>,
    width: Width,
) -> Tensor<B, 3> {
    let Convolution { weight, bias, options } = convolution;
    let geometry = [options.padding, options.dilation];
    if x.dtype() == width.store_dtype::<B>(&x.device())
        && let Some(y) = music3_kernels::try_conv1d(&x, &weight, bias.as_ref(), Some(&residual), geometry)
    {
        return y;
    }
    add(residual, conv1d(x, weight, bias, options, width), width)
}

/// Returns the transposed convolution with any stride: one product for all taps, then an overlap-add of the
/// `ceil(taps / stride)` groups of taps that reach the same outputs.
///
/// # Shapes
/// `x` `[batch, in, len]`, `weight` `[in, out, taps]`, `bias` `[out]` →
/// `[batch, out, (len − 1)·stride + taps − 2·padding]`.
pub fn conv_transpose1d<B: Backend>(
    x: Tensor<B, 3>,
    weight: Tensor<B, 3>,
    bias: Option<Tensor<B, 1>>,
    options: ConvTranspose1dOptions,
    width: Width,
) -> Tensor<B, 3> {
    let ConvTranspose1dOptions { stride, padding } = options;
    if x.dtype() == width.store_dtype::<B>(&x.device())
        && let Some(y) = music3_kernels::try_conv_transpose1d(&x, &weight, bias.as_ref(), [stride, padding])
    {
        return y;
    }
    let [batch, inner, len] = x.dims();
    let [_, out, taps] = weight.dims();
    let groups = taps.div_ceil(stride);
    let full = (len + groups - 1) * stride;

    // Row (o, tap) of the product holds what output channel o receives through that tap, one value per input.
    let matrix = widen(weight).permute([1, 2, 0]).reshape([1, out * taps, inner]);
    let columns = product(matrix, widen(x)).reshape([batch, out, taps, len]);
    let group = |index: usize| {
        let first = index * stride;
        let count = stride.min(taps - first);
        let values = columns.clone().narrow(2, first, count).swap_dims(2, 3);
        let values = pad_last4(values, stride - count).reshape([batch, out, len * stride]);
        pad(values, first, full - len * stride - first)
    };
    let sum = (1..groups).fold(group(0), |sum, index| sum + group(index));
    let kept = (len - 1) * stride + taps - 2 * padding;
    round(with_bias(sum.narrow(2, padding, kept), bias), width)
}

fn with_bias<B: Backend>(x: Tensor<B, 3>, bias: Option<Tensor<B, 1>>) -> Tensor<B, 3> {
    match bias {
        Some(bias) => {
            let [channels] = bias.dims();
            x + widen(bias).reshape([1, channels, 1])
        }
        None => x,
    }
}

/// Adds zeros at both ends of the last dimension.
fn pad<B: Backend>(x: Tensor<B, 3>, left: usize, right: usize) -> Tensor<B, 3> {
    if left + right == 0 {
        return x;
    }
    let [batch, channels, len] = x.dims();
    let zeros = Tensor::zeros([batch, channels, left + len + right], &x.device());
    zeros.slice_assign([0..batch, 0..channels, left..left + len], x)
}

/// Adds zeros at the end of the last dimension of a rank-four tensor.
fn pad_last4<B: Backend>(x: Tensor<B, 4>, right: usize) -> Tensor<B, 4> {
    if right == 0 {
        return x;
    }
    let [batch, channels, len, taps] = x.dims();
    let zeros = Tensor::zeros([batch, channels, len, taps + right], &x.device());
    zeros.slice_assign([0..batch, 0..channels, 0..len, 0..taps], x)
}

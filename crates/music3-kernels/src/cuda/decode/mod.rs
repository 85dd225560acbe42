//! This project's own kernels: the language model's and the depth decoder's steps, with a few rows, large bf16 weights and a
//! static cache, and the ops of many rows between the transformer's and the vocoder's products.
//!
//! `acoustic`, `attention`, `draw`, `flash`, `heads`, `linear`, `pointwise`, `staging` and `tiles` hold the kernels;
//! `few_rows`, `positions`, `many_rows`, `sequences` and `drawing` check tensors and launch them.
#![allow(unsafe_code, reason = "kernels are launched on raw buffers")]

mod acoustic;
mod attention;
mod draw;
mod drawing;
mod few_rows;
mod flash;
mod heads;
mod linear;
mod many_rows;
mod packed;
mod pointwise;
mod positions;
mod sequences;
mod staging;
mod tiles;

use burn::tensor::DType;
use burn_cubecl::{cubecl, kernel::into_contiguous};
use cubecl::{cuda::CudaRuntime, prelude::ArrayArg, server::Handle};

pub(super) use self::{
    drawing::draw,
    few_rows::{gated, linear_added},
    many_rows::{can_finish, can_gate, finished, gate_halves, joined, layer_norm, normalise, snake, softmax},
    packed::{FOUR, Four, cube_max},
    pointwise::Joint,
    positions::{Cache, Preparation, attend, attend_newest, read_positions, store_positions},
    sequences::{
        attend_in_tiles, can_attend_in_tiles, headed, rotate_heads, scaled, softmax_in_place, take_heads_apart,
    },
};
use super::{CudaTensor, empty};

/// Planes of a cube that computes products.
const PLANES: u32 = 8;

/// RMSNorm's parameters.
pub(super) struct Norm {
    pub(super) weight: CudaTensor,
    pub(super) eps: f32,
}

impl Norm {
    fn checked(self, len: usize) -> Option<Self> {
        let fits = self.weight.dtype == DType::BF16 && self.weight.meta.shape().as_slice() == [len];
        fits.then(|| Self { weight: into_contiguous(self.weight), ..self })
    }
}

/// A contiguous bf16 tensor as `u32` pairs, alone or in eights.
fn words(tensor: &CudaTensor) -> ArrayArg<CudaRuntime> {
    array(&tensor.handle, elements(tensor) / 2)
}

/// A contiguous tensor value by value.
fn halves(tensor: &CudaTensor) -> ArrayArg<CudaRuntime> {
    array(&tensor.handle, elements(tensor))
}

fn elements(tensor: &CudaTensor) -> usize {
    tensor.meta.shape().iter().product()
}

/// `len` scalars of whatever type the kernel declares.
pub(super) fn array(handle: &Handle, len: usize) -> ArrayArg<CudaRuntime> {
    // SAFETY: every caller passes as many scalars of the kernel's type as the buffer holds.
    unsafe { ArrayArg::from_raw_parts(handle.clone(), len) }
}

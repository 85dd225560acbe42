//! Layers: parameters under upstream's names, weights in upstream's orientation, a forward that is one op.

mod conv;
mod linear;
mod norm;

pub use conv::{Conv1d, Conv1dConfig, ConvTranspose1d, ConvTranspose1dConfig};
pub use linear::{Embedding, Linear};
pub use norm::{LayerNorm, RmsNorm};

use burn::{
    module::{Initializer, Param},
    tensor::{Tensor, backend::Backend},
};

use crate::{Width, ops};

/// Returns a parameter that is drawn only if it is used before weights are loaded over it.
pub fn lazy_param<B: Backend, const D: usize>(
    shape: [usize; D],
    initializer: Initializer,
    width: Width,
    device: &B::Device,
) -> Param<Tensor<B, D>> {
    initializer.init(shape, device).init_mapper(move |tensor| {
        // What is drawn is a parameter only after it was rounded: gradients end here.
        let requires_grad = tensor.is_require_grad();
        ops::round(tensor.detach(), width).detach().set_require_grad(requires_grad)
    })
}

/// Returns torch's default range for weights of `fan_in` inputs: uniform in ±1/√fan_in.
fn uniform(fan_in: usize) -> Initializer {
    let bound = 1.0 / (fan_in as f64).sqrt();
    Initializer::Uniform { min: -bound, max: bound }
}

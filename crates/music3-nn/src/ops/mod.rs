//! One function per torch op, each with torch's rounding points.
//!
//! Every function takes the [`Width`](crate::Width) that its result is stored in. Inputs may be stored in either form
//! that [`Width::store_dtype`](crate::Width::store_dtype) names; they are widened to f32, which is exact, the op is
//! computed in f32, and the result is rounded once. Where torch rounds inside a module (an RMSNorm, say), the function
//! says so.

mod attention;
mod conv;
mod elementwise;
mod index;
mod norm;
mod product;
mod round;

pub use attention::{AttentionMask, scaled_dot_product_attention};
pub use conv::{Conv1dOptions, ConvTranspose1dOptions, Convolution, conv_transpose1d, conv1d, conv1d_added};
pub use elementwise::{
    add, add_scalar, cos, gate_halves, mul, mul_scalar, neg, recip, silu, silu_product, sin, snake, square, sub, tanh,
};
pub use index::{embedding, index_select};
pub use norm::{layer_norm, rms_norm, softmax};
pub use product::{gated_linear, linear, linear_added, matmul, mix_layers, sum_dim};
pub use round::{from_data, from_stored, round, round_scalar, widen};

//! The five components of MiniMax-Music3 as generic Burn modules, one file each, named as the checkpoint's folders are.
//!
//! Every module is generic over `B: Backend` alone and is built with the [`Width`](music3_nn::Width) its weights and
//! activations are stored in. Components do not import each other; the pipeline joins them.

pub mod condition_encoder;
mod error;
pub mod language_model;
pub mod rvq_depth_decoder;
pub mod transformer;
pub mod vocoder;

pub use condition_encoder::{ConditionMix, ConditionMixConfig};
pub use error::ConfigError;
pub use language_model::{Qwen3Config, Qwen3ForCausalLM, Qwen3State};
pub use rvq_depth_decoder::{DepthDecoder, DepthDecoderConfig};
pub use transformer::{Transformer1DModel, Transformer1DModelConfig};
pub use vocoder::{Vocoder, VocoderConfig};

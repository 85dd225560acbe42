//! The five components of a checkpoint.

use std::fmt;

use serde::Serialize;

/// A component of the model; its name is the checkpoint folder that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// The Qwen3 language model: one semantic code per frame.
    LanguageModel,
    /// The depth decoder: the seven residual codes of a frame.
    RvqDepthDecoder,
    /// The condition encoder: frame hiddens to the transformer's condition.
    ConditionEncoder,
    /// The flow-matching transformer.
    Transformer,
    /// The vocoder: latents to samples.
    Vocoder,
}

impl Component {
    /// All components, in the order a song passes through them.
    pub const ALL: [Self; 5] =
        [Self::LanguageModel, Self::RvqDepthDecoder, Self::ConditionEncoder, Self::Transformer, Self::Vocoder];

    /// The folder of a diffusers-layout checkpoint that holds this component.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::LanguageModel => "language_model",
            Self::RvqDepthDecoder => "rvq_depth_decoder",
            Self::ConditionEncoder => "condition_encoder",
            Self::Transformer => "transformer",
            Self::Vocoder => "vocoder",
        }
    }

    /// The stem of the weight files in [`Component::folder`], as the library that upstream saves with names them.
    pub(crate) const fn weights_stem(self) -> &'static str {
        match self {
            Self::LanguageModel => "model",
            _ => "diffusion_pytorch_model",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.folder())
    }
}

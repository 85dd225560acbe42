//! Which half of the model is stored in which width.

use music3_nn::Width;

/// The storage of a run. The autoregressive half is the language model, the depth decoder and the condition encoder;
/// the acoustic half is the transformer and the vocoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Autoregressive half bf16, acoustic half f32: as published, and the reference.
    #[default]
    Mixed,
    /// Everything f32.
    F32,
    /// Everything bf16.
    Bf16,
}

impl Precision {
    /// Returns the width of the language model, the depth decoder and the condition encoder, which follows the language
    /// model whatever its file stores.
    pub fn autoregressive(self) -> Width {
        match self {
            Self::Mixed | Self::Bf16 => Width::Bf16,
            Self::F32 => Width::F32,
        }
    }

    /// Returns the width of the transformer and the vocoder.
    pub fn acoustic(self) -> Width {
        match self {
            Self::Mixed | Self::F32 => Width::F32,
            Self::Bf16 => Width::Bf16,
        }
    }
}

impl std::fmt::Display for Precision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Mixed => "mixed",
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        })
    }
}

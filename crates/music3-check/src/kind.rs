//! What a case is for.

use std::fmt;

/// What a case is for: the `component` of its JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is named as the case files name it, and their contract explains them")]
pub enum CaseKind {
    ConditionEncoder,
    RvqDepthDecoder,
    DepthLoop,
    LanguageModel,
    TransformerBlock,
    Transformer,
    Snake,
    VocoderBlock,
    Vocoder,
    GuidedLogits,
    SampleProbs,
    Schedule,
    Flow,
    Pipeline,
    PromptStrings,
    PromptTokenIds,
    Windows,
    NearestIndex,
    Durations,
}

impl CaseKind {
    /// Every kind and its name.
    pub const ALL: [(Self, &'static str); 19] = [
        (Self::ConditionEncoder, "condition_encoder"),
        (Self::RvqDepthDecoder, "rvq_depth_decoder"),
        (Self::DepthLoop, "depth_loop"),
        (Self::LanguageModel, "language_model"),
        (Self::TransformerBlock, "transformer_block"),
        (Self::Transformer, "transformer"),
        (Self::Snake, "snake"),
        (Self::VocoderBlock, "vocoder_block"),
        (Self::Vocoder, "vocoder"),
        (Self::GuidedLogits, "guided_logits"),
        (Self::SampleProbs, "sample_probs"),
        (Self::Schedule, "schedule"),
        (Self::Flow, "flow"),
        (Self::Pipeline, "pipeline"),
        (Self::PromptStrings, "prompt_strings"),
        (Self::PromptTokenIds, "prompt_token_ids"),
        (Self::Windows, "windows"),
        (Self::NearestIndex, "nearest_index"),
        (Self::Durations, "durations"),
    ];

    /// Returns its name in a case file.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }

    /// Returns the input that an output is computed from, where the output's name says which: `x_b1` from `in.x_b1`.
    pub(crate) fn input_of(self, output: &str) -> Option<String> {
        let after = |prefixes: &[&str]| prefixes.iter().find_map(|prefix| output.strip_prefix(prefix));
        Some(match self {
            Self::ConditionEncoder | Self::RvqDepthDecoder | Self::Snake | Self::VocoderBlock | Self::Vocoder => {
                format!("in.{output}")
            }
            Self::TransformerBlock => format!("in.{}", after(&["cos_", "sin_"]).unwrap_or(output)),
            Self::Transformer => format!("in.latents_{output}"),
            Self::LanguageModel => format!("in.ids_{}", after(&["hidden_", "logits_"])?),
            Self::GuidedLogits => format!("in.cond_{}", after(&["guided_", "probs_"])?),
            Self::SampleProbs => format!("in.{}", after(&["probs_"])?),
            Self::Schedule => match (after(&["guided_"]), after(&["x_"])) {
                (Some(dtype), _) => format!("in.cond_{dtype}"),
                (None, step) => format!("in.x_{}", step?.split('_').next()?),
            },
            _ => return None,
        })
    }

    /// Returns whether the case's tensors have the prefixes `w.`, `in.` and so on; a capture's have none.
    pub(crate) fn has_prefixes(self) -> bool {
        self != Self::Pipeline
    }
}

impl fmt::Display for CaseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

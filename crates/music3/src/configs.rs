//! The five components' configurations, and whether they fit each other.

use music3_audio::LatentRates;
use music3_model::{ConditionMixConfig, DepthDecoderConfig, Qwen3Config, Transformer1DModelConfig, VocoderConfig};
use music3_text::token_ids::{SEMANTIC_CODE_OFFSET, SEMANTIC_CODES};
use music3_weights::{Checkpoint, Component};
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde_json::Value;

use crate::error::SongError;

/// The configurations of a checkpoint's components.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfigs {
    /// Language model.
    pub language_model: Qwen3Config,
    /// Depth decoder.
    pub rvq_depth_decoder: DepthDecoderConfig,
    /// Condition encoder.
    pub condition_encoder: ConditionMixConfig,
    /// Flow-matching transformer.
    pub transformer: Transformer1DModelConfig,
    /// Vocoder.
    pub vocoder: VocoderConfig,
}

impl ModelConfigs {
    /// Reads them from a checkpoint and checks that each describes a module and that they fit each other.
    ///
    /// # Errors
    /// The first value that does not, with its component and key.
    pub fn read(checkpoint: &Checkpoint) -> Result<Self, SongError> {
        Self::from_values(|component| checkpoint.component(component).config())
    }

    /// Reads them from the components' `config.json` values, with the same checks.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn from_values<'a>(value: impl Fn(Component) -> &'a Value) -> Result<Self, SongError> {
        let configs = Self {
            language_model: typed(&value, Component::LanguageModel)?,
            rvq_depth_decoder: typed(&value, Component::RvqDepthDecoder)?,
            condition_encoder: typed(&value, Component::ConditionEncoder)?,
            transformer: typed(&value, Component::Transformer)?,
            vocoder: typed(&value, Component::Vocoder)?,
        };
        configs.language_model.validate()?;
        configs.rvq_depth_decoder.validate()?;
        configs.condition_encoder.validate()?;
        configs.transformer.validate()?;
        configs.vocoder.validate()?;
        configs.refuse_misfits()?;
        Ok(configs)
    }

    /// Returns the rates of frames and latents.
    pub fn latent_rates(&self) -> LatentRates {
        self.condition_encoder.latent_rates()
    }

    fn refuse_misfits(&self) -> Result<(), SongError> {
        let lm = ("language_model `hidden_size`", self.language_model.hidden_size);
        let depth = &self.rvq_depth_decoder;
        let condition = &self.condition_encoder;
        let transformer = &self.transformer;
        let samples_per_latent = self.vocoder.upsampling_ratios.iter().product();
        let pairs = [
            (("rvq_depth_decoder `hidden_size`", depth.hidden_size), lm),
            (("condition_encoder `condition_hidden_dim`", condition.condition_hidden_dim), lm),
            (
                ("condition_encoder `num_condition_layers`", condition.num_condition_layers),
                ("rvq_depth_decoder `num_codebooks`", depth.num_codebooks),
            ),
            (
                ("transformer `condition_dim`", transformer.condition_dim),
                ("condition_encoder `out_dim`", condition.out_dim),
            ),
            (
                ("vocoder `latent_channels`", self.vocoder.latent_channels),
                ("transformer `in_channels`", transformer.in_channels),
            ),
            (
                ("the product of vocoder `upsampling_ratios`", samples_per_latent),
                ("condition_encoder `output_hop_length`", condition.output_hop_length as usize),
            ),
            (
                ("vocoder `sampling_rate`", self.vocoder.sampling_rate),
                ("condition_encoder `output_sampling_rate`", condition.output_sampling_rate as usize),
            ),
        ];
        let misfit = pairs.into_iter().find(|((_, left), (_, right))| left != right);
        if let Some(((left, left_value), (right, right_value))) = misfit {
            return Err(SongError::Mismatch { left, left_value, right, right_value });
        }
        let rows = (SEMANTIC_CODE_OFFSET + SEMANTIC_CODES) as usize;
        if self.language_model.vocab_size < rows {
            let found = self.language_model.vocab_size;
            return Err(SongError::TooFew { what: "language_model `vocab_size`", found, needed: rows });
        }
        if depth.num_codebooks > depth.max_position_embeddings {
            let (found, needed) = (depth.max_position_embeddings, depth.num_codebooks);
            return Err(SongError::TooFew { what: "rvq_depth_decoder `max_position_embeddings`", found, needed });
        }
        Ok(())
    }
}

fn typed<'a, T: DeserializeOwned>(
    value: impl Fn(Component) -> &'a Value,
    component: Component,
) -> Result<T, SongError> {
    let value = value(component);
    // Upstream takes a default too. Where it is not what the weights were made with, the shapes that then do not fit say less.
    let is_there = |key: &str| value.get(key).is_some();
    // The rotary frequencies have an older form and a newer one.
    let is_in_other_form =
        |key: &str| key.starts_with("rope_") && ["rope_theta", "rope_parameters"].map(is_there).contains(&true);
    for key in keys_of::<T>().iter().filter(|key| !is_there(key) && !is_in_other_form(key)) {
        tracing::warn!("{component}/config.json has no `{key}`; upstream's default is taken");
    }
    serde_json::from_value(value.clone()).map_err(|source| SongError::ConfigValue { component, source })
}

/// Returns the keys that a structure reads, by asking it to read nothing.
fn keys_of<T: DeserializeOwned>() -> &'static [&'static str] {
    struct Asking<'a>(&'a mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for Asking<'_> {
        type Error = serde::de::value::Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(serde::de::Error::custom("only its keys are asked for"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            *self.0 = fields;
            self.deserialize_any(visitor)
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut keys: &[&str] = &[];
    // It fails, after it has said which.
    let _ = T::deserialize(Asking(&mut keys));
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_tells_its_keys() {
        assert!(keys_of::<Transformer1DModelConfig>().contains(&"attention_head_dim"));
        assert!(keys_of::<Qwen3Config>().contains(&"hidden_size"));
        assert!(keys_of::<Value>().is_empty());
    }
}

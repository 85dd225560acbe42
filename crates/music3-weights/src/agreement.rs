//! Numbers that two components of one checkpoint must share.

use serde_json::Value;

use crate::{component::Component, config::Words, layout::Layout, problem::Problem};

/// What flows from one component into another has one size.
const SHARED: [(Component, &str, Component, &str); 5] = [
    (Component::LanguageModel, "hidden_size", Component::RvqDepthDecoder, "hidden_size"),
    (Component::LanguageModel, "hidden_size", Component::ConditionEncoder, "condition_hidden_dim"),
    (Component::RvqDepthDecoder, "num_codebooks", Component::ConditionEncoder, "num_condition_layers"),
    (Component::ConditionEncoder, "out_dim", Component::Transformer, "condition_dim"),
    (Component::Transformer, "in_channels", Component::Vocoder, "latent_channels"),
];

/// The numbers that differ though they should not. A config that cannot be read has its own problems, and none here.
pub(crate) fn disagreements<'a>(config: impl Fn(Component) -> &'a Value) -> Vec<Problem> {
    let number = |component, word| Words::read(component, Layout::Diffusers, config(component)).ok()?.number(word);
    let differing = SHARED.into_iter().filter_map(|(component, key, other, other_key)| {
        let (found, expected) = (number(component, key)?, number(other, other_key)?);
        (found != expected).then(|| Problem::ConfigValue {
            component,
            key: key.to_owned(),
            found: found.to_string(),
            expected: format!("{other}'s {other_key} {expected}"),
        })
    });
    differing.collect()
}

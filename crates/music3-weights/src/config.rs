//! A component's config.json: its class, the values the model does not support, and the words that shapes use.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::Value;

use crate::{
    component::Component,
    expression::{Scope, WordValue},
    layout::Layout,
    mapping::{Mapping, Requirement},
    problem::Problem,
};

/// The largest number that a shape word may have; real ones are below a million.
const LARGEST: u64 = u32::MAX as u64;

/// The words of one config, checked.
pub(crate) struct Words {
    values: BTreeMap<String, WordValue>,
    mapping: &'static Mapping,
}

impl Words {
    /// Reads the words of `config`, taking upstream's default where a key is absent.
    ///
    /// Whatever the layout, this is the config of upstream's class; the native layout's becomes that when it is opened.
    pub(crate) fn read(component: Component, layout: Layout, config: &Value) -> Result<Self, Vec<Problem>> {
        let mapping = Mapping::of(component, layout);
        let mut problems = unsupported(component, Layout::Diffusers, config);
        let mut values = BTreeMap::new();
        for (key, default) in &mapping.words {
            match config.get(key) {
                None => _ = values.insert(key.clone(), default.clone()),
                Some(found) => match checked(found, default) {
                    Some(value) => _ = values.insert(key.clone(), value),
                    None => problems.push(Problem::ConfigValue {
                        component,
                        key: key.clone(),
                        found: shown(found),
                        expected: default.kind().to_owned(),
                    }),
                },
            }
        }
        match problems.is_empty() {
            true => Ok(Self { values, mapping }),
            false => Err(problems),
        }
    }

    /// The mapping that the words are those of.
    pub(crate) fn mapping(&self) -> &'static Mapping {
        self.mapping
    }

    pub(crate) fn scope(&self, index: Option<u64>) -> Scope<'_> {
        Scope { words: &self.values, derived: &self.mapping.derived, index }
    }

    /// The value of a number.
    pub(crate) fn number(&self, word: &str) -> Option<u64> {
        match self.values.get(word) {
            Some(WordValue::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// The value of a flag.
    pub(crate) fn flag(&self, word: &str) -> bool {
        matches!(self.values.get(word), Some(WordValue::Flag(true)))
    }
}

/// The value when it has the default's type and is in range.
pub(crate) fn checked(found: &Value, default: &WordValue) -> Option<WordValue> {
    let in_range = |number: &u64| (1..=LARGEST).contains(number);
    match (WordValue::from_json(found)?, default) {
        (WordValue::Number(number), WordValue::Number(_)) => in_range(&number).then_some(WordValue::Number(number)),
        (WordValue::Numbers(numbers), WordValue::Numbers(_)) => {
            numbers.iter().all(in_range).then_some(WordValue::Numbers(numbers))
        }
        (WordValue::Flag(flag), WordValue::Flag(_)) => Some(WordValue::Flag(flag)),
        _ => None,
    }
}

/// The values of `config` that the model does not support.
pub(crate) fn unsupported(component: Component, layout: Layout, config: &Value) -> Vec<Problem> {
    let mapping = Mapping::of(component, layout);
    let mut problems = Vec::new();
    for Requirement { key, value } in &mapping.requires {
        for found in lookup(config, key).into_iter().filter(|found| !found.is_null() && !equal(found, value)) {
            problems.push(Problem::ConfigValue {
                component,
                key: key.clone(),
                found: shown(found),
                expected: shown(value),
            });
        }
    }
    for (key, other) in &mapping.agree {
        let (found, same) = (lookup(config, key), lookup(config, other));
        if let ([found], [same]) = (found.as_slice(), same.as_slice())
            && !equal(found, same)
        {
            problems.push(Problem::ConfigValue {
                component,
                key: key.clone(),
                found: shown(found),
                expected: format!("{other}'s {}", shown(same)),
            });
        }
    }
    problems
}

/// The problem of a config that does not name this component's class.
pub(crate) fn wrong_class(component: Component, layout: Layout, config: &Value) -> Option<Problem> {
    let Requirement { key, value } = &Mapping::of(component, layout).class;
    let found = lookup(config, key);
    match found.as_slice() {
        [one] if equal(one, value) => None,
        found => Some(Problem::Class {
            component,
            key: key.trim_end_matches("[*]").to_owned(),
            found: match found {
                [] => "nothing".to_owned(),
                found => found.iter().map(|found| shown(found)).collect::<Vec<_>>().join(", "),
            },
            expected: shown(value),
        }),
    }
}

/// The component whose class a config names.
pub(crate) fn component_of(config: &Value) -> Option<Component> {
    Component::ALL.into_iter().find(|component| wrong_class(*component, Layout::Diffusers, config).is_none())
}

/// What lies at `a.b` or `a[*]`; nothing when a step is absent.
pub(crate) fn lookup<'a>(config: &'a Value, key: &str) -> Vec<&'a Value> {
    let (path, every) = match key.strip_suffix("[*]") {
        Some(path) => (path, true),
        None => (key, false),
    };
    let found = path.split('.').try_fold(config, |value, step| value.get(step));
    match (found, every) {
        (Some(Value::Array(entries)), true) => entries.iter().collect(),
        (Some(value), _) => vec![value],
        (None, _) => Vec::new(),
    }
}

/// Equality with numbers compared by value, so that 1 is 1.0.
fn equal(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left == right,
        _ => left == right,
    }
}

/// A JSON value for a message, cut when long: it comes from outside.
pub(crate) fn shown(value: &Value) -> String {
    const LONGEST: usize = 80;
    let text = Cow::from(value.to_string());
    match text.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(component: Component, config: Value) -> Vec<String> {
        let problems = Words::read(component, Layout::Diffusers, &config).err().unwrap_or_default();
        problems.iter().map(Problem::to_string).collect()
    }

    #[test]
    fn takes_upstreams_defaults_for_absent_keys() {
        for component in Component::ALL {
            assert_eq!(messages(component, json!({})), [""; 0]);
        }
    }

    #[test]
    fn refuses_what_the_forward_pass_does_not_compute() {
        let config = json!({
            "model_type": "llama", "hidden_act": "gelu", "attention_bias": true, "use_sliding_window": true,
            "layer_types": ["full_attention", "sliding_attention"], "rope_theta": 10000.0,
            "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "partial_rotary_factor": 0.5},
            "rope_scaling": {"type": "linear"}, "quantization_config": {"bits": 4},
        });
        let prefix = "language_model: config.json has ";
        let expected = [
            r#"model_type "llama", expected "qwen3""#,
            r#"hidden_act "gelu", expected "silu""#,
            "attention_bias true, expected false",
            "use_sliding_window true, expected false",
            r#"layer_types[*] "sliding_attention", expected "full_attention""#,
            r#"rope_parameters.rope_type "yarn", expected "default""#,
            "rope_parameters.partial_rotary_factor 0.5, expected 1.0",
            r#"rope_scaling.type "linear", expected "default""#,
            r#"quantization_config {"bits":4}, expected null"#,
            "rope_theta 10000.0, expected rope_parameters.rope_theta's 1000000.0",
        ];
        assert_eq!(messages(Component::LanguageModel, config), expected.map(|message| format!("{prefix}{message}")));
    }

    #[test]
    fn accepts_the_spellings_of_newer_and_older_configs() {
        let newer = json!({
            "sliding_window": null, "rope_scaling": null, "layer_types": ["full_attention"],
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000, "partial_rotary_factor": 1},
        });
        assert_eq!(messages(Component::LanguageModel, newer), [""; 0]);
        let both = json!({"rope_theta": 1000000, "rope_parameters": {"rope_theta": 1000000.0}});
        assert_eq!(messages(Component::LanguageModel, both), [""; 0]);
    }

    #[test]
    fn refuses_words_of_another_type_or_out_of_range() {
        let config = json!({"hidden_size": "big", "num_hidden_layers": -1, "vocab_size": 0, "head_dim": 1.5,
            "intermediate_size": 4294967296u64, "tie_word_embeddings": 1, "num_key_value_heads": null});
        let found = messages(Component::LanguageModel, config);
        assert_eq!(found.len(), 7);
        assert_eq!(
            found[0],
            "language_model: config.json has vocab_size 0, expected a whole number from 1 to 4294967295"
        );
        let ratios = messages(Component::Vocoder, json!({"upsampling_ratios": [8, 0]}));
        assert_eq!(
            ratios,
            ["vocoder: config.json has upsampling_ratios [8,0], expected a list of whole numbers from 1 to 4294967295"]
        );
    }

    #[test]
    fn tells_classes_apart() {
        assert_eq!(component_of(&json!({"architectures": ["Qwen3ForCausalLM"]})), Some(Component::LanguageModel));
        assert_eq!(component_of(&json!({"_class_name": "MiniMaxMusic3Vocoder"})), Some(Component::Vocoder));
        let problem =
            wrong_class(Component::Transformer, Layout::Diffusers, &json!({"_class_name": "MiniMaxMusic3Vocoder"}));
        assert_eq!(
            problem.map(|problem| problem.to_string()).as_deref(),
            Some(
                "transformer: config.json has _class_name \"MiniMaxMusic3Vocoder\", \
                 expected \"MiniMaxMusic3Transformer1DModel\""
            )
        );
        let nothing = wrong_class(Component::LanguageModel, Layout::Diffusers, &json!([]));
        assert_eq!(
            nothing.map(|problem| problem.to_string()).as_deref(),
            Some("language_model: config.json has architectures nothing, expected \"Qwen3ForCausalLM\"")
        );
    }
}

//! The mapping files: which stored tensors make which parameter. Their format is explained in `weights-mapping/README.md`.

mod parse;
mod pattern;

use std::sync::LazyLock;

use serde_json::Value;

use self::parse::{Draft, MappingError};
pub(crate) use self::pattern::Pattern;
use crate::{
    component::Component,
    expression::{Expression, WordValue},
    layout::Layout,
};

/// What makes a parameter from the stored tensors of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The stored tensor itself.
    Identity,
    /// `g · v / ‖v‖` from `NAME_g` and `NAME_v`, the norm over all dimensions but the first.
    FoldWeightNorm,
    /// One of several equal parts that lie one below the other in the stored tensor.
    Split {
        /// Which part, from 0.
        part: usize,
        /// How many there are.
        parts: usize,
    },
}

impl Operation {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "identity" => Some(Self::Identity),
            "fold_weight_norm" => Some(Self::FoldWeightNorm),
            _ => {
                let (number, parts) = name.strip_prefix("split ")?.split_once(" of ")?;
                let (number, parts): (usize, usize) = (number.parse().ok()?, parts.parse().ok()?);
                (1..=parts).contains(&number).then(|| Self::Split { part: number - 1, parts })
            }
        }
    }
}

/// One mapping file.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// The config key that names upstream's class, and its value.
    pub(crate) class: Requirement,
    /// Where the native layout keeps the component's tensors.
    pub(crate) file: Option<String>,
    /// Which names of a file that several components share are this one's.
    pub(crate) names: Names,
    /// The config keys that shapes and counts use, with upstream's defaults.
    pub(crate) words: Vec<(String, WordValue)>,
    pub(crate) derived: Vec<(String, Expression)>,
    pub(crate) requires: Vec<Requirement>,
    /// Pairs of keys that hold one value.
    pub(crate) agree: Vec<(String, String)>,
    /// How the native layout's config becomes that of upstream's class.
    pub(crate) config: Vec<Renamed>,
    /// What else upstream's config holds.
    pub(crate) constants: Vec<Requirement>,
    pub(crate) sections: Vec<Section>,
}

/// A value that a config key must have where it is present.
#[derive(Debug)]
pub(crate) struct Requirement {
    pub(crate) key: String,
    pub(crate) value: Value,
}

/// A config value under another key.
#[derive(Debug)]
pub(crate) struct Renamed {
    pub(crate) key: String,
    /// The keys it may have in the file, the first one that is there counts.
    pub(crate) found_as: Vec<String>,
    /// Its value where the file has none of them.
    pub(crate) default: Option<Value>,
}

/// Patterns of names; `*` at the end stands for anything.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) taken: Vec<String>,
    pub(crate) not_taken: Vec<String>,
}

impl Names {
    /// Whether a name is the component's: it fits one of the patterns, if there are any, and none of the excluded.
    pub(crate) fn take(&self, name: &str) -> bool {
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        };
        (self.taken.is_empty() || self.taken.iter().any(fits)) && !self.not_taken.iter().any(fits)
    }
}

#[derive(Debug)]
pub(crate) struct Section {
    /// How often the rows repeat, with `{i}` counting from 0.
    pub(crate) count: Option<Expression>,
    pub(crate) condition: Option<Condition>,
    pub(crate) content: Content,
}

/// The section stands only when the flag `word` has this value.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) word: String,
    pub(crate) value: bool,
}

#[derive(Debug)]
pub(crate) enum Content {
    Tensors(Vec<Row>),
    /// Names that a checkpoint may hold and that nothing reads.
    Ignored(Vec<String>),
}

#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Path of the parameter in our module, with `{i}` for the index.
    pub(crate) ours: Pattern,
    /// Name in the checkpoint, without the `_g` and `_v` of weight norm.
    pub(crate) upstream: Pattern,
    pub(crate) operation: Operation,
    pub(crate) shape: Vec<Expression>,
}

impl Mapping {
    /// The mapping of a component in a layout.
    pub(crate) fn of(component: Component, layout: Layout) -> &'static Self {
        macro_rules! embedded {
            ($file:literal) => {{
                static MAPPINGS: [LazyLock<Mapping>; 2] = [
                    LazyLock::new(|| {
                        Mapping::parse(include_str!(concat!("../../../weights-mapping/diffusers/", $file)))
                            .expect("the embedded mapping files follow their format, which a test checks")
                    }),
                    LazyLock::new(|| {
                        Mapping::parse(include_str!(concat!("../../../weights-mapping/native/", $file)))
                            .expect("the embedded mapping files follow their format, which a test checks")
                    }),
                ];
                &MAPPINGS[layout as usize]
            }};
        }
        match component {
            Component::LanguageModel => embedded!("language_model.txt"),
            Component::RvqDepthDecoder => embedded!("rvq_depth_decoder.txt"),
            Component::ConditionEncoder => embedded!("condition_encoder.txt"),
            Component::Transformer => embedded!("transformer.txt"),
            Component::Vocoder => embedded!("vocoder.txt"),
        }
    }

    /// Every row of every section, conditions aside.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.sections.iter().flat_map(|section| match &section.content {
            Content::Tensors(rows) => rows.as_slice(),
            Content::Ignored(_) => &[],
        })
    }

    fn parse(text: &str) -> Result<Self, MappingError> {
        let mut draft = Draft::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let read = match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                Some(header) => draft.open_section(header),
                None => draft.read_line(line),
            };
            read.map_err(|reason| MappingError::at(number + 1, reason))?;
        }
        draft.finish().map_err(|reason| MappingError::at(text.lines().count(), reason))
    }
}

impl WordValue {
    /// The word's value, or nothing when the JSON is neither a whole number, a list of them, nor a flag.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(flag) => Some(Self::Flag(*flag)),
            Value::Array(entries) => entries.iter().map(Value::as_u64).collect::<Option<_>>().map(Self::Numbers),
            _ => value.as_u64().map(Self::Number),
        }
    }

    /// What a config may hold in place of this default, in words.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Number(_) => "a whole number from 1 to 4294967295",
            Self::Numbers(_) => "a list of whole numbers from 1 to 4294967295",
            Self::Flag(_) => "true or false",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_files_follow_the_format() {
        for layout in Layout::ALL {
            let rows = Component::ALL.map(|component| Mapping::of(component, layout).rows().count());
            assert_eq!(rows, [15, 14, 4, 21, 28], "{layout}");
        }
    }

    #[test]
    fn no_two_rows_make_the_same_parameter_under_the_same_condition() {
        for (component, layout) in Component::ALL.into_iter().flat_map(|one| Layout::ALL.map(|layout| (one, layout))) {
            let mut seen = std::collections::BTreeSet::new();
            for section in &Mapping::of(component, layout).sections {
                let Content::Tensors(rows) = &section.content else { continue };
                let condition = section.condition.as_ref().map(|condition| condition.value);
                for row in rows {
                    assert!(seen.insert((row.ours.text(), condition)), "{component}: {}", row.ours.text());
                }
            }
        }
    }

    #[test]
    fn both_layouts_make_the_same_parameters_from_the_same_words() {
        for component in Component::ALL {
            let [diffusers, native] = Layout::ALL.map(|layout| Mapping::of(component, layout));
            assert_eq!(diffusers.words, native.words, "{component}");
            let derived = |mapping: &Mapping| {
                let derived = mapping.derived.iter();
                derived.map(|(word, expression)| (word.clone(), expression.text().to_owned())).collect::<Vec<_>>()
            };
            assert_eq!(derived(diffusers), derived(native), "{component}");
            let rows = |mapping: &'static Mapping| {
                let rows = mapping.rows().map(|row| {
                    let shape: Vec<&str> = row.shape.iter().map(Expression::text).collect();
                    (row.ours.text(), row.operation == Operation::FoldWeightNorm, shape)
                });
                rows.collect::<Vec<_>>()
            };
            assert_eq!(rows(diffusers), rows(native), "{component}");
            assert!(diffusers.file.is_none() && native.file.is_some(), "{component}");
        }
    }

    #[test]
    fn every_name_of_a_shared_file_is_at_most_one_components() {
        let takers = |name: &str| {
            let native =
                Component::ALL.into_iter().map(|component| (component, Mapping::of(component, Layout::Native)));
            let taken = native.filter(|(_, mapping)| mapping.names.take(name));
            taken
                .map(|(component, mapping)| (component, mapping.file.as_deref().unwrap_or_default()))
                .collect::<Vec<_>>()
        };
        let names = [
            "model.norm.weight",
            "model.audio_decoder.norm.weight",
            "model.audio_extra_embedding.weight",
            "model.audio_decoders",
            "diffusion_transformer.preprocess_conv.weight",
            "cond_layer_scale",
            "decoder.model.0.bias",
            "dec_in_proj.bias",
            "encoder.model.0.bias",
            "",
        ];
        for name in names {
            let mut files: Vec<&str> = takers(name).into_iter().map(|(_, file)| file).collect();
            let all = files.len();
            files.dedup();
            assert_eq!(files.len(), all, "{name}");
        }
        assert!(takers("encoder.model.0.bias").iter().all(|(component, _)| *component != Component::Vocoder));
        assert!(takers("decoder.model.0.bias").iter().any(|(component, _)| *component == Component::Vocoder));
    }

    #[test]
    fn refuses_a_malformed_file_and_names_the_line() {
        let class = "[class]\na = \"B\"\n";
        for (text, message) in [
            ("x = 1", "line 1: a line outside any section"),
            ("[tensor]", "line 1: unknown section header"),
            ("[tensors whenever]", "line 1: unknown section header"),
            ("[words]\nx : 1", "line 2: expected `key = value`"),
            ("[words]\nx = \"a\"", "line 2: expected `key = value`"),
            ("[tensors]\na | = | identity", "line 2: expected `ours | upstream | operation | [shape]`"),
            ("[tensors]\na | = | transpose | [1]", "line 2: unknown operation `transpose`"),
            ("[tensors]\na | = | identity | [1 +]", "line 2: `1 +` is not an expression"),
            ("[tensors]\na | = | split 0 of 3 | [1]", "line 2: unknown operation `split 0 of 3`"),
            ("[tensors]\na | = | split 4 of 3 | [1]", "line 2: unknown operation `split 4 of 3`"),
            ("[tensors]\na.{i+} | = | identity | [1]", "line 2: `i+` is not an expression"),
            ("[tensors]\na.{i | = | identity | [1]", "line 2: expected `ours | upstream | operation | [shape]`"),
            ("[constants]\nx = y", "line 2: expected `key = value`"),
            ("[config]\nx = y else z", "line 2: expected `key = value`"),
            ("[tensors]", "line 1: not one `[class]` line"),
        ] {
            let error = Mapping::parse(text).expect_err(text).to_string();
            assert_eq!(error, format!("mapping file, {message}"));
        }
        assert!(Mapping::parse(class).is_ok());
        assert!(Mapping::parse(&format!("{class}c = 1")).is_err());
    }
}

//! The mapping files: which stored tensors make which parameter. Their format is explained in `weights-mapping/README.md`.

use std::sync::LazyLock;

use serde_json::Value;

use crate::{
    component::Component,
    expression::{Expression, ExpressionError, WordValue},
};

/// What makes a parameter from the stored tensors of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The stored tensor itself.
    Identity,
    /// `g · v / ‖v‖` from `NAME_g` and `NAME_v`, the norm over all dimensions but the first.
    FoldWeightNorm,
}

impl Operation {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "identity" => Some(Self::Identity),
            "fold_weight_norm" => Some(Self::FoldWeightNorm),
            _ => None,
        }
    }
}

/// One mapping file.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// The config key that names upstream's class, and its value.
    pub(crate) class: Requirement,
    /// The config keys that shapes and counts use, with upstream's defaults.
    pub(crate) words: Vec<(String, WordValue)>,
    pub(crate) derived: Vec<(String, Expression)>,
    pub(crate) requires: Vec<Requirement>,
    /// Pairs of keys that hold one value.
    pub(crate) agree: Vec<(String, String)>,
    pub(crate) sections: Vec<Section>,
}

/// A value that a config key must have where it is present.
#[derive(Debug)]
pub(crate) struct Requirement {
    pub(crate) key: String,
    pub(crate) value: Value,
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
    pub(crate) ours: String,
    /// Name in the checkpoint, without the `_g` and `_v` of weight norm.
    pub(crate) upstream: String,
    pub(crate) operation: Operation,
    pub(crate) shape: Vec<Expression>,
}

/// A mapping file that does not follow the format.
#[derive(Debug, thiserror::Error)]
#[error("mapping file, line {line}: {reason}")]
pub(crate) struct MappingError {
    line: usize,
    reason: Reason,
}

#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error("unknown section header")]
    Header,
    #[error("expected `key = value`")]
    Assignment,
    #[error("expected `ours | upstream | operation | [shape]`")]
    Row,
    #[error("unknown operation `{0}`")]
    Operation(String),
    #[error("a line outside any section")]
    NoSection,
    #[error("not one `[class]` line")]
    Class,
    #[error(transparent)]
    Expression(#[from] ExpressionError),
}

impl Mapping {
    /// The mapping of a component in the diffusers layout.
    pub(crate) fn of(component: Component) -> &'static Self {
        macro_rules! embedded {
            ($file:literal) => {{
                static MAPPING: LazyLock<Mapping> = LazyLock::new(|| {
                    Mapping::parse(include_str!(concat!("../../../weights-mapping/diffusers/", $file)))
                        .expect("the embedded mapping files follow their format, which a test checks")
                });
                &MAPPING
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
            read.map_err(|reason| MappingError { line: number + 1, reason })?;
        }
        draft.finish().map_err(|reason| MappingError { line: text.lines().count(), reason })
    }
}

/// The section that the next line belongs to.
#[derive(Default)]
enum Current {
    #[default]
    None,
    Class,
    Words,
    Derived,
    Requires,
    Agree,
    Content,
}

#[derive(Default)]
struct Draft {
    current: Current,
    class: Vec<Requirement>,
    words: Vec<(String, WordValue)>,
    derived: Vec<(String, Expression)>,
    requires: Vec<Requirement>,
    agree: Vec<(String, String)>,
    sections: Vec<Section>,
}

impl Draft {
    fn open_section(&mut self, header: &str) -> Result<(), Reason> {
        self.current = match header {
            "class" => Current::Class,
            "words" => Current::Words,
            "derived" => Current::Derived,
            "requires" => Current::Requires,
            "agree" => Current::Agree,
            _ => {
                self.sections.push(content_section(header)?);
                Current::Content
            }
        };
        Ok(())
    }

    fn read_line(&mut self, line: &str) -> Result<(), Reason> {
        match self.current {
            Current::None => return Err(Reason::NoSection),
            Current::Class => self.class.push(requirement(line)?),
            Current::Requires => self.requires.push(requirement(line)?),
            Current::Agree => {
                let (left, right) = assignment(line)?;
                self.agree.push((left.to_owned(), right.to_owned()));
            }
            Current::Words => {
                let Requirement { key, value } = requirement(line)?;
                self.words.push((key, WordValue::from_json(&value).ok_or(Reason::Assignment)?));
            }
            Current::Derived => {
                let (word, text) = assignment(line)?;
                self.derived.push((word.to_owned(), Expression::parse(text)?));
            }
            Current::Content => match self.sections.last_mut().map(|section| &mut section.content) {
                Some(Content::Tensors(rows)) => rows.push(row(line)?),
                Some(Content::Ignored(names)) => names.push(line.to_owned()),
                None => return Err(Reason::NoSection),
            },
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Mapping, Reason> {
        match (self.class.pop(), self.class.is_empty()) {
            (Some(class), true) => Ok(Mapping {
                class,
                words: self.words,
                derived: self.derived,
                requires: self.requires,
                agree: self.agree,
                sections: self.sections,
            }),
            _ => Err(Reason::Class),
        }
    }
}

/// Reads `tensors` or `ignored`, then `for i in EXPRESSION`, `if WORD` or `unless WORD`.
fn content_section(header: &str) -> Result<Section, Reason> {
    let (kind, clause) = header.split_once(' ').unwrap_or((header, ""));
    let content = match kind {
        "tensors" => Content::Tensors(Vec::new()),
        "ignored" => Content::Ignored(Vec::new()),
        _ => return Err(Reason::Header),
    };
    let mut section = Section { count: None, condition: None, content };
    if let Some(count) = clause.strip_prefix("for i in ") {
        section.count = Some(Expression::parse(count)?);
    } else if let Some(word) = clause.strip_prefix("if ") {
        section.condition = Some(Condition { word: word.to_owned(), value: true });
    } else if let Some(word) = clause.strip_prefix("unless ") {
        section.condition = Some(Condition { word: word.to_owned(), value: false });
    } else if !clause.is_empty() {
        return Err(Reason::Header);
    }
    Ok(section)
}

fn assignment(line: &str) -> Result<(&str, &str), Reason> {
    let (key, value) = line.split_once('=').ok_or(Reason::Assignment)?;
    Ok((key.trim(), value.trim()))
}

fn requirement(line: &str) -> Result<Requirement, Reason> {
    let (key, value) = assignment(line)?;
    let value = serde_json::from_str(value).map_err(|_| Reason::Assignment)?;
    Ok(Requirement { key: key.to_owned(), value })
}

fn row(line: &str) -> Result<Row, Reason> {
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let [ours, upstream, operation, shape] = columns[..] else {
        return Err(Reason::Row);
    };
    let shape = shape.strip_prefix('[').and_then(|shape| shape.strip_suffix(']')).ok_or(Reason::Row)?;
    let shape: Result<_, ExpressionError> = shape.split(',').map(Expression::parse).collect();
    Ok(Row {
        ours: ours.to_owned(),
        upstream: if upstream == "=" { ours } else { upstream }.to_owned(),
        operation: Operation::parse(operation).ok_or_else(|| Reason::Operation(operation.to_owned()))?,
        shape: shape?,
    })
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
        let rows = Component::ALL.map(|component| Mapping::of(component).rows().count());
        assert_eq!(rows, [15, 14, 4, 21, 28]);
    }

    #[test]
    fn no_two_rows_make_the_same_parameter_under_the_same_condition() {
        for component in Component::ALL {
            let mut seen = std::collections::BTreeSet::new();
            for section in &Mapping::of(component).sections {
                let Content::Tensors(rows) = &section.content else { continue };
                let condition = section.condition.as_ref().map(|condition| condition.value);
                for row in rows {
                    assert!(seen.insert((row.ours.clone(), condition)), "{component}: {}", row.ours);
                }
            }
        }
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
            ("[tensors]", "line 1: not one `[class]` line"),
        ] {
            let error = Mapping::parse(text).expect_err(text).to_string();
            assert_eq!(error, format!("mapping file, {message}"));
        }
        assert!(Mapping::parse(class).is_ok());
        assert!(Mapping::parse(&format!("{class}c = 1")).is_err());
    }
}

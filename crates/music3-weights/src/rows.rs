//! The rows of a mapping with a config's numbers filled in.

use std::collections::BTreeSet;

use crate::{
    component::Component,
    config::Words,
    expression::{Expression, ExpressionError},
    layout::Layout,
    mapping::{Content, Mapping, Operation, Row, Section},
    problem::Problem,
};

/// The largest repetition of a section; the longest real one is 36 layers.
const MOST_REPEATS: u64 = 4096;

/// One parameter, what it is made from, and the shapes that all of it must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) path: String,
    pub(crate) upstream: String,
    pub(crate) operation: Operation,
    pub(crate) shape: Vec<usize>,
    /// The shape in config words, one entry per dimension; empty where it comes from a module.
    pub(crate) words: Vec<String>,
}

/// A stored tensor that a row reads.
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) words: Vec<String>,
}

impl Wanted {
    /// The stored tensors in the order the operation takes them.
    pub(crate) fn stored(&self) -> Vec<Stored> {
        let Self { upstream, shape, words, .. } = self;
        let whole = |name: String| Stored { name, shape: shape.clone(), words: words.clone() };
        match self.operation {
            Operation::Identity => vec![whole(upstream.clone())],
            Operation::FoldWeightNorm => {
                let mut g = whole(format!("{upstream}_g"));
                g.shape.iter_mut().skip(1).for_each(|dim| *dim = 1);
                g.words.iter_mut().skip(1).for_each(|word| *word = "1".to_owned());
                vec![g, whole(format!("{upstream}_v"))]
            }
            Operation::Split { parts, .. } => {
                let mut all = whole(upstream.clone());
                all.shape.iter_mut().take(1).for_each(|dim| *dim = dim.saturating_mul(parts));
                all.words.iter_mut().take(1).for_each(|word| *word = format!("{parts} * {word}"));
                vec![all]
            }
        }
    }
}

/// What a config asks for.
pub(crate) struct Expanded {
    pub(crate) wanted: Vec<Wanted>,
    /// Names that may be stored and that nothing reads.
    pub(crate) ignored: BTreeSet<String>,
}

/// Fills in every section that stands under this config.
pub(crate) fn expand(component: Component, words: &Words) -> Result<Expanded, Vec<Problem>> {
    let mut expanded = Expanded { wanted: Vec::new(), ignored: BTreeSet::new() };
    let mut problems = Vec::new();
    for section in words.mapping().sections.iter().filter(|section| stands(section, words)) {
        match &section.content {
            Content::Ignored(names) => expanded.ignored.extend(names.iter().cloned()),
            Content::Tensors(rows) => match indices(section, words) {
                Ok(indices) => {
                    for (index, row) in indices.into_iter().flat_map(|index| rows.iter().map(move |row| (index, row))) {
                        match fill(row, words, index) {
                            Ok(wanted) => expanded.wanted.push(wanted),
                            Err(error) => problems.push(no_shape(component, row, &error)),
                        }
                    }
                }
                Err(error) => problems.extend(rows.first().map(|row| no_shape(component, row, &error))),
            },
        }
    }
    match problems.is_empty() {
        true => Ok(expanded),
        false => Err(problems),
    }
}

fn stands(section: &Section, words: &Words) -> bool {
    section.condition.as_ref().is_none_or(|condition| words.flag(&condition.word) == condition.value)
}

fn no_shape(component: Component, row: &Row, error: &ExpressionError) -> Problem {
    Problem::NoShape { component, name: row.ours.text().to_owned(), reason: error.to_string() }
}

/// The values of `{i}`; one without a value for a section that does not repeat.
fn indices(section: &Section, words: &Words) -> Result<Vec<Option<u64>>, ExpressionError> {
    let Some(count) = &section.count else {
        return Ok(vec![None]);
    };
    match count.evaluate(&words.scope(None))? {
        found @ 0..=MOST_REPEATS => Ok((0..found).map(Some).collect()),
        _ => Err(ExpressionError::Range(count.text().to_owned())),
    }
}

fn fill(row: &Row, words: &Words, index: Option<u64>) -> Result<Wanted, ExpressionError> {
    let scope = words.scope(index);
    let dim = |expression: &Expression| {
        let value = expression.evaluate(&scope)?;
        match usize::try_from(value) {
            Ok(dim) if dim > 0 => Ok(dim),
            _ => Err(ExpressionError::Range(expression.text().to_owned())),
        }
    };
    Ok(Wanted {
        path: row.ours.fill(&scope)?,
        upstream: row.upstream.fill(&scope)?,
        operation: row.operation,
        shape: row.shape.iter().map(dim).collect::<Result<_, _>>()?,
        words: row.shape.iter().map(|dim| dim.text().to_owned()).collect(),
    })
}

/// The row for the parameter `path` of a module that is `part` of the component, such as `transformer_blocks.{i}`.
pub(crate) fn part_row(component: Component, part: &str, path: &str, shape: &[usize]) -> Option<Wanted> {
    let prefix = if part.is_empty() { String::new() } else { format!("{part}.") };
    let mut rows = Mapping::of(component, Layout::Diffusers).rows();
    let row = rows.find(|row| row.ours.text().strip_prefix(&prefix) == Some(path))?;
    Some(Wanted {
        path: path.to_owned(),
        upstream: row.upstream.text().strip_prefix(&prefix)?.to_owned(),
        operation: row.operation,
        shape: shape.to_vec(),
        words: Vec::new(),
    })
}

//! The text of a mapping file, line by line.

use super::{Condition, Content, Mapping, Names, Operation, Pattern, Renamed, Requirement, Row, Section};
use crate::expression::{Expression, ExpressionError, WordValue};

/// A mapping file that does not follow the format.
#[derive(Debug, thiserror::Error)]
#[error("mapping file, line {line}: {reason}")]
pub(crate) struct MappingError {
    line: usize,
    reason: Reason,
}

impl MappingError {
    pub(super) fn at(line: usize, reason: Reason) -> Self {
        Self { line, reason }
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Reason {
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
    File,
    Names,
    Config,
    Constants,
    Content,
}

#[derive(Default)]
pub(super) struct Draft {
    current: Current,
    class: Vec<Requirement>,
    words: Vec<(String, WordValue)>,
    derived: Vec<(String, Expression)>,
    requires: Vec<Requirement>,
    agree: Vec<(String, String)>,
    file: Option<String>,
    names: Names,
    config: Vec<Renamed>,
    constants: Vec<Requirement>,
    sections: Vec<Section>,
}

impl Draft {
    pub(super) fn open_section(&mut self, header: &str) -> Result<(), Reason> {
        self.current = match header {
            "class" => Current::Class,
            "words" => Current::Words,
            "derived" => Current::Derived,
            "requires" => Current::Requires,
            "agree" => Current::Agree,
            "file" => Current::File,
            "names" => Current::Names,
            "config" => Current::Config,
            "constants" => Current::Constants,
            _ => {
                self.sections.push(content_section(header)?);
                Current::Content
            }
        };
        Ok(())
    }

    pub(super) fn read_line(&mut self, line: &str) -> Result<(), Reason> {
        match self.current {
            Current::None => return Err(Reason::NoSection),
            Current::Class => self.class.push(requirement(line)?),
            Current::Requires => self.requires.push(requirement(line)?),
            Current::Constants => self.constants.push(requirement(line)?),
            Current::Config => self.config.push(renamed(line)?),
            Current::File => self.file = Some(line.to_owned()),
            Current::Names => match line.strip_prefix("not ") {
                Some(pattern) => self.names.not_taken.push(pattern.to_owned()),
                None => self.names.taken.push(line.to_owned()),
            },
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

    pub(super) fn finish(mut self) -> Result<Mapping, Reason> {
        match (self.class.pop(), self.class.is_empty()) {
            (Some(class), true) => Ok(Mapping {
                class,
                file: self.file,
                names: self.names,
                words: self.words,
                derived: self.derived,
                requires: self.requires,
                agree: self.agree,
                config: self.config,
                constants: self.constants,
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

/// Reads `key = found_as`, or `key = found_as or found_as else default`.
fn renamed(line: &str) -> Result<Renamed, Reason> {
    let (key, origin) = assignment(line)?;
    let (keys, default) = match origin.split_once(" else ") {
        Some((keys, default)) => (keys, Some(serde_json::from_str(default).map_err(|_| Reason::Assignment)?)),
        None => (origin, None),
    };
    let found_as = keys.split(" or ").map(|key| key.trim().to_owned()).collect();
    Ok(Renamed { key: key.to_owned(), found_as, default })
}

fn row(line: &str) -> Result<Row, Reason> {
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let [ours, upstream, operation, shape] = columns[..] else {
        return Err(Reason::Row);
    };
    let shape = shape.strip_prefix('[').and_then(|shape| shape.strip_suffix(']')).ok_or(Reason::Row)?;
    let shape: Result<_, ExpressionError> = shape.split(',').map(Expression::parse).collect();
    Ok(Row {
        ours: Pattern::parse(ours)?,
        upstream: Pattern::parse(if upstream == "=" { ours } else { upstream })?,
        operation: Operation::parse(operation).ok_or_else(|| Reason::Operation(operation.to_owned()))?,
        shape: shape?,
    })
}

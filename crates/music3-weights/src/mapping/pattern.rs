//! Names with expressions in braces.

use super::parse::Reason;
use crate::expression::{Expression, ExpressionError, Scope};

/// A name such as `blocks.{i}.bias`: the braces hold expressions.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    text: String,
    /// What stands before each expression, and the expression.
    parts: Vec<(String, Expression)>,
    rest: String,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, Reason> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, opened)) = rest.split_once('{') {
            let (inside, after) = opened.split_once('}').ok_or(Reason::Row)?;
            parts.push((before.to_owned(), Expression::parse(inside)?));
            rest = after;
        }
        Ok(Self { text: text.to_owned(), parts, rest: rest.to_owned() })
    }

    /// The pattern as the mapping file writes it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The name under a config.
    pub(crate) fn fill(&self, scope: &Scope<'_>) -> Result<String, ExpressionError> {
        let mut name = String::new();
        for (before, expression) in &self.parts {
            name.push_str(before);
            name.push_str(&expression.evaluate(scope)?.to_string());
        }
        Ok(name + &self.rest)
    }
}

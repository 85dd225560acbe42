//! Whole-number expressions over config words, as the mapping files write shapes and counts.

use std::{collections::BTreeMap, iter::Peekable, str::CharIndices};

/// The value of a config word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WordValue {
    Number(u64),
    Numbers(Vec<u64>),
    Flag(bool),
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpressionError {
    #[error("`{0}` is not an expression")]
    Syntax(String),
    #[error("the word `{0}` is not defined")]
    UnknownWord(String),
    #[error("the word `{0}` has another type than its use needs")]
    WrongType(String),
    #[error("`{word}` has {length} entries, entry {index} is needed")]
    NoEntry { word: String, index: u64, length: usize },
    #[error("`{0}` is too large, negative, or a division by zero")]
    Range(String),
}

/// An expression: `+ - * / ^`, brackets, numbers, words, `word[expression]` and `len(word)`. `/` rounds down.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    text: String,
    root: Node,
}

#[derive(Debug, Clone)]
enum Node {
    Number(u64),
    Word(String),
    Entry(String, Box<Node>),
    Length(String),
    Binary(char, Box<Node>, Box<Node>),
}

/// The words an expression may use: the config's, those derived from them, and `i` inside a repeated section.
pub(crate) struct Scope<'a> {
    pub(crate) words: &'a BTreeMap<String, WordValue>,
    pub(crate) derived: &'a [(String, Expression)],
    pub(crate) index: Option<u64>,
}

impl Expression {
    pub(crate) fn parse(text: &str) -> Result<Self, ExpressionError> {
        let mut parser = Parser { chars: text.char_indices().peekable(), text };
        let root = parser.sum()?;
        if parser.peek().is_some() {
            return Err(parser.syntax());
        }
        Ok(Self { text: text.trim().to_owned(), root })
    }

    /// The expression as the mapping file writes it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn evaluate(&self, scope: &Scope<'_>) -> Result<u64, ExpressionError> {
        self.root.evaluate(scope, scope.derived.len(), &self.text)
    }
}

impl Node {
    /// `visible` is how many derived words may be used: each sees only those above it, so none can depend on itself.
    fn evaluate(&self, scope: &Scope<'_>, visible: usize, text: &str) -> Result<u64, ExpressionError> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Word(word) => scope.number(word, visible),
            Self::Length(word) => Ok(scope.numbers(word)?.len() as u64),
            Self::Entry(word, index) => {
                let (index, numbers) = (index.evaluate(scope, visible, text)?, scope.numbers(word)?);
                let entry = usize::try_from(index).ok().and_then(|index| numbers.get(index));
                entry.copied().ok_or_else(|| ExpressionError::NoEntry {
                    word: word.clone(),
                    index,
                    length: numbers.len(),
                })
            }
            Self::Binary(operator, left, right) => {
                let left = left.evaluate(scope, visible, text)?;
                let right = right.evaluate(scope, visible, text)?;
                let value = match operator {
                    '+' => left.checked_add(right),
                    '-' => left.checked_sub(right),
                    '*' => left.checked_mul(right),
                    '/' => left.checked_div(right),
                    _ => u32::try_from(right).ok().and_then(|right| left.checked_pow(right)),
                };
                value.ok_or_else(|| ExpressionError::Range(text.to_owned()))
            }
        }
    }
}

impl Scope<'_> {
    fn number(&self, word: &str, visible: usize) -> Result<u64, ExpressionError> {
        if let ("i", Some(index)) = (word, self.index) {
            return Ok(index);
        }
        let derived = self.derived.iter().take(visible).position(|(name, _)| name == word);
        if let Some(position) = derived {
            let expression = &self.derived[position].1;
            return expression.root.evaluate(self, position, &expression.text);
        }
        match self.words.get(word) {
            Some(WordValue::Number(number)) => Ok(*number),
            Some(_) => Err(ExpressionError::WrongType(word.to_owned())),
            None => Err(ExpressionError::UnknownWord(word.to_owned())),
        }
    }

    fn numbers(&self, word: &str) -> Result<&[u64], ExpressionError> {
        match self.words.get(word) {
            Some(WordValue::Numbers(numbers)) => Ok(numbers),
            Some(_) => Err(ExpressionError::WrongType(word.to_owned())),
            None => Err(ExpressionError::UnknownWord(word.to_owned())),
        }
    }
}

/// Recursive descent; the texts it reads are the embedded mapping files, so its depth is theirs.
struct Parser<'a> {
    chars: Peekable<CharIndices<'a>>,
    text: &'a str,
}

impl Parser<'_> {
    fn syntax(&self) -> ExpressionError {
        ExpressionError::Syntax(self.text.trim().to_owned())
    }

    fn peek(&mut self) -> Option<char> {
        while self.chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
        self.chars.peek().map(|(_, c)| *c)
    }

    fn take(&mut self, wanted: char) -> Result<(), ExpressionError> {
        match self.peek() == Some(wanted) {
            true => {
                self.chars.next();
                Ok(())
            }
            false => Err(self.syntax()),
        }
    }

    fn sum(&mut self) -> Result<Node, ExpressionError> {
        let mut left = self.product()?;
        while let Some(operator @ ('+' | '-')) = self.peek() {
            self.chars.next();
            left = Node::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Node, ExpressionError> {
        let mut left = self.power()?;
        while let Some(operator @ ('*' | '/')) = self.peek() {
            self.chars.next();
            left = Node::Binary(operator, Box::new(left), Box::new(self.power()?));
        }
        Ok(left)
    }

    fn power(&mut self) -> Result<Node, ExpressionError> {
        let base = self.atom()?;
        if self.peek() != Some('^') {
            return Ok(base);
        }
        self.chars.next();
        Ok(Node::Binary('^', Box::new(base), Box::new(self.power()?)))
    }

    fn atom(&mut self) -> Result<Node, ExpressionError> {
        match self.peek() {
            Some('(') => {
                self.take('(')?;
                let inner = self.sum()?;
                self.take(')')?;
                Ok(inner)
            }
            Some(c) if c.is_ascii_digit() => {
                self.run(|c| c.is_ascii_digit()).parse().map(Node::Number).map_err(|_| self.syntax())
            }
            Some(c) if c.is_ascii_alphabetic() => {
                let word = self.run(|c| c.is_ascii_alphanumeric() || c == '_');
                self.after_word(word)
            }
            _ => Err(self.syntax()),
        }
    }

    fn after_word(&mut self, word: String) -> Result<Node, ExpressionError> {
        match (word.as_str(), self.peek()) {
            ("len", Some('(')) => {
                self.take('(')?;
                self.peek();
                let list = self.run(|c| c.is_ascii_alphanumeric() || c == '_');
                self.take(')')?;
                Ok(Node::Length(list))
            }
            (_, Some('[')) => {
                self.take('[')?;
                let index = self.sum()?;
                self.take(']')?;
                Ok(Node::Entry(word, Box::new(index)))
            }
            _ => Ok(Node::Word(word)),
        }
    }

    fn run(&mut self, keep: impl Fn(char) -> bool) -> String {
        let mut run = String::new();
        while let Some((_, c)) = self.chars.next_if(|(_, c)| keep(*c)) {
            run.push(c);
        }
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<u64, ExpressionError> {
        let words = BTreeMap::from([
            ("hidden".to_owned(), WordValue::Number(1536)),
            ("ratios".to_owned(), WordValue::Numbers(vec![8, 8, 4, 2])),
            ("tied".to_owned(), WordValue::Flag(false)),
        ]);
        let derived = [
            ("out_dim".to_owned(), Expression::parse("hidden / 2 ^ (i + 1)").expect("it parses")),
            ("twice".to_owned(), Expression::parse("2 * out_dim").expect("it parses")),
            ("circle".to_owned(), Expression::parse("circle + 1").expect("it parses")),
        ];
        Expression::parse(text)?.evaluate(&Scope { words: &words, derived: &derived, index: Some(2) })
    }

    #[test]
    fn follows_precedence_and_rounds_division_down() {
        assert_eq!(value("2 + 3 * 2 ^ 2 ^ 1"), Ok(14));
        assert_eq!(value("10 - 4 - 3"), Ok(3));
        assert_eq!(value("7 / 2 * (hidden - 1)"), Ok(3 * 1535));
        assert_eq!(value("2*ratios[i] + len( ratios )"), Ok(12));
        assert_eq!(value("twice"), Ok(384));
    }

    #[test]
    fn refuses_what_has_no_value() {
        for text in ["3 - 4", "1 / 0", "2 ^ 64", "18446744073709551615 + 1", "2 ^ 2 ^ 40"] {
            assert_eq!(value(text), Err(ExpressionError::Range(text.to_owned())), "{text}");
        }
        for text in ["", "2 +", "(2", "2 2", "ratios[1", "len()2", "-1", "99999999999999999999"] {
            assert!(matches!(value(text), Err(ExpressionError::Syntax(_))), "{text}");
        }
        assert_eq!(value("missing"), Err(ExpressionError::UnknownWord("missing".to_owned())));
        assert_eq!(value("circle"), Err(ExpressionError::UnknownWord("circle".to_owned())));
        assert_eq!(value("ratios + 1"), Err(ExpressionError::WrongType("ratios".to_owned())));
        assert_eq!(value("tied"), Err(ExpressionError::WrongType("tied".to_owned())));
        assert!(matches!(value("ratios[4]"), Err(ExpressionError::NoEntry { index: 4, length: 4, .. })));
    }
}

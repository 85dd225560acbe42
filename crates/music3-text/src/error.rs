//! What can be wrong with the texts of a song or with a tokenizer file.

use std::path::PathBuf;

use crate::control::{TextPart, TextPlace};

/// Why a prompt could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// A text holds nothing but white space.
    #[error("{part}: nothing but white space; expected some text")]
    Blank {
        /// Which of the two texts.
        part: TextPart,
    },
    /// A text spells a token that steers the model.
    #[error(
        "{place}: `{token}` is a control token of the model, not text; remove it, or allow control tokens if it is meant"
    )]
    ControlToken {
        /// The token's text.
        token: String,
        /// Where it stands.
        place: TextPlace,
    },
    /// The prompt is too long for the model.
    #[error("prompt has {tokens} tokens; the maximum is {maximum}")]
    TooLong {
        /// Tokens of the assembled prompt.
        tokens: usize,
        /// The most tokens a prompt may have.
        maximum: usize,
    },
    /// The tokenizer file cannot be read.
    #[error("{origin} cannot be read")]
    ReadTokenizer {
        /// The file.
        origin: TokenizerOrigin,
        /// What the system said.
        source: std::io::Error,
    },
    /// The tokenizer file is larger than any tokenizer.
    #[error("{origin} has {bytes} bytes or more; the maximum is {maximum}")]
    TokenizerTooLarge {
        /// The file.
        origin: TokenizerOrigin,
        /// The bytes that were counted; reading stops just above the maximum.
        bytes: u64,
        /// The most bytes that are read.
        maximum: u64,
    },
    /// The tokenizer file is not a tokenizer.
    #[error("{origin} cannot be parsed; expected the JSON of a `tokenizers` tokenizer")]
    ParseTokenizer {
        /// The file.
        origin: TokenizerOrigin,
        /// What the tokenizer library said.
        source: tokenizers::Error,
    },
    /// The tokenizer belongs to another model.
    #[error("{origin} is not MiniMax-Music3's: {}", list(mismatches))]
    WrongTokenizer {
        /// The file.
        origin: TokenizerOrigin,
        /// Every token that differs.
        mismatches: Vec<TokenMismatch>,
    },
    /// The tokenizer library failed on a text.
    #[error("prompt cannot be tokenized")]
    Tokenize {
        /// What the tokenizer library said.
        source: tokenizers::Error,
    },
}

/// Where a tokenizer came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenizerOrigin {
    /// A file.
    File(PathBuf),
    /// Bytes that the caller had in memory.
    Memory,
}

impl std::fmt::Display for TokenizerOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "tokenizer {}", path.display()),
            Self::Memory => f.write_str("tokenizer"),
        }
    }
}

/// A structure token that the tokenizer does not have under its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenMismatch {
    /// The token's text.
    pub token: &'static str,
    /// The id that the model knows.
    pub expected: u32,
    /// The tokenizer's id, if it has the token.
    pub found: Option<u32>,
}

impl std::fmt::Display for TokenMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { token, expected, found } = self;
        match found {
            Some(found) => write!(f, "token `{token}` has id {found}, expected {expected}"),
            None => write!(f, "token `{token}` is missing, expected id {expected}"),
        }
    }
}

fn list(mismatches: &[TokenMismatch]) -> String {
    let lines: Vec<String> = mismatches.iter().map(TokenMismatch::to_string).collect();
    lines.join("; ")
}

//! The tokenizer of a checkpoint, and the two rows of token ids that the language model starts from.
//!
//! # Upstream
//! `MiniMaxMusic3TokenizeStep.__call__`, `encoders.py:204-226`; the tokenizer is `transformers`' `Qwen2Tokenizer`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use tokenizers::{Encoding, Tokenizer};

use crate::control::{ControlTokens, Sighting, TextPart};
use crate::error::{TextError, TokenMismatch, TokenizerOrigin};
use crate::prompt::{Prompt, validate_text};
use crate::token_ids::{AUDIO_CFG, TEMPLATE_TOKENS};

/// The most tokens a prompt may have. Upstream: `modular_pipelines/minimax_music3/encoders.py:41`.
pub const MAX_PROMPT_TOKENS: usize = 5000;

/// More than six times the published file; what is larger is not a tokenizer and is not read into memory.
const MAX_TOKENIZER_BYTES: u64 = 64 << 20;

/// The two rows of token ids of a prompt, of equal length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptIds {
    /// The prompt.
    pub conditional: Vec<u32>,
    /// The prompt with all but its first and its last two tokens replaced by
    /// [`AUDIO_CFG`]: what guidance leads away from.
    pub unconditional: Vec<u32>,
}

impl PromptIds {
    fn new(conditional: Vec<u32>) -> Self {
        let mut unconditional = conditional.clone();
        let replaced = 1..unconditional.len().saturating_sub(2).max(1);
        unconditional[replaced].fill(AUDIO_CFG);
        Self { conditional, unconditional }
    }
}

/// Turns captions and lyrics into token ids.
#[derive(Debug)]
pub struct PromptTokenizer {
    tokenizer: Tokenizer,
}

impl PromptTokenizer {
    /// Opens a `tokenizer.json`.
    ///
    /// # Errors
    /// The file cannot be read, is not a tokenizer, or is another model's.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, TextError> {
        let path = path.as_ref();
        let origin = TokenizerOrigin::File(path.to_owned());
        match read_bounded(path) {
            Ok(bytes) => Self::parse(&bytes, origin),
            Err(source) => Err(TextError::ReadTokenizer { origin, source }),
        }
    }

    /// Opens the bytes of a `tokenizer.json`.
    ///
    /// # Errors
    /// The bytes are not a tokenizer, or another model's: a structure token of the prompt is missing or has an id that
    /// the model does not know. All such tokens are named.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TextError> {
        Self::parse(bytes, TokenizerOrigin::Memory)
    }

    fn parse(bytes: &[u8], origin: TokenizerOrigin) -> Result<Self, TextError> {
        let size = bytes.len() as u64;
        if size > MAX_TOKENIZER_BYTES {
            return Err(TextError::TokenizerTooLarge { origin, bytes: size, maximum: MAX_TOKENIZER_BYTES });
        }
        let mut tokenizer = match Tokenizer::from_bytes(bytes) {
            Ok(tokenizer) => tokenizer,
            Err(source) => return Err(TextError::ParseTokenizer { origin, source }),
        };
        // Upstream's call turns both off, whatever the file asks for.
        tokenizer.with_padding(None);
        if let Err(source) = tokenizer.with_truncation(None) {
            return Err(TextError::ParseTokenizer { origin, source });
        }

        let mismatches: Vec<TokenMismatch> = TEMPLATE_TOKENS
            .into_iter()
            .map(|(token, expected)| TokenMismatch { token, expected, found: tokenizer.token_to_id(token) })
            .filter(|mismatch| mismatch.found != Some(mismatch.expected))
            .collect();
        if !mismatches.is_empty() {
            return Err(TextError::WrongTokenizer { origin, mismatches });
        }
        Ok(Self { tokenizer })
    }

    /// Returns the token ids of the prompt for a caption and lyrics.
    ///
    /// # Errors
    /// A text is blank, spells a control token under [`ControlTokens::Refuse`], or the prompt has more than
    /// [`MAX_PROMPT_TOKENS`] tokens.
    pub fn encode(&self, caption: &str, lyrics: &str, control_tokens: ControlTokens) -> Result<PromptIds, TextError> {
        validate_text(caption, lyrics)?;
        let prompt = Prompt::new(caption, lyrics);
        let encoding =
            self.tokenizer.encode(prompt.text.as_str(), true).map_err(|source| TextError::Tokenize { source })?;
        if control_tokens == ControlTokens::Refuse
            && let Some((token, part, byte)) = self.first_control_token(&prompt, &encoding)
        {
            let given = match part {
                TextPart::Caption => caption,
                TextPart::Lyrics => lyrics,
            };
            let place = Sighting { part, token: &token, rewritten: prompt.rewritten(part), byte }.place(given);
            return Err(TextError::ControlToken { token, place });
        }
        let tokens = encoding.len();
        if tokens > MAX_PROMPT_TOKENS {
            return Err(TextError::TooLong { tokens, maximum: MAX_PROMPT_TOKENS });
        }
        Ok(PromptIds::new(encoding.get_ids().to_vec()))
    }

    /// Returns the first added token that comes from the user's text, with its byte position in its part.
    fn first_control_token(&self, prompt: &Prompt, encoding: &Encoding) -> Option<(String, TextPart, usize)> {
        let added = self.tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        encoding.get_ids().iter().zip(encoding.get_offsets()).find_map(|(id, &(start, _))| {
            let token = added.get(id)?;
            let (part, byte) = prompt.part_at(start)?;
            Some((token.content.clone(), part, byte))
        })
    }
}

/// Reads a file, or as much of it as shows that it is too large.
fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_TOKENIZER_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

//! Caption and lyrics to prompt to token ids, as MiniMax-Music3 expects them.
//!
//! A song is asked for with two texts: a *caption* that describes the music and the *lyrics* to sing. Both are
//! rewritten ([`clean_caption`], [`normalize_lyrics`]), joined by the model's structure tokens and turned into two rows
//! of token ids ([`PromptTokenizer::encode`]). White space is part of the contract: a prompt that differs by one blank
//! gives another song, so both rewriting passes follow upstream string for string.
//!
//! # Upstream
//! `modular_pipelines/minimax_music3/encoders.py` of diffusers 0.42.1: `_clean_caption`, `_normalize_lyrics` and
//! `MiniMaxMusic3TokenizeStep`. One deviation: upstream lets a control token in the user's text through; here
//! [`ControlTokens`] says whether that is wanted.

mod caption;
mod control;
pub mod duration;
mod error;
mod lyrics;
mod prompt;
mod python;
pub mod token_ids;
mod tokenizer;

pub use caption::clean_caption;
pub use control::{ControlTokens, TextPart, TextPlace, TextStage};
pub use error::{TextError, TokenMismatch, TokenizerOrigin};
pub use lyrics::{LyricWarning, lyric_warnings, normalize_lyrics};
pub use prompt::validate_text;
pub use tokenizer::{MAX_PROMPT_TOKENS, PromptIds, PromptTokenizer};

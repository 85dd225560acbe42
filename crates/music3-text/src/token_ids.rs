//! Token ids that are part of the checkpoint's contract.
//!
//! # Upstream
//! `modular_pipelines/minimax_music3/encoders.py:32-39` names the template's tokens and the ids that are used as numbers;
//! the published tokenizer gives the template's tokens their ids.

/// Opens the prompt: `<|im_start|>`.
pub const IM_START: u32 = 151_644;
/// Closes the prompt's text: `<|im_end|>`.
pub const IM_END: u32 = 151_645;
/// Fills the unconditional row, which guidance compares the conditional one with. Upstream uses only its number.
pub const AUDIO_CFG: u32 = 151_654;
/// Asks for audio, the prompt's last token: `<|audio_start|>`.
pub const AUDIO_START: u32 = 151_669;
/// Ends the song when the language model draws it. Upstream uses only its number.
pub const AUDIO_END: u32 = 151_670;
/// Opens the caption: `<|caption_start|>`.
pub const CAPTION_START: u32 = 151_671;
/// Closes the caption: `<|caption_end|>`.
pub const CAPTION_END: u32 = 151_672;
/// Opens the lyrics: `<|lyrics_start|>`.
pub const LYRICS_START: u32 = 151_673;
/// Closes the lyrics: `<|lyrics_end|>`.
pub const LYRICS_END: u32 = 151_674;
/// The token id of semantic code 0; code `c` is token `SEMANTIC_CODE_OFFSET + c`.
pub const SEMANTIC_CODE_OFFSET: u32 = 151_675;
/// How many semantic codes there are.
pub const SEMANTIC_CODES: u32 = 16_384;

/// The template's tokens by their text, in the order of the prompt.
pub(crate) const TEMPLATE_TOKENS: [(&str, u32); 7] = [
    ("<|im_start|>", IM_START),
    ("<|caption_start|>", CAPTION_START),
    ("<|caption_end|>", CAPTION_END),
    ("<|lyrics_start|>", LYRICS_START),
    ("<|lyrics_end|>", LYRICS_END),
    ("<|im_end|>", IM_END),
    ("<|audio_start|>", AUDIO_START),
];

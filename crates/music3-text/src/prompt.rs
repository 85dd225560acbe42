//! The prompt: the two texts between the model's structure tokens, with no white space added.
//!
//! # Upstream
//! `MiniMaxMusic3TokenizeStep`, `encoders.py:204-226`.

use std::ops::Range;

use crate::caption::clean_caption;
use crate::control::TextPart;
use crate::error::TextError;
use crate::lyrics::normalize_lyrics;
use crate::python::trim;

/// Checks what can be checked of a caption and lyrics without a tokenizer: neither may be blank.
///
/// # Errors
/// [`TextError::Blank`] names the first text that holds nothing but white space.
pub fn validate_text(caption: &str, lyrics: &str) -> Result<(), TextError> {
    for (part, text) in [(TextPart::Caption, caption), (TextPart::Lyrics, lyrics)] {
        if trim(text).is_empty() {
            return Err(TextError::Blank { part });
        }
    }
    Ok(())
}

/// The assembled prompt, and where the rewritten texts lie in it, in bytes.
pub(crate) struct Prompt {
    pub(crate) text: String,
    caption: Range<usize>,
    lyrics: Range<usize>,
}

impl Prompt {
    /// Rewrites and assembles both texts.
    pub(crate) fn new(caption: &str, lyrics: &str) -> Self {
        let mut text = String::from("<|im_start|><|caption_start|>");
        let caption = append(&mut text, &clean_caption(caption));
        text.push_str("<|caption_end|><|lyrics_start|>");
        let lyrics = append(&mut text, &normalize_lyrics(lyrics));
        text.push_str("<|lyrics_end|><|im_end|><|audio_start|>");
        Self { text, caption, lyrics }
    }

    /// Returns the part that the byte belongs to, and the byte's position in that part; none in the template.
    pub(crate) fn part_at(&self, byte: usize) -> Option<(TextPart, usize)> {
        [(TextPart::Caption, &self.caption), (TextPart::Lyrics, &self.lyrics)]
            .into_iter()
            .find(|(_, range)| range.contains(&byte))
            .map(|(part, range)| (part, byte - range.start))
    }

    /// Returns a part as the model will read it.
    pub(crate) fn rewritten(&self, part: TextPart) -> &str {
        let range = match part {
            TextPart::Caption => &self.caption,
            TextPart::Lyrics => &self.lyrics,
        };
        &self.text[range.clone()]
    }
}

fn append(text: &mut String, part: &str) -> Range<usize> {
    let start = text.len();
    text.push_str(part);
    start..text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assembles_without_white_space() {
        let prompt = Prompt::new("# Pop\n", "[Verse]\nla");
        assert_eq!(
            prompt.text,
            "<|im_start|><|caption_start|>Pop<|caption_end|><|lyrics_start|>[start]\n[verse]\nla<|lyrics_end|>\
             <|im_end|><|audio_start|>"
        );
        assert_eq!(prompt.rewritten(TextPart::Caption), "Pop");
        assert_eq!(prompt.rewritten(TextPart::Lyrics), "[start]\n[verse]\nla");
        assert_eq!(prompt.part_at(0), None);
    }

    #[test]
    fn refuses_texts_that_python_calls_blank() {
        let blank = "\u{1c}\u{1f} \u{3000}\n";
        for (caption, lyrics, message) in [
            ("", "la", "caption: nothing but white space; expected some text"),
            (blank, "", "caption: nothing but white space; expected some text"),
            ("pop", blank, "lyrics: nothing but white space; expected some text"),
        ] {
            let error = validate_text(caption, lyrics).expect_err("blank");
            assert_eq!(error.to_string(), message);
        }
        // U+200B looks blank and is not white space, to Python neither.
        validate_text("\u{200b}", "x").expect("neither is blank");
    }
}

//! Control tokens in the user's texts: what to do about them, and where they stand.
//!
//! The tokenizer turns the text of any token that was added to it, such as `<|im_end|>`, into that token, wherever it
//! stands. In a song's text that ends the prompt early or worse, so it is refused unless asked for. The rewriting passes
//! can make such a text as well as take one apart (`[<|IM_END|>]` becomes `[<|im_end|>]`), so it is looked for in the
//! token ids, not in the text as given.

use std::fmt;

use crate::lyrics::kept_part;

/// What happens to a control token spelled in the caption or in the lyrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlTokens {
    /// The prompt is refused; the error says where the token stands.
    #[default]
    Refuse,
    /// The text becomes that token, as upstream lets it.
    AsUpstream,
}

/// One of the two texts a song is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextPart {
    /// The description of the music.
    Caption,
    /// The words to sing.
    Lyrics,
}

impl fmt::Display for TextPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Caption => "caption",
            Self::Lyrics => "lyrics",
        })
    }
}

/// Which form of a text a place refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextStage {
    /// The text as the user gave it.
    AsGiven,
    /// The text after its rewriting pass; used where the text as given does not hold what was found.
    Rewritten,
}

/// A place in one of the texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPlace {
    /// Which text.
    pub part: TextPart,
    /// Which form of it.
    pub stage: TextStage,
    /// Line number, from 1; lines end at `\n`.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
}

impl fmt::Display for TextPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            TextStage::AsGiven => "",
            TextStage::Rewritten => " as rewritten",
        };
        write!(f, "{}{stage}, line {}, column {}", self.part, self.line, self.column)
    }
}

/// A control token in a rewritten text.
pub(crate) struct Sighting<'a> {
    /// Which text.
    pub(crate) part: TextPart,
    /// The token's text.
    pub(crate) token: &'a str,
    /// The rewritten text.
    pub(crate) rewritten: &'a str,
    /// Where the token starts in it, in bytes.
    pub(crate) byte: usize,
}

impl Sighting<'_> {
    /// Returns the token's place in the text as given if it can be told, else in the rewritten text.
    pub(crate) fn place(&self, given: &str) -> TextPlace {
        let (stage, (line, column)) = match self.place_as_given(given) {
            Some(place) => (TextStage::AsGiven, place),
            None => (TextStage::Rewritten, line_and_column(self.rewritten, self.byte)),
        };
        TextPlace { part: self.part, stage, line, column }
    }

    /// The token verbatim is the better find: its lower case counts only inside a tag.
    fn place_as_given(&self, given: &str) -> Option<(usize, usize)> {
        let verbatim = self.find_in_lines(given, |text| text.starts_with(self.token));
        verbatim.or_else(|| match self.part {
            TextPart::Caption => None,
            TextPart::Lyrics => self.find_in_lines(given, |text| spells_lower_case(text, self.token)),
        })
    }

    fn find_in_lines(&self, given: &str, starts_with_it: impl Fn(&str) -> bool) -> Option<(usize, usize)> {
        given.split('\n').enumerate().find_map(|(index, line)| {
            let kept = match self.part {
                TextPart::Caption => line,
                TextPart::Lyrics => kept_part(line),
            };
            let skipped = line.find(kept)?;
            let start = kept.char_indices().map(|(start, _)| start).find(|&start| starts_with_it(&kept[start..]))?;
            Some((index + 1, 1 + line[..skipped + start].chars().count()))
        })
    }
}

/// Returns whether the text starts with something whose lower case is the token: the case of tags is dropped.
fn spells_lower_case(text: &str, token: &str) -> bool {
    let mut lowered = text.chars().flat_map(char::to_lowercase);
    token.chars().all(|c| lowered.next() == Some(c))
}

fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = &text[..byte];
    let line_start = before.rfind('\n').map_or(0, |line_end| line_end + 1);
    (1 + before.matches('\n').count(), 1 + before[line_start..].chars().count())
}

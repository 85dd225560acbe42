//! Lyric normalisation: structure tags such as `[verse]` get a line of their own, in lower case.
//!
//! # Upstream
//! `_normalize_lyrics`, `encoders.py:80-91`; deviations: none. The order of the replacements is part of the contract.

use crate::python::trim;

/// Returns the lyrics as the model was trained to read them.
///
/// Text that follows a tag at the start of a line is dropped; [`lyric_warnings`] lists it.
///
/// ```
/// let lyrics = "[Verse 1] dropped\none line ^ and another [Chorus]";
/// assert_eq!(music3_text::normalize_lyrics(lyrics), "[start]\n[verse 1]\none line\nand another\n[chorus]");
/// ```
///
/// # Source
/// `modular_pipelines/minimax_music3/encoders.py:80-91`
pub fn normalize_lyrics(lyrics: &str) -> String {
    // Upstream quirk: lines end at "\n" alone, so a "\r" stays in the text.
    let lines: Vec<&str> = lyrics.split('\n').map(kept_part).collect();
    let text = lines.join("\n").replace("] ", "]\n").replace(" [", "\n[").replace(" ^ ", "\n");
    format!("[start]\n{}", lower_case_tags(&text))
}

/// Text of a lyric line that the model will never see, because it follows a tag that starts the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LyricWarning {
    /// Line number, from 1; lines end at `\n`.
    pub line: usize,
    /// The tags that stay, such as `[verse]`.
    pub tags: String,
    /// The words that are dropped, without the white space around them.
    pub dropped: String,
}

impl std::fmt::Display for LyricWarning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, tags, dropped } = self;
        write!(f, "lyrics line {line}: `{dropped}` follows {tags} and will not be sung; give it a line of its own")
    }
}

/// Returns one warning for each line whose words [`normalize_lyrics`] drops.
pub fn lyric_warnings(lyrics: &str) -> Vec<LyricWarning> {
    lyrics
        .split('\n')
        .enumerate()
        .filter_map(|(index, line)| {
            let (tags, rest) = split_leading_tags(line)?;
            let dropped = trim(rest);
            (!dropped.is_empty()).then(|| LyricWarning {
                line: index + 1,
                tags: tags.to_owned(),
                dropped: dropped.to_owned(),
            })
        })
        .collect()
}

/// Returns the part of a line that reaches the model: its leading tags where it has some, else all of it.
pub(crate) fn kept_part(line: &str) -> &str {
    split_leading_tags(line).map_or(line, |(tags, _)| tags)
}

/// Splits a line that starts with tags into these tags, trimmed, and what follows them.
fn split_leading_tags(line: &str) -> Option<(&str, &str)> {
    let blank = [' ', '\t'];
    let first_tag = line.trim_start_matches(blank);
    let mut rest = first_tag;
    while let Some(after_tag) = skip_tag(rest) {
        rest = after_tag.trim_start_matches(blank);
    }
    let tags = &first_tag[..first_tag.len() - rest.len()];
    (!tags.is_empty()).then(|| (trim(tags), rest))
}

/// Returns what follows the `[tag]` that `text` starts with; a tag holds at least one character, which may be `[`.
fn skip_tag(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('[')?;
    let close = inside.find(']').filter(|&close| close > 0)?;
    Some(&inside[close + 1..])
}

/// Lower-cases what stands between brackets; here a tag may span lines.
fn lower_case_tags(text: &str) -> String {
    let mut lowered = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('[') {
        let (before, tag) = rest.split_at(open);
        lowered.push_str(before);
        match skip_tag(tag) {
            Some(after_tag) => {
                lowered.push_str(&tag[..tag.len() - after_tag.len()].to_lowercase());
                rest = after_tag;
            }
            None => {
                lowered.push('[');
                rest = &tag[1..];
            }
        }
    }
    lowered.push_str(rest);
    lowered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warns_of_words_behind_a_leading_tag() {
        let lyrics = "\n[verse] one two \nplain [chorus] stays\n \t[a] [b]\t[c]x\r\n[outro]  \r\n[]not a tag";
        let warnings = lyric_warnings(lyrics);
        let found: Vec<_> = warnings.iter().map(|w| (w.line, w.tags.as_str(), w.dropped.as_str())).collect();
        assert_eq!(found, [(2, "[verse]", "one two"), (4, "[a] [b]\t[c]", "x")]);
        assert_eq!(
            warnings[0].to_string(),
            "lyrics line 2: `one two` follows [verse] and will not be sung; give it a line of its own"
        );
    }

    #[test]
    fn what_is_warned_of_is_what_is_missing() {
        let lyrics = "[verse] gone\nkept [x] kept";
        assert_eq!(normalize_lyrics(lyrics), "[start]\n[verse]\nkept\n[x]\nkept");
    }
}

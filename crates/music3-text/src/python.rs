//! The parts of Python's `str` that the rewriting passes rest on, where Rust's `str` differs.
//!
//! White space: Python counts U+001C..=U+001F, which Unicode's `White_Space` (and so `char::is_whitespace`) leaves out;
//! `str.strip`, `str.split` and the `\s` of `re` agree on the set. Lines: `str.splitlines` knows eleven boundaries,
//! `str::lines` two. Lower case needs no function here: `str::to_lowercase` and Python's `str.lower` both apply
//! Unicode's full mapping with the final-sigma rule. They differ only on characters younger than the older of their
//! tables, as two versions of Python do; the differential test pins that.

/// Returns whether Python's `str.isspace` and `\s` accept the character.
pub(crate) fn is_space(c: char) -> bool {
    matches!(c, '\u{1c}'..='\u{1f}') || c.is_whitespace()
}

/// Returns the text without Python white space at its start.
pub(crate) fn trim_start(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

/// Returns the text without Python white space at its end.
pub(crate) fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// Returns the text without Python white space at either end.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Returns the lines of `str.splitlines()`: without their ends, and without an empty line after a final end.
pub(crate) fn split_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(end) = rest.find(is_line_end) else {
            return Some(std::mem::take(&mut rest));
        };
        let (line, tail) = rest.split_at(end);
        let end_len = if tail.starts_with("\r\n") { 2 } else { tail.chars().next().map_or(0, char::len_utf8) };
        rest = &tail[end_len..];
        Some(line)
    })
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_python_s_set_of_29() {
        let found: Vec<u32> = ('\0'..=char::MAX).filter(|&c| is_space(c)).map(u32::from).collect();
        let expected: Vec<u32> = [0x9..=0xd, 0x1c..=0x20, 0x85..=0x85, 0xa0..=0xa0, 0x1680..=0x1680]
            .into_iter()
            .chain([0x2000..=0x200a, 0x2028..=0x2029, 0x202f..=0x202f, 0x205f..=0x205f, 0x3000..=0x3000])
            .flatten()
            .collect();
        assert_eq!(found, expected);
        assert_eq!(found.len(), 29);
    }

    #[test]
    fn lines_end_where_python_s_do() {
        let lines = |text| split_lines(text).collect::<Vec<_>>();
        assert_eq!(lines(""), Vec::<&str>::new());
        assert_eq!(lines("\n"), [""]);
        assert_eq!(lines("a\r\nb\rc\n\nd\n"), ["a", "b", "c", "", "d"]);
        assert_eq!(lines("a\n\rb"), ["a", "", "b"]);
        assert_eq!(
            lines("a\u{b}b\u{c}c\u{1c}d\u{1d}e\u{1e}f\u{85}g\u{2028}h\u{2029}i\u{1f}j"),
            ["a", "b", "c", "d", "e", "f", "g", "h", "i\u{1f}j"]
        );
    }
}

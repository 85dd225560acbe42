//! Caption cleaning: markdown and stray control tags are rewritten to plain text.
//!
//! # Upstream
//! `_clean_caption`, `encoders.py:54-77`; deviations: none. The order of the steps is part of the contract.

use crate::python::{is_space, split_lines, trim, trim_end, trim_start};

/// Returns the caption as the model was trained to read it: tags spelled out, markdown removed, blank lines collapsed.
///
/// ```
/// let caption = "# Ballad\n\n* **slow**, <|key C minor|>\n---\n";
/// assert_eq!(music3_text::clean_caption(caption), "Ballad\nslow, key is C minor\n");
/// ```
///
/// # Source
/// `modular_pipelines/minimax_music3/encoders.py:54-77`
pub fn clean_caption(caption: &str) -> String {
    let spelled = spell_out_tags(caption);
    let lines: Vec<String> = split_lines(&spelled).map(clean_line).collect();
    let text = remove_rules(&lines.join("\n"));
    // Upstream quirk: any run of four spaces goes, not only an indent; tabs stay.
    let text = text.replace("\u{2022} ", "").replace("    ", "");
    collapse_newlines(&text)
}

/// `<|KEY VALUE|>` becomes `KEY is VALUE`, and `<|WORD|>` becomes `WORD`; a tag may span lines.
fn spell_out_tags(text: &str) -> String {
    let mut spelled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find("<|") {
        let inside = &rest[open + 2..];
        match inside.find('|').filter(|&end| inside[end..].starts_with("|>")) {
            Some(end) => {
                spelled.push_str(&rest[..open]);
                push_tag(&mut spelled, trim(&inside[..end]));
                rest = &inside[end + 2..];
            }
            None => {
                spelled.push_str(&rest[..open + 1]);
                rest = &rest[open + 1..];
            }
        }
    }
    spelled.push_str(rest);
    spelled
}

fn push_tag(spelled: &mut String, tag: &str) {
    match tag.split_once(is_space) {
        Some((key, value)) => spelled.extend([key, " is ", trim_start(value)]),
        None => spelled.push_str(tag),
    }
}

fn clean_line(line: &str) -> String {
    let line = strip_heading(line);
    let line = strip_bullet(line, &['*', '+', '-']);
    let line = strip_bullet(line, &['*']);
    let line = unwrap_emphasis(&unwrap_bold(line));
    trim_end(&line).to_owned()
}

/// Drops a heading's mark: at most three blanks, one to six `#`, and the white space that must follow.
fn strip_heading(line: &str) -> &str {
    let mark = trim_start(line);
    let indent = line[..line.len() - mark.len()].chars().count();
    let after_mark = mark.trim_start_matches('#');
    let level = mark.len() - after_mark.len();
    let title = trim_start(after_mark);
    let is_heading = indent <= 3 && (1..=6).contains(&level) && title.len() < after_mark.len();
    if is_heading { title } else { line }
}

/// Drops a list item's mark and the white space around it; the space after it must be there.
fn strip_bullet<'a>(line: &'a str, marks: &[char]) -> &'a str {
    let Some(after_mark) = trim_start(line).strip_prefix(marks) else {
        return line;
    };
    let item = trim_start(after_mark);
    if item.len() < after_mark.len() { item } else { line }
}

/// Drops the marks of every `**bold**` span, again and again until nothing changes.
fn unwrap_bold(line: &str) -> String {
    let mut line = line.to_owned();
    loop {
        let unwrapped = unwrap_bold_once(&line);
        if unwrapped.len() == line.len() {
            return line;
        }
        line = unwrapped;
    }
}

fn unwrap_bold_once(line: &str) -> String {
    let mut unwrapped = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(open) = rest.find("**") {
        let inside = &rest[open + 2..];
        let close = inside.find('*').filter(|&close| close > 0 && inside[close..].starts_with("**"));
        match close {
            Some(close) => {
                unwrapped.extend([&rest[..open], &inside[..close]]);
                rest = &inside[close + 2..];
            }
            None => {
                unwrapped.push_str(&rest[..open + 1]);
                rest = &rest[open + 1..];
            }
        }
    }
    unwrapped.push_str(rest);
    unwrapped
}

/// Drops the marks of every `*emphasis*` span whose marks do not touch another `*`, in one pass.
fn unwrap_emphasis(line: &str) -> String {
    let mut unwrapped = String::with_capacity(line.len());
    let mut copied = 0;
    let mut at = 0;
    while let Some(offset) = line[at..].find('*') {
        let open = at + offset;
        let inside = &line[open + 1..];
        let close = inside
            .find('*')
            .filter(|&close| close > 0 && !line[..open].ends_with('*') && !inside[close + 1..].starts_with('*'));
        at = open + 1;
        if let Some(close) = close {
            unwrapped.extend([&line[copied..open], &inside[..close]]);
            at += close + 1;
            copied = at;
        }
    }
    unwrapped.push_str(&line[copied..]);
    unwrapped
}

/// Deletes horizontal rules (three or more of `-`, `*`, `_`) together with the white space around them, line ends
/// included, but for the last line end after the rule.
///
/// Upstream quirk: the pattern is `^\s*[-*_]{3,}\s*$` over all lines at once, so its `\s*` reaches over neighbouring
/// blank lines.
fn remove_rules(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        // `rest` starts at the start of a line here.
        let rule = trim_start(rest);
        if let Some(tail) = skip_rule(rule) {
            rest = tail;
            // What is left is the line end that `$` stopped at. It starts a line itself when one stood before it,
            // and then the next rule may take it too.
            if !text[..text.len() - rest.len()].ends_with('\n') {
                let Some(next) = rest.strip_prefix('\n') else {
                    break;
                };
                kept.push('\n');
                rest = next;
            }
            continue;
        }
        // No rule here, and so none at the line starts inside the white space that was skipped.
        let blank = rest.len() - rule.len();
        let Some(line_end) = rule.find('\n') else {
            kept.push_str(rest);
            break;
        };
        let next = blank + line_end + 1;
        kept.push_str(&rest[..next]);
        rest = &rest[next..];
    }
    kept
}

/// Returns what follows a rule that `text` starts with: a line end and the rest, or nothing at the end of the text.
fn skip_rule(text: &str) -> Option<&str> {
    let after = text.trim_start_matches(['-', '*', '_']);
    if text.len() - after.len() < 3 {
        return None;
    }
    let next_word = trim_start(after);
    if next_word.is_empty() {
        return Some(next_word);
    }
    let blank = &after[..after.len() - next_word.len()];
    blank.rfind('\n').map(|line_end| &after[line_end..])
}

fn collapse_newlines(text: &str) -> String {
    let mut collapsed = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' || !collapsed.ends_with('\n') {
            collapsed.push(c);
        }
    }
    collapsed
}

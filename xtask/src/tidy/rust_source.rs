//! Rust source with everything that is not code blanked out, so that a word in a comment or a string is no finding.

/// Returns `source` with the contents of comments, strings and character literals replaced by spaces. Lines stay lines.
pub(crate) fn code_only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = blanked_until(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Returns where the comment or literal that starts at `at` ends; `at` itself where none starts.
fn blanked_until(chars: &[char], at: usize) -> usize {
    let rest = &chars[at..];
    match rest {
        ['/', '/', ..] => at + rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => at + block_comment(rest),
        ['"', ..] => at + string(rest),
        ['r', '"' | '#', ..] if !follows_a_word(chars, at) => at + raw_string(rest),
        ['b' | 'c', 'r', '"' | '#', ..] if !follows_a_word(chars, at) => match raw_string(&rest[1..]) {
            0 => at,
            length => at + 1 + length,
        },
        ['\'', '\\', ..] => at + 3 + rest.iter().skip(3).position(|&c| c == '\'').map_or(0, |quote| quote + 1),
        ['\'', _, '\'', ..] => at + 3,
        _ => at,
    }
}

fn follows_a_word(chars: &[char], at: usize) -> bool {
    at.checked_sub(1).is_some_and(|before| chars[before].is_alphanumeric() || chars[before] == '_')
}

/// Returns the length of a block comment, which may hold others.
fn block_comment(rest: &[char]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (at, depth) = (at + 2, depth + 1),
            ['*', '/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of the raw string that `rest` starts with, zero where it is a raw identifier.
fn raw_string(rest: &[char]) -> usize {
    let hashes = rest[1..].iter().take_while(|&&c| c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let closing = |at: &usize| {
        rest[*at] == '"' && rest[at + 1..].len() >= hashes && rest[at + 1..][..hashes].iter().all(|&c| c == '#')
    };
    (2 + hashes..rest.len()).find(closing).map_or(rest.len(), |quote| quote + 1 + hashes)
}

/// Returns code (as [`code_only`] gives it) without the items that are compiled for tests only. Lines stay lines.
pub(crate) fn without_tests(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(start) = rest.find("#[cfg(test)]") {
        let (before, item) = rest.split_at(start);
        let end = item_end(item);
        kept.push_str(before);
        kept.extend(item[..end].chars().filter(|&c| c == '\n'));
        rest = &item[end..];
    }
    kept.push_str(rest);
    kept
}

/// Returns where the item that `code` starts with ends: after its braces, or after a semicolon before any.
fn item_end(code: &str) -> usize {
    let mut depth = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            ';' if depth == 0 => return at + 1,
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => (),
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_comments_and_literals_and_nothing_else() {
        let blanked = |source: &str| code_only(source).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(blanked("a // b\nc"), "a c");
        assert_eq!(blanked("a /* b /* c */ d */ e"), "a e");
        assert_eq!(blanked(r#"f("a \" b", c)"#), "f( , c)");
        assert_eq!(blanked("f(r#\"a \" b\"#, br\"c\", d)"), "f( , , d)");
        assert_eq!(blanked("let r#type = for_r\"x\";"), "let r#type = for_r ;");
        assert_eq!(blanked(r"f('a', '\'', '\u{7f}', b'\n')"), "f( , , , b )");
        assert_eq!(blanked("fn f<'a>(x: &'a str) -> &'a str"), "fn f<'a>(x: &'a str) -> &'a str");
    }

    #[test]
    fn keeps_every_line() {
        let source = "a\n/* b\nc */ d\n\"e\nf\"\ng";
        assert_eq!(code_only(source).lines().count(), source.lines().count());
    }

    #[test]
    fn leaves_out_what_only_tests_compile() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { c(); }\n}\nfn d() {}\n";
        let kept = without_tests(code);
        assert!(kept.contains("fn a") && kept.contains("fn d") && !kept.contains("fn b"), "{kept}");
        assert_eq!(kept.lines().count(), code.lines().count());
        assert_eq!(without_tests("#[cfg(test)]\nmod tests;\nfn a() {}").trim(), "fn a() {}");
    }
}

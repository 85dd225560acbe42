//! Both rewriting passes against upstream's own answers on ten thousand random strings each, and lower case against
//! Python's on every character. The files come from `goldens/generate/differential.py`.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::Value;

fn golden(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/text/differential").join(name);
    let packed = std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run goldens/generate/differential.py", path.display()));
    let mut lines = String::new();
    GzDecoder::new(packed.as_slice()).read_to_string(&mut lines).expect("a gzip file of UTF-8");
    lines.split_terminator('\n').map(|line| serde_json::from_str(line).expect("a JSON value a line")).collect()
}

fn check_pass(name: &str, pass: fn(&str) -> String) {
    let cases = golden(name);
    assert_eq!(cases.len(), 10_000, "{name} is cut short");
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let (given, expected) = (case["in"].as_str()?, case["out"].as_str()?);
            let found = pass(given);
            (found != expected).then(|| format!("{given:?}\n  gives    {found:?}\n  upstream {expected:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} strings differ; the first:\n{}", wrong.len(), wrong[0]);
    assert!(cases.iter().all(|case| case["in"].is_string() && case["out"].is_string()), "{name} holds other things");
}

#[test]
fn clean_caption_matches_upstream() {
    check_pass("clean_caption.jsonl.gz", music3_text::clean_caption);
}

#[test]
fn normalize_lyrics_matches_upstream() {
    check_pass("normalize_lyrics.jsonl.gz", music3_text::normalize_lyrics);
}

/// Lower-cases through the shipped pass: as the inside of a tag.
fn lower(text: &str) -> String {
    let normalized = music3_text::normalize_lyrics(&format!("[{text}]"));
    normalized.strip_prefix("[start]\n[").and_then(|tag| tag.strip_suffix(']')).expect("one tag").to_owned()
}

/// Every character whose lower case can be compared: all that Python 3.11 (Unicode 14) knows, but for the bracket that
/// would end the tag. Rust's tables are newer; a character that Unicode 14 does not assign may have a lower case here
/// and none there, exactly as in a newer Python.
fn comparable(table: &Value) -> impl Iterator<Item = char> {
    let unassigned = in_ranges(&table["unassigned"]);
    ('\0'..=char::MAX).filter(move |&c| !unassigned(c) && c != ']' && c != '\n')
}

/// Characters that a Unicode after 14 put into another class, which a neighbouring sigma notices.
const RECLASSIFIED: [char; 2] = ['\u{295}', '\u{1171e}'];

fn in_ranges(ranges: &Value) -> impl Fn(char) -> bool + use<> {
    let ranges: Vec<(u64, u64)> = ranges
        .as_array()
        .expect("a list of ranges")
        .iter()
        .map(|range| (range[0].as_u64().expect("a code point"), range[1].as_u64().expect("a code point")))
        .collect();
    move |c| {
        let point = u64::from(u32::from(c));
        ranges
            .binary_search_by(|&(first, last)| {
                if last < point {
                    std::cmp::Ordering::Less
                } else if first > point {
                    std::cmp::Ordering::Greater
                } else {
                    std::cmp::Ordering::Equal
                }
            })
            .is_ok()
    }
}

#[test]
fn lower_case_is_python_s_for_every_character() {
    let table = &golden("python_lower.json.gz")[0];
    assert_eq!(table["unidata_version"], "14.0.0");
    let changed = table["lower"].as_object().expect("a table");
    assert_eq!(changed.len(), 1_433);
    for c in comparable(table) {
        let unchanged = c.to_string();
        let expected = changed.get(&format!("{:x}", u32::from(c))).and_then(Value::as_str).unwrap_or(&unchanged);
        // White space on the tag's inside may be rewritten by the other steps; it has no case.
        if !c.is_whitespace() {
            assert_eq!(lower(&unchanged), expected, "U+{:04X}", u32::from(c));
        }
    }
}

/// A table's name, the text that holds a sigma and a character, and whether its lower case holds a final one.
type Rule = (&'static str, fn(char) -> String, fn(&str) -> bool);

#[test]
fn a_sigma_is_final_where_python_says() {
    let table = &golden("python_lower.json.gz")[0];
    let rules: [Rule; 4] = [
        ("final_after", |c| format!("{c}\u{3a3}"), |lower| lower.ends_with('\u{3c2}')),
        ("final_after_a_and", |c| format!("A{c}\u{3a3}"), |lower| lower.ends_with('\u{3c2}')),
        ("final_before", |c| format!("A\u{3a3}{c}"), |lower| lower.starts_with("a\u{3c2}")),
        ("final_before_and_a", |c| format!("A\u{3a3}{c}A"), |lower| lower.starts_with("a\u{3c2}")),
    ];
    for (rule, text, is_final) in rules {
        let expected = in_ranges(&table[rule]);
        let wrong: Vec<String> = comparable(table)
            .filter(|c| !RECLASSIFIED.contains(c))
            .filter(|&c| is_final(&lower(&text(c))) != expected(c))
            .map(|c| format!("U+{:04X}", u32::from(c)))
            .collect();
        assert!(wrong.is_empty(), "{rule}: {} characters differ: {wrong:?}", wrong.len());
    }
}

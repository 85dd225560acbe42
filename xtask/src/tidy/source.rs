//! Rules of the Rust sources.

use super::{
    Finding,
    rust_source::{code_only, without_tests},
    tree::Tree,
};

/// What may stand in no Rust file, tests included, and why.
const NOWHERE: [(&str, &str); 5] = [
    ("todo!", "a stub"),
    ("unimplemented!", "a stub"),
    ("dbg!", "left over from debugging"),
    ("#[ignore", "a test that does not run"),
    (", ignore)]", "a test that does not run"),
];

/// What may not stand in a crate's own code, tests excluded, and why.
const NOT_IN_CRATES: [(&str, &str); 1] = [(".unwrap()", "say with `expect` why it cannot fail, or return an error")];

/// What would round or choose a dtype in the models, where only the functions of `ops` do so.
const NOT_IN_MODELS: [&str; 8] =
    [".cast(", "ops::round", "ops::widen", "bf16", "BF16", "DType", "Width::Bf16", "Width::F32"];

/// Lines of code, without tests, comments and blank lines, that a file of a crate may have.
const MAX_CODE_LINES: usize = 400;

/// A file that may be longer, and why.
struct Long {
    path: &'static str,
    reason: &'static str,
}

/// Files that may be longer.
const LONG: [Long; 0] = [];

/// Names that say nothing about what is in a file.
const EMPTY_NAMES: [&str; 8] = ["utils", "util", "common", "helpers", "helper", "misc", "shared", "stuff"];

/// Finds stubs, tests that do not run, files that are too long and names that say nothing.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, &LONG)
}

fn check_against(tree: &Tree, long: &[Long]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut needed = vec![false; long.len()];
    for (path, text) in tree.texts(".rs") {
        let code = code_only(text);
        find_words(&mut findings, path, &code, &NOWHERE);
        find_ignored_examples(&mut findings, path, text);
        findings.extend(empty_name(path));
        if !is_crate_source(path) {
            continue;
        }
        let own = without_tests(&code);
        find_words(&mut findings, path, &own, &NOT_IN_CRATES);
        let lines = own.lines().filter(|line| !line.trim().is_empty()).count();
        if lines > MAX_CODE_LINES {
            match long.iter().position(|long| long.path == path) {
                Some(index) => needed[index] = true,
                None => {
                    let message = format!(
                        "{lines} lines of code; a file has at most {MAX_CODE_LINES}, tests and comments not counted"
                    );
                    findings.push(Finding::new(path, message));
                }
            }
        }
    }
    for (Long { path, reason }, needed) in long.iter().zip(needed) {
        if !needed {
            findings.push(Finding::new(*path, format!("no file that long, so the exception ({reason}) is not needed")));
        }
    }
    findings
}

/// Finds places in the models that round or choose a dtype themselves.
pub(crate) fn check_rounding(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let words =
        NOT_IN_MODELS.map(|word| (word, "in the models only the functions of `ops` round and only they know dtypes"));
    for (path, text) in tree.texts(".rs").filter(|(path, _)| path.starts_with("crates/music3-model/src/")) {
        find_words(&mut findings, path, &without_tests(&code_only(text)), &words);
    }
    findings
}

/// Whether a file belongs to a crate's own code: below its `src`, and not a module of tests.
fn is_crate_source(path: &str) -> bool {
    let inside = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
    inside
        .is_some_and(|(_, rest)| rest.starts_with("src/") && !rest.ends_with("/tests.rs") && !rest.contains("/tests/"))
}

fn find_words(findings: &mut Vec<Finding>, path: &str, code: &str, words: &[(&str, &str)]) {
    for (number, line) in code.lines().enumerate() {
        for (word, why) in words.iter().filter(|(word, _)| line.contains(word)) {
            findings.push(Finding::new(format!("{path}:{}", number + 1), format!("`{word}`: {why}")));
        }
    }
}

/// Finds examples in doc comments that neither compile nor run.
fn find_ignored_examples(findings: &mut Vec<Finding>, path: &str, text: &str) {
    for (number, line) in text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("///").or_else(|| line.trim_start().strip_prefix("//!"));
        let fence = comment.and_then(|comment| comment.trim_start().strip_prefix("```"));
        if fence.is_some_and(|attributes| attributes.split(',').any(|attribute| attribute.trim() == "ignore")) {
            findings.push(Finding::new(format!("{path}:{}", number + 1), "an example that does not run"));
        }
    }
}

fn empty_name(path: &str) -> Option<Finding> {
    let named = |part: &str| EMPTY_NAMES.contains(&part.strip_suffix(".rs").unwrap_or(part));
    path.split('/').any(named).then(|| Finding::new(path, "the name says nothing; name the file for what is in it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<Finding> {
        check_against(&Tree::of(&[(path, text)]), &[])
    }

    #[test]
    fn finds_stubs_and_tests_that_do_not_run_wherever_they_are() {
        for (word, _) in NOWHERE {
            let line = format!("fn f() {{}}\n{word}");
            assert_eq!(found("tests/a.rs", &line)[0].place, "tests/a.rs:2", "{word}");
            assert!(found("tests/a.rs", &format!("// {word}\nconst A: &str = \"{word}\";")).is_empty(), "{word}");
        }
        assert_eq!(found("a.rs", "/// ```rust,ignore\n/// f()\n/// ```").len(), 1);
        assert!(found("a.rs", "/// ```text\n/// ignore\n/// ```").is_empty());
    }

    #[test]
    fn finds_unwrap_in_a_crate_but_not_in_its_tests() {
        let (code, test) = ("fn f() { x.unwrap(); }", "#[cfg(test)]\nmod tests { fn f() { x.unwrap(); } }");
        assert_eq!(found("crates/a/src/b.rs", code).len(), 1);
        assert!(found("crates/a/src/b.rs", test).is_empty());
        assert!(found("crates/a/src/b/tests.rs", code).is_empty());
        assert!(found("crates/a/tests/b.rs", code).is_empty());
    }

    #[test]
    fn counts_code_and_nothing_else() {
        let long = "f();\n".repeat(MAX_CODE_LINES);
        let commented = format!("{long}\n// a\n\n#[cfg(test)]\nmod tests {{\n{long}}}");
        assert!(found("crates/a/src/b.rs", &commented).is_empty());
        assert_eq!(found("crates/a/src/b.rs", &format!("{long}f();")).len(), 1);
    }

    #[test]
    fn takes_a_reason_for_a_long_file_and_refuses_one_that_is_not_needed() {
        let text = "f();\n".repeat(MAX_CODE_LINES + 1);
        let long = [Long { path: "crates/a/src/b.rs", reason: "a table" }];
        assert!(check_against(&Tree::of(&[("crates/a/src/b.rs", &text)]), &long).is_empty());
        assert_eq!(check_against(&Tree::of(&[("crates/a/src/b.rs", "f();")]), &long).len(), 1);
    }

    #[test]
    fn finds_names_that_say_nothing() {
        for name in EMPTY_NAMES {
            assert_eq!(found(&format!("crates/a/src/{name}.rs"), "").len(), 1);
            assert_eq!(found(&format!("tests/{name}/a.rs"), "").len(), 1);
        }
    }

    #[test]
    fn finds_rounding_in_the_models_only() {
        for word in NOT_IN_MODELS {
            let code = format!("fn f() {{ {word}x }}");
            let tree = |path: &str, text: &str| check_rounding(&Tree::of(&[(path, text)])).len();
            assert!(tree("crates/music3-model/src/a.rs", &code) > 0, "{word}");
            assert_eq!(tree("crates/music3-nn/src/a.rs", &code), 0, "{word}");
            assert_eq!(tree("crates/music3-model/src/a.rs", &format!("//! {word}")), 0, "{word}");
        }
    }
}

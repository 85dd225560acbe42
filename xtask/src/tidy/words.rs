//! Words that tie the tree to one machine: paths that only the writer has, and the hosts that packages come from, which
//! the tools' own settings name.

use super::{Finding, tree::Tree};

/// Top-level folders of one machine. Each is spelt in two parts, so that this file does not hold what it looks for.
const PATHS: [[&str; 2]; 4] = [["/ho", "me/"], ["/ro", "ot/"], ["/t", "mp/"], ["/wo", "rk/"]];

/// Hosts of package registries, in two parts for the same reason.
const HOSTS: [[&str; 2]; 6] = [
    ["crates", ".io"],
    ["pypi", ".org"],
    ["pythonhosted", ".org"],
    ["npmjs", ".org"],
    ["debian", ".org"],
    ["proxy.golang", ".org"],
];

/// Cargo writes the registry's name into the lock file itself.
const WRITTEN_BY_TOOLS: [&str; 2] = ["Cargo.lock", "examples/consumer/Cargo.lock"];

/// Finds the words in every text file.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts("").filter(|(path, _)| !WRITTEN_BY_TOOLS.contains(path)) {
        for (number, line) in text.lines().enumerate() {
            let mut find = |message| findings.push(Finding::new(format!("{path}:{}", number + 1), message));
            for word in PATHS.map(|parts| parts.concat()) {
                if starts_a_path(line, &word) {
                    find(format!("`{word}…` is a path of one machine; name it relative to the project"));
                }
            }
            for word in HOSTS.map(|parts| parts.concat()) {
                if line.contains(&word) {
                    find(format!("`{word}` is a registry's host; the tools' settings name it, not the project"));
                }
            }
        }
    }
    findings
}

/// Whether `word` stands in `line` as the start of an absolute path, not as the middle of another one.
fn starts_a_path(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~*$@%})".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> usize {
        check(&Tree::of(&[("a.md", line)])).len()
    }

    #[test]
    fn finds_paths_of_one_machine() {
        for parts in PATHS {
            let word = parts.concat();
            assert_eq!(found(&format!("{word}x")), 1);
            assert_eq!(found(&format!("open(\"{word}x\")")), 1);
            assert_eq!(found(&format!("file://{word}x")), 1);
            assert_eq!(found(&format!("target{word}x and ${{OUT}}{word}x")), 0);
        }
    }

    #[test]
    fn finds_registries() {
        for parts in HOSTS {
            assert_eq!(found(&format!("see https://{}/x", parts.concat())), 1);
        }
    }

    #[test]
    fn names_the_line() {
        let findings = check(&Tree::of(&[("a/b.py", &format!("x\ny = '{}'", PATHS[0].concat()))]));
        assert_eq!(findings[0].place, "a/b.py:2");
    }

    #[test]
    fn leaves_the_lock_file_to_cargo() {
        let word = HOSTS[0].concat();
        assert!(check(&Tree::of(&[("Cargo.lock", &word)])).is_empty());
        assert_eq!(check(&Tree::of(&[("crates/Cargo.lock", &word)])).len(), 1);
    }
}

//! A clone stays small: no large file without a reason, and a limit on all goldens together.

use super::{Finding, tree::Tree};

/// The largest file that needs no reason: 2 MiB.
const MAX_FILE_BYTES: u64 = 2 << 20;

/// The most that all files under `goldens/` may take together: 26 MB.
const MAX_GOLDENS_BYTES: u64 = 26_000_000;

/// A file that may be larger than [`MAX_FILE_BYTES`], and why.
struct Allowed {
    path: &'static str,
    reason: &'static str,
}

/// Files that may be large.
const ALLOWED: [Allowed; 1] = [Allowed {
    path: "goldens/captures/three_windows_f32.safetensors",
    reason: "a whole song of three windows with its waveforms; no shorter one has a window between two others",
}];

/// Finds files that are too large, exceptions that are no longer needed, and goldens that are too large together.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, &ALLOWED)
}

fn check_against(tree: &Tree, allowed: &[Allowed]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let large = |path: &str| tree.files().iter().any(|file| file.path == path && file.bytes > MAX_FILE_BYTES);
    for file in tree.files().iter().filter(|file| file.bytes > MAX_FILE_BYTES) {
        if !allowed.iter().any(|allowed| allowed.path == file.path) {
            findings.push(Finding::new(
                &file.path,
                format!(
                    "{} bytes; a file has at most {MAX_FILE_BYTES} without a reason in the list of exceptions",
                    file.bytes
                ),
            ));
        }
    }
    for Allowed { path, reason } in allowed {
        if !large(path) {
            findings
                .push(Finding::new(*path, format!("no file that large, so the exception ({reason}) is not needed")));
        }
    }
    let goldens: u64 =
        tree.files().iter().filter(|file| file.path.starts_with("goldens/")).map(|file| file.bytes).sum();
    if goldens > MAX_GOLDENS_BYTES {
        findings.push(Finding::new(
            "goldens/",
            format!("{goldens} bytes in all; at most {MAX_GOLDENS_BYTES} are kept in the tree"),
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_file_that_is_one_byte_too_large() {
        assert!(check_against(&Tree::of_sizes(&[("a", MAX_FILE_BYTES)]), &[]).is_empty());
        assert_eq!(check_against(&Tree::of_sizes(&[("a", MAX_FILE_BYTES + 1)]), &[])[0].place, "a");
    }

    #[test]
    fn takes_a_reason_and_refuses_one_that_is_not_needed() {
        let allowed = [Allowed { path: "a", reason: "it is large" }];
        assert!(check_against(&Tree::of_sizes(&[("a", MAX_FILE_BYTES + 1)]), &allowed).is_empty());
        assert_eq!(check_against(&Tree::of_sizes(&[("a", 1)]), &allowed).len(), 1);
        assert_eq!(check_against(&Tree::of_sizes(&[]), &allowed).len(), 1);
    }

    #[test]
    fn adds_the_goldens_up() {
        let names: Vec<String> = (0..27).map(|index| format!("goldens/{index}")).collect();
        let tree = |count: usize| {
            let files: Vec<(&str, u64)> = names[..count].iter().map(|name| (name.as_str(), 1_000_000)).collect();
            Tree::of_sizes(&files)
        };
        assert!(check_against(&tree(26), &[]).is_empty());
        assert_eq!(check_against(&tree(27), &[])[0].place, "goldens/");
    }
}

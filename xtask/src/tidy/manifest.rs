//! Versions stand in one place, the workspace's `Cargo.toml`; nothing there is unused or unexplained; every package
//! takes the workspace's lints. A package outside the workspace has its own versions, but never others.

use super::{Finding, dependencies::Workspace, tree::Tree};

/// The workspace's manifest.
const ROOT: &str = "Cargo.toml";

/// The document that says why each third-party crate is there.
const REASONS: &str = "ARCHITECTURE.md";

/// Finds members that choose versions or lints themselves, and workspace dependencies that are unused or unexplained.
pub(crate) fn check(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let reasons = tree.texts(REASONS).find(|(path, _)| *path == REASONS).map_or("", |(_, text)| text);
    for (path, text) in tree.texts(ROOT) {
        if path == ROOT {
            check_root(&mut findings, text, reasons, workspace);
        } else if path.ends_with("/Cargo.toml") {
            if text.lines().any(|line| line.trim_end() == "[workspace]") {
                check_outsider(&mut findings, (path, text), tree);
            } else {
                check_member(&mut findings, path, text);
            }
        }
    }
    findings
}

/// A package that stands for other people's has no workspace to take versions from; they are compared instead.
fn check_outsider(findings: &mut Vec<Finding>, (path, text): (&str, &str), tree: &Tree) {
    let root = tree.texts(ROOT).find(|(path, _)| *path == ROOT).map_or("", |(_, text)| text);
    let version =
        |line: &str| line.split_once("version = ").and_then(|(_, rest)| Some(rest.split('"').nth(1)?.to_owned()));
    let known: Vec<(&str, Option<String>)> = entries(root, |section| section == "workspace.dependencies")
        .map(|(_, name, value)| (name, version(value)))
        .collect();
    for (number, name, value) in entries(text, |section| section.ends_with("dependencies")) {
        let Some(found) = version(value) else { continue };
        match known.iter().find(|(known, _)| *known == name) {
            Some((_, Some(expected))) if *expected == found => {}
            _ => findings.push(Finding::new(
                format!("{path}:{number}"),
                format!("{name} {found} is not the version of the root's Cargo.toml"),
            )),
        }
    }
}

fn check_root(findings: &mut Vec<Finding>, text: &str, reasons: &str, workspace: &Workspace) {
    for (number, name, _) in entries(text, |section| section == "workspace.dependencies") {
        let mut find = |message| findings.push(Finding::new(format!("{ROOT}:{number}"), message));
        if !workspace.used().any(|used| used == name) {
            find(format!("no package uses {name}"));
        }
        if !reasons.contains(&format!("`{name}`")) {
            find(format!("{REASONS} does not say why `{name}` is there"));
        }
    }
}

fn check_member(findings: &mut Vec<Finding>, path: &str, text: &str) {
    for (number, line) in text.lines().enumerate() {
        if line.starts_with('[') && line.contains("dependencies.") {
            findings.push(Finding::new(
                format!("{path}:{}", number + 1),
                "write the dependency in one line, so that this check sees it",
            ));
        }
    }
    for (number, name, value) in entries(text, |section| section.ends_with("dependencies")) {
        if !value.contains("workspace = true") {
            findings.push(Finding::new(
                format!("{path}:{number}"),
                format!("{name} does not come from the workspace; versions stand in the root's Cargo.toml"),
            ));
        }
    }
    let inherits = entries(text, |section| section == "lints")
        .any(|(_, name, value)| name == "workspace" && value.contains("true"));
    if !inherits {
        findings.push(Finding::new(path, "the workspace's lints are not taken; add `[lints]` with `workspace = true`"));
    }
}

/// Returns the entries of the sections that `wanted` accepts: line, key up to its first dot, and the whole line's rest.
fn entries<'a>(text: &'a str, wanted: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = (usize, &'a str, &'a str)> {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if let Some(section) = line.strip_prefix('[') {
            inside = wanted(section.trim_end().trim_end_matches(']'));
            return None;
        }
        let is_entry = inside && line.starts_with(|c: char| c.is_ascii_alphanumeric());
        let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).unwrap_or(line.len());
        is_entry.then(|| (index + 1, &line[..end], line[end..].trim_start_matches('.')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINTS: &str = "[lints]\nworkspace = true\n";

    fn found_in_member(text: &str) -> Vec<Finding> {
        check(&Tree::of(&[("crates/a/Cargo.toml", text)]), &Workspace::default())
    }

    #[test]
    fn takes_members_that_choose_nothing() {
        let text =
            format!("[dependencies]\nburn.workspace = true\nhalf = {{ workspace = true, optional = true }}\n{LINTS}");
        assert_eq!(found_in_member(&text), []);
    }

    #[test]
    fn finds_members_that_choose_a_version() {
        for section in ["dependencies", "dev-dependencies", "target.'cfg(unix)'.dependencies"] {
            let text = format!("[{section}]\nhalf = \"2\"\n{LINTS}");
            assert_eq!(found_in_member(&text)[0].place, "crates/a/Cargo.toml:2", "{section}");
        }
        assert_eq!(found_in_member(&format!("[dependencies.half]\nversion = \"2\"\n{LINTS}")).len(), 1);
    }

    #[test]
    fn a_package_outside_has_the_versions_of_the_root() {
        let root = "[workspace.dependencies]\nhalf = { version = \"=2\" }\n";
        let found = |outside: &str| {
            let text = format!("[workspace]\n\n[dependencies]\nmusic3 = {{ path = \"..\" }}\n{outside}\n");
            let tree = Tree::of(&[(ROOT, root), (REASONS, "`half`"), ("examples/out/Cargo.toml", &text)]);
            check(&tree, &Workspace::of(&[("music3-nn", &["half"])]))
        };
        assert_eq!(found("half = { version = \"=2\", optional = true }"), []);
        assert_eq!(found("half = { version = \"3\" }")[0].place, "examples/out/Cargo.toml:5");
        assert_eq!(found("other = { version = \"3\" }").len(), 1);
    }

    #[test]
    fn finds_members_without_the_lints() {
        assert_eq!(found_in_member("[package]\nname = \"a\"\n").len(), 1);
        assert_eq!(found_in_member("[lints.rust]\nunsafe_code = \"allow\"\n").len(), 1);
    }

    #[test]
    fn finds_workspace_dependencies_that_are_unused_or_unexplained() {
        let manifest = "[workspace.dependencies]\n# Why.\nhalf = \"2\"\n\n[profile.dev]\nopt-level = 1\n";
        let found = |reasons: &str, uses: &[&str]| {
            check(&Tree::of(&[(ROOT, manifest), (REASONS, reasons)]), &Workspace::of(&[("music3-nn", uses)]))
        };
        assert_eq!(found("`half` holds bf16", &["half"]), []);
        assert_eq!(found("`half` holds bf16", &[])[0].place, "Cargo.toml:3");
        assert_eq!(found("half holds bf16", &["half"]).len(), 1);
    }
}

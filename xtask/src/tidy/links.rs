//! Links between the project's documents lead somewhere.

use super::{Finding, tree::Tree};

/// Finds links in Markdown files whose file or heading does not exist.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts(".md") {
        for (number, line) in prose(text) {
            for target in targets(line) {
                if let Some(problem) = problem(tree, path, target) {
                    findings.push(Finding::new(
                        format!("{path}:{number}"),
                        format!("the link `{target}` leads nowhere: {problem}"),
                    ));
                }
            }
        }
    }
    findings
}

/// Returns the lines outside code blocks, numbered from one.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// Returns the targets of a line's links, `[text](target)` and `[label]: target`; code spans hold none.
fn targets(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    if let Some((_, definition)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
        targets.extend(definition.split_whitespace().next());
    }
    // Between backticks stands code: the odd parts.
    for part in line.split('`').step_by(2) {
        let mut rest = part;
        while let Some((_, link)) = rest.split_once("](") {
            let (target, after) = link.split_once(')').unwrap_or((link, ""));
            targets.extend(target.split_whitespace().next());
            rest = after;
        }
    }
    targets
}

/// Returns why a link of the document at `from` leads nowhere; nothing where it leads somewhere or out of the project.
fn problem(tree: &Tree, from: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() { Some(from.to_owned()) } else { resolve(from, file) };
    let Some(file) = file else { return Some("it leaves the project".to_owned()) };
    if !tree.holds(&file) {
        return Some(format!("there is no {file}"));
    }
    let (_, text) = tree.texts(".md").find(|(path, _)| *path == file)?;
    let exists = heading.is_empty() || prose(text).any(|(_, line)| line.starts_with('#') && anchor(line) == heading);
    (!exists).then(|| format!("{file} has no heading `{heading}`"))
}

/// Returns the path below the root that a relative link of the document at `from` names.
fn resolve(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => (),
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the anchor that a heading gets where Markdown is shown.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    heading.replace(' ', "-").chars().filter(|&c| c.is_alphanumeric() || c == '-' || c == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<Finding> {
        check(&Tree::of(&[("docs/a.md", text), ("B.md", "# One, two\n"), ("docs/c.rs", "")]))
    }

    #[test]
    fn finds_links_to_files_that_do_not_exist() {
        assert_eq!(found("x\n[a](d.md)")[0].place, "docs/a.md:2");
        assert_eq!(found("[a](../../B.md) and [b](c.rs) and [c](e.md)").len(), 2);
        assert_eq!(found("[a]: d.md").len(), 1);
    }

    #[test]
    fn finds_links_to_headings_that_do_not_exist() {
        assert!(found("[a](../B.md#one-two)").is_empty());
        assert_eq!(found("[a](../B.md#three)").len(), 1);
        assert_eq!(found("# Here\n[a](#here) [b](#there)").len(), 1);
    }

    #[test]
    fn leaves_good_links_code_and_the_rest_of_the_world_alone() {
        assert!(found("[a](../B.md) [b](c.rs) [c](.) [d](https://example.org/x)").is_empty());
        assert!(found("`[a](d.md)`\n```\n[a](d.md)\n```\n").is_empty());
    }
}

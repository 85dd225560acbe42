//! The rules of the tree that no Rust tool knows. Each check is a function from the tree to what it found, and has a
//! test that shows it can find something.

mod dependencies;
mod links;
mod manifest;
mod rust_source;
mod sizes;
mod source;
mod tree;
mod words;

use std::{fmt, path::Path};

use anyhow::bail;

use self::{dependencies::Workspace, tree::Tree};

/// One place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// File, with a line where there is one, or package.
    place: String,
    /// What was found, what was expected, and the remedy if it is not plain.
    message: String,
}

impl Finding {
    fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Runs every check over the tree at `root` and prints all that they find.
///
/// # Errors
/// When something was found, or the tree cannot be read.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let tree = Tree::read(root)?;
    let workspace = Workspace::read(root)?;
    let checks: [(&str, Vec<Finding>); 8] = [
        ("dependency order", dependencies::check_order(&workspace)),
        ("backends", dependencies::check_backends(&workspace)),
        ("manifests", manifest::check(&tree, &workspace)),
        ("source", source::check(&tree)),
        ("rounding in models", source::check_rounding(&tree)),
        ("sizes", sizes::check(&tree)),
        ("links", links::check(&tree)),
        ("words", words::check(&tree)),
    ];
    for (name, findings) in &checks {
        for finding in findings {
            println!("{name}: {finding}");
        }
    }
    match checks.iter().map(|(_, findings)| findings.len()).sum() {
        0usize => {
            println!(
                "tidy: {} checks over {} files and {} packages found nothing",
                checks.len(),
                tree.len(),
                workspace.len()
            );
            Ok(())
        }
        1 => bail!("tidy found one place to mend"),
        found => bail!("tidy found {found} places to mend"),
    }
}

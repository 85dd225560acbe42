//! The files of the project, as git knows them.

use std::{path::Path, process::Command};

use anyhow::{Context, bail};

/// One file.
#[derive(Debug)]
pub(crate) struct TreeFile {
    /// Its path below the root, with forward slashes.
    pub(crate) path: String,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    /// Its contents, where they are UTF-8 without NUL.
    pub(crate) text: Option<String>,
}

/// All files that are tracked, or would be if they were added.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: Vec<TreeFile>,
}

impl Tree {
    /// Reads the tree at `root`.
    ///
    /// # Errors
    /// When git does not list it or a file cannot be read.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"])
            .current_dir(root)
            .output()
            .context("`git ls-files` could not be started; tidy reads the list of files from git")?;
        if !listed.status.success() {
            bail!("`git ls-files` failed: {}", String::from_utf8_lossy(&listed.stderr).trim());
        }
        let listed = String::from_utf8(listed.stdout).context("a file's name is not UTF-8")?;
        let mut files = Vec::new();
        for path in listed.split_terminator('\0') {
            let full = root.join(path);
            // A file that is deleted but not yet from the index is no part of the tree.
            if !full.is_file() {
                continue;
            }
            let contents = std::fs::read(&full).with_context(|| format!("{path} could not be read"))?;
            let bytes = contents.len() as u64;
            let text = String::from_utf8(contents).ok().filter(|text| !text.contains('\0'));
            files.push(TreeFile { path: path.to_owned(), bytes, text });
        }
        Ok(Self { files })
    }

    /// The number of files.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// All files.
    pub(crate) fn files(&self) -> &[TreeFile] {
        &self.files
    }

    /// The text files whose name ends like this, with their text.
    pub(crate) fn texts<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .filter(move |file| file.path.ends_with(ending))
            .filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
    }

    /// Whether a file or a folder with files has this path.
    pub(crate) fn holds(&self, path: &str) -> bool {
        self.files.iter().any(|file| {
            file.path.strip_prefix(path).is_some_and(|rest| path.is_empty() || rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// A tree of text files, for tests of the checks.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| TreeFile {
            path: path.to_owned(),
            bytes: text.len() as u64,
            text: Some(text.to_owned()),
        };
        Self { files: files.iter().map(file).collect() }
    }

    /// A tree of binary files of the given sizes, for tests of the checks.
    #[cfg(test)]
    pub(crate) fn of_sizes(files: &[(&str, u64)]) -> Self {
        let file = |&(path, bytes): &(&str, u64)| TreeFile { path: path.to_owned(), bytes, text: None };
        Self { files: files.iter().map(file).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_very_file() {
        let tree = Tree::read(&crate::workspace_root()).expect("the workspace is a git repository");
        let (_, text) = tree.texts("xtask/src/tidy/tree.rs").next().expect("this file is in the tree");
        assert!(text.contains("fn reads_this_very_file"));
    }

    #[test]
    fn holds_files_and_their_folders_only() {
        let tree = Tree::of(&[("a/b.md", "")]);
        assert!(tree.holds("a/b.md") && tree.holds("a") && tree.holds(""));
        assert!(!tree.holds("a/b") && !tree.holds("b.md"));
    }
}

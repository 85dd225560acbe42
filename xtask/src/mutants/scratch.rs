//! The scratch copy of the tree that is mutated, built and run.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};

use super::{
    list::{Mutation, case_path},
    report::Report,
};

/// Where copy and build are kept, below the root. Both stay, so that a second run builds only what changed.
const FOLDER: &str = "target/mutants";

/// The backend that cases are run on, and the only one that is built.
const BACKEND: &str = "flex";

/// A copy of the tree with a build of its own.
pub(super) struct Scratch {
    root: PathBuf,
    tree: PathBuf,
    target: PathBuf,
}

impl Scratch {
    /// Copies the files that git knows, as they are in the working tree.
    pub(super) fn prepare(root: &Path) -> anyhow::Result<Self> {
        let folder = root.join(FOLDER);
        let (tree, target) = (folder.join("tree"), folder.join("target"));
        copy(root, &tree, &[])?;
        Ok(Self { root: root.to_owned(), tree, target })
    }

    /// Builds the program.
    pub(super) fn build(&self) -> anyhow::Result<()> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["build", "--locked", "--quiet", "--package", "music3-cli", "--no-default-features"])
            .args(["--features", BACKEND, "--target-dir"])
            .arg(&self.target)
            // Nobody debugs these builds, and they link faster so. A mutation may leave something unused.
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .current_dir(&self.tree)
            .output()
            .context("cargo could not be started")?;
        if !output.status.success() {
            bail!("it does not compile:\n{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }

    /// Runs the program on cases and returns its report.
    pub(super) fn check<'a>(&self, cases: impl IntoIterator<Item = &'a str>) -> anyhow::Result<Report> {
        let program = self.target.join("debug").join(format!("music3{}", std::env::consts::EXE_SUFFIX));
        let output = Command::new(program)
            .args(["check", "--json", "--backend", BACKEND])
            .args(cases.into_iter().map(case_path))
            .current_dir(&self.tree)
            .output()
            .context("the program could not be started")?;
        let printed = String::from_utf8_lossy(&output.stdout);
        Report::read(&printed)
            .with_context(|| format!("`music3 check` ended with {}: {}", output.status, tail(&output.stderr)))
    }

    /// Writes a mutation into the copy, whatever comes of the work with it, takes it out again.
    pub(super) fn with<T>(&self, mutation: &Mutation, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let changed = mutation.applied_to(&self.tree)?;
        let mut originals = Vec::new();
        for (file, _) in &changed {
            originals.push((file, std::fs::read(self.tree.join(file)).with_context(|| format!("reading {file}"))?));
        }
        for (file, text) in &changed {
            write(&self.tree.join(file), text.as_bytes())?;
        }
        let result = work();
        for (file, original) in originals {
            write(&self.tree.join(file), &original)?;
        }
        result
    }

    /// Returns the tree that was copied.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }
}

/// Makes `tree` hold the files of `root` that git knows, those that are changed with their new text, and no others.
pub(super) fn copy(root: &Path, tree: &Path, changed: &[(String, String)]) -> anyhow::Result<()> {
    sync(root, tree, &files(root)?, changed)
}

/// Returns the end of what a program said.
fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.trim().lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

/// The files of the tree: tracked, or not ignored.
fn files(root: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"])
        .current_dir(root)
        .output()
        .context("`git ls-files` could not be started; the list of files comes from git")?;
    if !listed.status.success() {
        bail!("`git ls-files` failed: {}", String::from_utf8_lossy(&listed.stderr).trim());
    }
    let listed = String::from_utf8(listed.stdout).context("a file's name is not UTF-8")?;
    // A file that is deleted but not yet from the index is no part of the tree.
    Ok(listed.split_terminator('\0').map(PathBuf::from).filter(|path| root.join(path).is_file()).collect())
}

/// Makes `copy` hold these files of `root` and no others. Files that are equal are left alone: cargo builds again what is
/// newer than its last build.
fn sync(root: &Path, copy: &Path, files: &BTreeSet<PathBuf>, changed: &[(String, String)]) -> anyhow::Result<()> {
    std::fs::create_dir_all(copy).with_context(|| format!("{} cannot be made", copy.display()))?;
    remove_others(copy, copy, files)?;
    for file in files {
        let contents = match changed.iter().find(|(path, _)| Path::new(path) == file) {
            Some((_, text)) => text.clone().into_bytes(),
            None => std::fs::read(root.join(file)).with_context(|| format!("reading {}", file.display()))?,
        };
        let path = copy.join(file);
        if std::fs::read(&path).is_ok_and(|present| present == contents) {
            continue;
        }
        let folder = path.parent().unwrap_or(copy);
        std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        write(&path, &contents)?;
    }
    Ok(())
}

fn remove_others(copy: &Path, folder: &Path, files: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("{} cannot be read", folder.display()))?.path();
        if path.is_dir() {
            remove_others(copy, &path, files)?;
        } else if !path.strip_prefix(copy).is_ok_and(|file| files.contains(file)) {
            std::fs::remove_file(&path).with_context(|| format!("{} cannot be removed", path.display()))?;
        }
    }
    Ok(())
}

fn write(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, contents).with_context(|| format!("{} cannot be written", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(folder: &Path, names: &[&str]) -> Vec<Option<String>> {
        names.iter().map(|name| std::fs::read_to_string(folder.join(name)).ok()).collect()
    }

    #[test]
    fn a_copy_holds_the_files_of_the_tree_and_no_others() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (root, copy) = (folder.path().join("root"), folder.path().join("copy"));
        std::fs::create_dir_all(root.join("a")).expect("a folder");
        std::fs::create_dir_all(copy.join("c")).expect("a folder");
        for (path, text) in [(root.join("a/b"), "new"), (root.join("d"), "kept"), (copy.join("c/e"), "old")] {
            std::fs::write(path, text).expect("a file");
        }
        let listed = ["a/b", "d"].map(PathBuf::from).into();
        sync(&root, &copy, &listed, &[]).expect("it can be copied");
        assert_eq!(texts(&copy, &["a/b", "d", "c/e"]), [Some("new".to_owned()), Some("kept".to_owned()), None]);
    }

    #[test]
    fn a_file_that_is_equal_is_not_written_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (root, copy) = (folder.path().join("root"), folder.path().join("copy"));
        std::fs::create_dir_all(&root).expect("a folder");
        std::fs::write(root.join("a"), "text").expect("a file");
        let written = || std::fs::metadata(copy.join("a")).and_then(|data| data.modified()).expect("a time");
        let listed = ["a"].map(PathBuf::from).into();
        sync(&root, &copy, &listed, &[]).expect("it can be copied");
        let first = written();
        std::thread::sleep(std::time::Duration::from_millis(20));
        sync(&root, &copy, &listed, &[]).expect("it can be copied");
        assert_eq!(written(), first);
    }

    #[test]
    fn lists_this_very_file() {
        let listed = files(&crate::workspace_root()).expect("the workspace is a git repository");
        assert!(listed.contains(Path::new("xtask/src/mutants/scratch.rs")));
    }
}

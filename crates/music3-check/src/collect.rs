//! From what was named on a command line to the JSON files that may be cases.

use std::path::{Path, PathBuf};

use crate::CheckError;

/// A JSON file to run, and how it came to be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CasePath {
    /// The JSON file.
    pub path: PathBuf,
    /// How it was named.
    pub origin: Origin,
}

/// How a file came to be named. Only one that was named itself must be a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// By its own path.
    Named,
    /// By a folder it lies in, at any depth.
    Folder,
}

/// Returns the JSON files that `paths` name: a file stands for itself, a folder for every JSON file in it and in the
/// folders within, in the order of their paths. A file named twice is run once.
///
/// # Errors
/// When a path does not exist or a folder cannot be read.
pub fn collect<P: AsRef<Path>>(paths: &[P]) -> Result<Vec<CasePath>, CheckError> {
    let mut found = Vec::<CasePath>::new();
    for path in paths.iter().map(AsRef::as_ref) {
        let metadata = path.metadata().map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => CheckError::Missing { path: path.to_owned() },
            _ => CheckError::Read { path: path.to_owned(), source },
        })?;
        let mut named = Vec::new();
        if metadata.is_dir() {
            walk(path, &mut named)?;
        } else {
            named.push(CasePath { path: path.to_owned(), origin: Origin::Named });
        }
        for case in named {
            match found.iter_mut().find(|other| other.path == case.path) {
                Some(other) if case.origin == Origin::Named => other.origin = Origin::Named,
                Some(_) => {}
                None => found.push(case),
            }
        }
    }
    Ok(found)
}

/// Returns the path by which a capture is opened that was named by its JSON, by its tensors' file or by their common stem;
/// a folder of NumPy files stands for itself.
pub fn capture_path(named: &Path) -> PathBuf {
    match named.extension() {
        _ if named.is_dir() => named.to_owned(),
        Some(extension) if extension == "json" => named.to_owned(),
        Some(extension) if extension == "safetensors" => named.with_extension("json"),
        // Not `with_extension`: a stem may hold points.
        _ => PathBuf::from(format!("{}.json", named.display())),
    }
}

fn walk(folder: &Path, found: &mut Vec<CasePath>) -> Result<(), CheckError> {
    let failed = |source| CheckError::Read { path: folder.to_owned(), source };
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(failed)?;
    paths.sort();
    for path in paths {
        // A link to a folder is not followed: it may lead back to where it lies.
        let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        if is_folder {
            walk(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(CasePath { path, origin: Origin::Folder });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_the_json_files_at_any_depth() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let deep = folder.path().join("b/c");
        std::fs::create_dir_all(&deep).expect("folders");
        for name in ["b/c/z.json", "a.json", "a.safetensors", "b/notes.txt"] {
            std::fs::write(folder.path().join(name), "{}").expect("a file");
        }
        let named = folder.path().join("b/c/z.json");
        let found = collect(&[folder.path(), &named]).expect("all of it can be read");
        let expected = [(folder.path().join("a.json"), Origin::Folder), (named, Origin::Named)];
        assert_eq!(found, expected.map(|(path, origin)| CasePath { path, origin }));
    }

    #[test]
    fn names_a_path_that_does_not_exist() {
        let error = collect(&["no/such/folder"]).expect_err("nothing lies there");
        assert!(error.to_string().starts_with("no/such/folder: "), "{error}");
    }
}

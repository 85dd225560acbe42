//! The weight files of one component: a single safetensors file, or shards and the index that names them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component as PathComponent, Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    error::WeightsError,
    file::SafetensorsFile,
    file_error::FileError,
    json::{Pairs, check_inside, read_json},
    problem::Problem,
    source::{TensorEntry, TensorSource, TensorView},
};

/// The opened weight files of one folder.
#[derive(Debug)]
pub struct Shards {
    folder: PathBuf,
    files: Vec<SafetensorsFile>,
    /// Which file holds a tensor.
    places: BTreeMap<String, usize>,
}

impl Shards {
    /// Opens `index_name` and the shards it names, or `single_name` where there is no index.
    ///
    /// # Errors
    /// With everything that is wrong with the index and with each of the files.
    pub fn open(folder: &Path, index_name: &str, single_name: &str) -> Result<Self, WeightsError> {
        let (index, single) = (folder.join(index_name), folder.join(single_name));
        match (index.symlink_metadata().is_ok(), single.symlink_metadata().is_ok()) {
            (true, true) => Err(Problem::TwoSets {
                path: folder.to_owned(),
                single: single_name.to_owned(),
                index: index_name.to_owned(),
            }
            .into()),
            (true, false) => Self::open_index(folder, &index),
            (false, true) => Ok(Self::of_files(folder, vec![open_shard(folder, single_name)?])),
            (false, false) => {
                let what = format!("{single_name} (or {index_name})");
                Err(Problem::Absent { path: folder.to_owned(), what }.into())
            }
        }
    }

    /// The opened files.
    pub fn files(&self) -> &[SafetensorsFile] {
        &self.files
    }

    fn open_index(folder: &Path, path: &Path) -> Result<Self, WeightsError> {
        let index = Index::read(folder, path)?;
        let (mut problems, mut files) = (Vec::new(), Vec::new());
        for name in index.shards.values().collect::<BTreeSet<_>>() {
            match open_shard(folder, name) {
                Ok(file) => files.push(file),
                Err(error) => problems.extend(error.into_problems()),
            }
        }
        problems.extend(index.disagreements(&files));
        WeightsError::unless_empty(problems)?;
        Ok(Self::of_files(folder, files))
    }

    fn of_files(folder: &Path, files: Vec<SafetensorsFile>) -> Self {
        let names = files.iter().enumerate().flat_map(|(place, file)| file.names().map(move |name| (name, place)));
        let places = names.map(|(name, place)| (name.to_owned(), place)).collect();
        Self { folder: folder.to_owned(), files, places }
    }

    fn holder(&self, name: &str) -> Option<&SafetensorsFile> {
        self.places.get(name).map(|place| &self.files[*place])
    }
}

impl TensorSource for Shards {
    fn entries(&self) -> Vec<TensorEntry<'_>> {
        let mut entries: Vec<_> = self.files.iter().flat_map(TensorSource::entries).collect();
        entries.sort_by_key(|entry| entry.name);
        entries
    }

    fn tensor(&self, name: &str) -> Result<TensorView<'_>, WeightsError> {
        match self.holder(name) {
            Some(file) => file.tensor(name),
            None => Err(FileError::NoTensor { path: self.folder.clone(), name: name.to_owned() }.into()),
        }
    }

    fn prefetch(&self, name: &str) {
        if let Some(file) = self.holder(name) {
            file.prefetch(name);
        }
    }

    fn release(&self, name: &str) {
        if let Some(file) = self.holder(name) {
            file.release(name);
        }
    }
}

fn open_shard(folder: &Path, name: &str) -> Result<SafetensorsFile, WeightsError> {
    let path = folder.join(name);
    if path.symlink_metadata().is_err() {
        return Err(Problem::Absent { path: folder.to_owned(), what: name.to_owned() }.into());
    }
    check_inside(folder, &path)?;
    SafetensorsFile::open(path)
}

/// A `*.safetensors.index.json`.
struct Index {
    path: PathBuf,
    /// The shard that each tensor is said to be in.
    shards: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct IndexFile {
    weight_map: Pairs<String>,
}

impl Index {
    fn read(folder: &Path, path: &Path) -> Result<Self, WeightsError> {
        let IndexFile { weight_map } = read_json(folder, path)?;
        let repeated = weight_map.repeated().into_iter().map(|name| Problem::Duplicate {
            file: path.to_owned(),
            name: name.to_owned(),
            other: None,
        });
        let outside = weight_map.0.iter().filter(|(_, name)| !is_plain(name)).map(|(tensor, name)| {
            Problem::from(FileError::ShardName { path: path.to_owned(), tensor: tensor.clone(), name: name.clone() })
        });
        WeightsError::unless_empty(repeated.chain(outside).collect())?;
        Ok(Self { path: path.to_owned(), shards: weight_map.0.into_iter().collect() })
    }

    /// Compares what the index says with what the files that could be opened hold.
    fn disagreements(&self, files: &[SafetensorsFile]) -> Vec<Problem> {
        let mut holders = BTreeMap::<&str, Vec<&SafetensorsFile>>::new();
        for file in files {
            for name in file.names() {
                holders.entry(name).or_default().push(file);
            }
        }
        let said = self.shards.iter().filter_map(|(name, shard)| {
            let opened = files.iter().any(|file| file_name(file) == *shard);
            let holders = holders.get(name.as_str()).map_or(&[][..], Vec::as_slice);
            let held = holders.iter().any(|file| file_name(file) == *shard);
            (opened && !held).then(|| Problem::NotInShard {
                index: self.path.clone(),
                name: name.clone(),
                file: shard.clone(),
                holder: holders.first().map(|file| file_name(file)),
            })
        });
        let held = holders.iter().filter_map(|(name, holders)| match holders.as_slice() {
            [first, second, ..] => Some(Problem::Duplicate {
                file: first.path().to_owned(),
                name: (*name).to_owned(),
                other: Some(second.path().to_owned()),
            }),
            [file] if !self.shards.contains_key(*name) => {
                Some(Problem::NotInIndex { index: self.path.clone(), name: (*name).to_owned(), file: file_name(file) })
            }
            _ => None,
        });
        said.chain(held).collect()
    }
}

fn file_name(file: &SafetensorsFile) -> String {
    file.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Whether a name from an index is that of a file beside the index, on any system.
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let single = matches!((parts.next(), parts.next()), (Some(PathComponent::Normal(_)), None));
    single && name.ends_with(".safetensors") && !name.contains(['/', '\\', ':', '\0'])
}

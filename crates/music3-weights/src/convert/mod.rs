//! A checkpoint of either layout into a folder of the diffusers layout, whole or not at all.

mod writer;

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use safetensors::Dtype;
use serde_json::json;

pub use self::writer::ConvertError;
use self::writer::{PIECE_BYTES, Writer, on};
use crate::{
    checkpoint::Checkpoint,
    component::Component,
    config::Words,
    error::WeightsError,
    json::check_inside,
    layout::Layout,
    new_folder::NewFolder,
    plan::{Plan, PlanRow},
    problem::Problem,
    rows::expand,
    shard_files::{index, into_shards, pretty, safetensors_header, shard_names},
    source::TensorSource,
};

/// Upstream's libraries start another file after so many bytes of weights.
const MAX_SHARD_BYTES: u64 = 5_000_000_000;

/// What upstream's pipeline is put together from; the native layout has none of it.
const PIPELINE_FILES: [(&str, &str); 2] = [
    ("modular_model_index.json", include_str!("../../../../weights-mapping/diffusers/modular_model_index.json")),
    ("scheduler/scheduler_config.json", include_str!("../../../../weights-mapping/diffusers/scheduler_config.json")),
];

/// Files of the diffusers layout that a checkpoint may have and this program does not read.
const OTHER_FILES: [&str; 4] = [
    "model_index.json",
    "modular_model_index.json",
    "scheduler/scheduler_config.json",
    "language_model/generation_config.json",
];

/// A conversion that is planned: every tensor is known to be there, and nothing is written yet.
#[derive(Debug)]
pub struct Conversion<'a> {
    checkpoint: &'a Checkpoint,
    plans: [Plan; 5],
    files: Vec<TensorFile>,
    texts: Vec<(PathBuf, String)>,
    copies: Vec<Copied>,
}

/// A weight file to be made.
#[derive(Debug)]
struct TensorFile {
    path: PathBuf,
    header: Vec<u8>,
    tensors: Vec<Renamed>,
}

/// A tensor under its diffusers name, and what makes it.
#[derive(Debug, Clone)]
struct Renamed {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: u64,
    component: Component,
    /// The parameter's path, and which of its stored tensors this is.
    path: String,
    place: usize,
}

/// A file that is taken as it is.
#[derive(Debug)]
struct Copied {
    from: PathBuf,
    to: PathBuf,
    bytes: u64,
}

impl<'a> Conversion<'a> {
    /// Plans the conversion of a checkpoint. One of the diffusers layout is copied as it is.
    ///
    /// # Errors
    /// With everything that is wrong with the checkpoint.
    pub fn plan(checkpoint: &'a Checkpoint) -> Result<Self, WeightsError> {
        let plans = checkpoint.plans()?;
        let mut conversion = Self { checkpoint, plans, files: Vec::new(), texts: Vec::new(), copies: Vec::new() };
        conversion.copy_folder(checkpoint.tokenizer(), "tokenizer")?;
        match checkpoint.layout() {
            Layout::Diffusers => conversion.copy_all()?,
            Layout::Native => conversion.rename_all()?,
        }
        Ok(conversion)
    }

    /// Bytes that will be written, but for a few kilobytes.
    pub fn bytes(&self) -> u64 {
        let made = self.files.iter().flat_map(|file| &file.tensors).map(|tensor| tensor.bytes);
        made.sum::<u64>() + self.copies.iter().map(|copy| copy.bytes).sum::<u64>()
    }

    /// Writes the folder `out`, which appears only when it is whole and on the disk. `progress` is told how many bytes
    /// are written and stops the work by returning `Break`; then nothing is left.
    ///
    /// # Errors
    /// `out` exists, the disk is too full, a file cannot be read or written, or it was stopped.
    pub fn write(&self, out: &Path, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<(), ConvertError> {
        let fresh = NewFolder::begin(out, self.bytes())?;
        let mut writer = Writer { folder: fresh.path(), written: 0, total: self.bytes(), progress };
        for (path, text) in PIPELINE_FILES.iter().filter(|_| self.checkpoint.layout() == Layout::Native) {
            let name = out.file_name().unwrap_or_default().to_string_lossy();
            writer.text(Path::new(path), &text.replace("MODEL_NAME", &json!(name).to_string()))?;
        }
        for (path, text) in &self.texts {
            writer.text(path, text)?;
        }
        for copy in &self.copies {
            writer.copy(copy)?;
        }
        for file in &self.files {
            self.write_tensors(file, &mut writer)?;
        }
        Ok(fresh.finish()?)
    }

    fn write_tensors(&self, file: &TensorFile, writer: &mut Writer<'_>) -> Result<(), ConvertError> {
        let (path, mut created) = writer.create(&file.path)?;
        on(&path, created.write_all(&file.header))?;
        for tensor in &file.tensors {
            let source = self.checkpoint.component(tensor.component);
            let row = self.row(tensor);
            let views = row.views(source)?;
            for piece in views[tensor.place].data.chunks(PIECE_BYTES) {
                on(&path, created.write_all(piece))?;
                writer.step(piece.len())?;
            }
            row.stored.iter().for_each(|name| source.release(name));
        }
        on(&path, created.sync_all())
    }

    fn row(&self, tensor: &Renamed) -> &PlanRow {
        let row = self.plans[tensor.component as usize].row(&tensor.path);
        row.expect("a tensor was made from a row of this plan")
    }

    /// Takes every file of a checkpoint that has the layout already.
    fn copy_all(&mut self) -> Result<(), WeightsError> {
        let root = self.checkpoint.path();
        for component in self.checkpoint.components() {
            let folder = component.component().folder();
            let stem = component.component().weights_stem();
            self.copy(&root.join(folder).join("config.json"), format!("{folder}/config.json"))?;
            let index = root.join(folder).join(format!("{stem}.safetensors.index.json"));
            if index.is_file() {
                self.copy(&index, format!("{folder}/{stem}.safetensors.index.json"))?;
            }
            for file in component.files() {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                self.copy(file, format!("{folder}/{name}"))?;
            }
        }
        for name in OTHER_FILES.into_iter().filter(|name| root.join(name).is_file()) {
            self.copy(&root.join(name), name)?;
        }
        Ok(())
    }

    /// Gives every tensor of the native layout its diffusers name, and a place in files as upstream writes them.
    fn rename_all(&mut self) -> Result<(), WeightsError> {
        for component in Component::ALL {
            let folder = Path::new(component.folder());
            let source = self.checkpoint.component(component);
            self.texts.push((folder.join("config.json"), pretty(source.config())));
            let tensors = self.renamed(component)?;
            let total = tensors.iter().map(|tensor| tensor.bytes).sum();
            let shards = into_shards(tensors, |tensor| tensor.bytes, MAX_SHARD_BYTES);
            let names = shard_names(component.weights_stem(), shards.len());
            if shards.len() > 1 {
                let tensors: Vec<Vec<&str>> =
                    shards.iter().map(|shard| shard.iter().map(|tensor| tensor.name.as_str()).collect()).collect();
                let path = folder.join(format!("{}.safetensors.index.json", component.weights_stem()));
                self.texts.push((path, index(&names, &tensors, total)));
            }
            for (name, mut tensors) in names.iter().zip(shards) {
                tensors.sort_by(|left, right| left.name.cmp(&right.name));
                let entries = tensors.iter().map(|one| (one.name.as_str(), one.dtype, one.shape.as_slice(), one.bytes));
                let header = safetensors_header(entries);
                self.files.push(TensorFile { path: folder.join(name), header, tensors });
            }
        }
        let generation = self.checkpoint.component(Component::LanguageModel).config_path();
        let generation = generation.map(|config| config.with_file_name("generation_config.json"));
        match generation.filter(|path| path.is_file()) {
            Some(path) => self.copy(&path, "language_model/generation_config.json"),
            None => Ok(()),
        }
    }

    /// The tensors of a component in the order of the mapping.
    fn renamed(&self, component: Component) -> Result<Vec<Renamed>, WeightsError> {
        let source = self.checkpoint.component(component);
        let words = Words::read(component, Layout::Diffusers, source.config());
        let expanded = words.and_then(|words| expand(component, &words)).map_err(WeightsError::from_problems)?;
        let (mut seen, mut tensors) = (BTreeSet::new(), Vec::new());
        for wanted in &expanded.wanted {
            let row = self.plans[component as usize].row(&wanted.path);
            let row = row.ok_or_else(|| Problem::NoRow { component, path: wanted.path.clone() })?;
            for (place, (stored, view)) in wanted.stored().into_iter().zip(row.views(source)?).enumerate() {
                // A tied head is the embedding once more.
                if seen.insert(stored.name.clone()) {
                    let (name, path) = (stored.name, wanted.path.clone());
                    let (dtype, shape, bytes) = (view.entry.dtype, view.entry.shape.to_vec(), view.entry.bytes);
                    tensors.push(Renamed { name, dtype, shape, bytes, component, path, place });
                }
            }
        }
        Ok(tensors)
    }

    /// Takes the plain files of a folder.
    fn copy_folder(&mut self, folder: &Path, to: &str) -> Result<(), WeightsError> {
        let failed = |source| crate::FileError::Io { path: folder.to_owned(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            names.push(entry.map_err(failed)?.file_name());
        }
        names.sort();
        for name in names.iter().filter(|name| folder.join(name).is_file()) {
            self.copy(&folder.join(name), format!("{to}/{}", name.to_string_lossy()))?;
        }
        Ok(())
    }

    fn copy(&mut self, from: &Path, to: impl Into<PathBuf>) -> Result<(), WeightsError> {
        check_inside(self.checkpoint.path(), from)?;
        let length = fs::metadata(from).map(|found| found.len());
        let bytes = length.map_err(|source| crate::FileError::Io { path: from.to_owned(), source })?;
        self.copies.push(Copied { from: from.to_owned(), to: to.into(), bytes });
        Ok(())
    }
}

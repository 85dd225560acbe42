//! Checkpoints of random values in the published layout: for timing, and for whole runs at sizes whose weights are not
//! at hand. What each file holds is planned first, from the configs and the weights mapping, and nothing is written
//! before.

mod file;
mod values;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use safetensors::Dtype;
use serde_json::{Map, Value};

use self::file::Fused;
pub use self::{
    file::{SynthFile, SynthTensor},
    write::WriteError,
};
use crate::{
    component::Component,
    config::Words,
    error::WeightsError,
    layout::Layout,
    mapping::Mapping,
    native::{self, Written},
    rows::{Wanted, expand},
    shard_files::{index, into_shards, pretty, shard_names},
};

/// One component to be made up.
#[derive(Debug, Clone)]
pub struct SynthComponent {
    /// Which one.
    pub component: Component,
    /// Its config.json.
    pub config: Value,
    /// Tensors of more bytes than this go into several files with an index.
    pub max_shard_bytes: u64,
}

/// A checkpoint of random values, planned file by file.
#[derive(Debug, Clone)]
pub struct SynthCheckpoint {
    files: Vec<SynthFile>,
    texts: Vec<(PathBuf, String)>,
}

impl SynthCheckpoint {
    /// Plans the weight files, indices and configs of some components. The same seed gives the same values, however many
    /// threads write them.
    ///
    /// # Errors
    /// With everything that the model does not support in the configs.
    pub fn plan(components: &[SynthComponent], seed: u64) -> Result<Self, WeightsError> {
        let mut planned = Self { files: Vec::new(), texts: Vec::new() };
        for (one, tensors) in drawn(components, Layout::Diffusers, seed)? {
            let folder = PathBuf::from(one.component.folder());
            planned.texts.push((folder.join("config.json"), pretty(&one.config)));
            planned.shards(&folder, one.component.weights_stem(), tensors, one.max_shard_bytes);
        }
        Ok(planned)
    }

    /// Plans the same checkpoint in the native layout: the same seed gives the same values there.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub fn plan_native(components: &[SynthComponent], seed: u64) -> Result<Self, WeightsError> {
        let mut planned = Self { files: Vec::new(), texts: Vec::new() };
        let mut files = BTreeMap::<&str, (Vec<Fused>, u64)>::new();
        let mut config = Map::new();
        for (one, tensors) in drawn(components, Layout::Native, seed)? {
            let name =
                Mapping::of(one.component, Layout::Native).file.as_deref().expect("a native mapping names its file");
            let (all, max_shard_bytes) = files.entry(name).or_insert((Vec::new(), 0));
            all.extend(tensors);
            *max_shard_bytes = one.max_shard_bytes.max(*max_shard_bytes);
            match native::untranslated(one.component, &one.config) {
                Written::In(part) => config.extend(part),
                Written::Beside => planned.texts.push((format!("{}.json", one.component).into(), pretty(&one.config))),
                Written::Nowhere => {}
            }
        }
        planned.texts.push((PathBuf::from(native::LANGUAGE_MODEL).join("config.json"), pretty(&Value::Object(config))));
        for (name, (tensors, max_shard_bytes)) in files {
            match name.strip_suffix(".safetensors").and_then(|path| path.rsplit_once('/')) {
                Some((folder, stem)) => planned.shards(Path::new(folder), stem, tensors, max_shard_bytes),
                None => planned.files.push(SynthFile::pth(name.into(), tensors)),
            }
        }
        Ok(planned)
    }

    /// Plans one file of tensors, or several and their index.
    fn shards(&mut self, folder: &Path, stem: &str, tensors: Vec<Fused>, max_shard_bytes: u64) {
        let shards = into_shards(tensors, Fused::bytes, max_shard_bytes);
        let names = shard_names(stem, shards.len());
        if shards.len() > 1 {
            let tensors: Vec<Vec<&str>> =
                shards.iter().map(|shard| shard.iter().map(|one| one.name.as_str()).collect()).collect();
            let total = shards.iter().flatten().map(Fused::bytes).sum();
            self.texts.push((folder.join(format!("{stem}.safetensors.index.json")), index(&names, &tensors, total)));
        }
        let files = names.iter().zip(shards);
        self.files.extend(files.map(|(name, shard)| SynthFile::safetensors(folder.join(name), shard)));
    }

    /// The weight files.
    pub fn files(&self) -> &[SynthFile] {
        &self.files
    }

    /// The configs and indices: where each lies in the checkpoint, and what is in it.
    pub fn texts(&self) -> &[(PathBuf, String)] {
        &self.texts
    }

    /// The bytes of all files together.
    pub fn bytes(&self) -> u64 {
        let texts: u64 = self.texts.iter().map(|(_, text)| text.len() as u64).sum();
        texts + self.files.iter().map(SynthFile::bytes).sum::<u64>()
    }
}

/// The tensors of each component, under the names that a layout stores them by.
fn drawn(
    components: &[SynthComponent],
    layout: Layout,
    seed: u64,
) -> Result<Vec<(&SynthComponent, Vec<Fused>)>, WeightsError> {
    let (mut all, mut problems) = (Vec::new(), Vec::new());
    for one in components {
        let rows = |layout| {
            let words = Words::read(one.component, layout, &one.config);
            words.and_then(|words| expand(one.component, &words)).map(|expanded| expanded.wanted)
        };
        match rows(Layout::Diffusers).and_then(|diffusers| Ok((diffusers, rows(layout)?))) {
            Ok((diffusers, stored)) => all.push((one, fused(one.component, &diffusers, &stored, seed))),
            Err(found) => problems.extend(found),
        }
    }
    WeightsError::unless_empty(problems)?;
    Ok(all)
}

/// Draws each tensor once, by its diffusers name, and puts it where the layout has it. The rows of both are in one order.
fn fused(component: Component, diffusers: &[Wanted], layout: &[Wanted], seed: u64) -> Vec<Fused> {
    // A name that two rows read, such as a tied head, is stored once.
    let (mut seen, mut places) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    let mut all = Vec::<Fused>::new();
    let names = |rows: &[Wanted]| rows.iter().flat_map(Wanted::stored).collect::<Vec<_>>();
    for (tensor, stored) in names(diffusers).into_iter().zip(names(layout)) {
        if !seen.insert(tensor.name.clone()) {
            continue;
        }
        let part = SynthTensor::new(component, &tensor.name, tensor.shape, seed);
        match places.get(&stored.name) {
            Some(place) => all[*place].parts.push(part),
            None => {
                places.insert(stored.name.clone(), all.len());
                all.push(Fused { name: stored.name, parts: vec![part] });
            }
        }
    }
    all
}

/// The dtype that a component is published in.
fn published_dtype(component: Component) -> Dtype {
    match component {
        Component::LanguageModel | Component::RvqDepthDecoder => Dtype::BF16,
        Component::ConditionEncoder | Component::Transformer | Component::Vocoder => Dtype::F32,
    }
}

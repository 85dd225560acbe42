//! Checkpoints of random values in the published layout: for timing, and for whole runs at sizes whose weights are not
//! at hand. What each file holds is planned first, from the configs and the weights mapping, and nothing is written
//! before.

mod file;
mod values;
mod write;

use std::{collections::BTreeSet, path::PathBuf};

use safetensors::Dtype;
use serde_json::Value;

pub use self::{
    file::{SynthFile, SynthTensor},
    write::WriteError,
};
use crate::{
    component::Component,
    config::Words,
    error::WeightsError,
    layout::Layout,
    rows::expand,
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
        let (mut files, mut texts, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        for SynthComponent { component, config, max_shard_bytes } in components {
            let folder = PathBuf::from(component.folder());
            texts.push((folder.join("config.json"), pretty(config)));
            let expanded =
                Words::read(*component, Layout::Diffusers, config).and_then(|words| expand(*component, &words));
            let stored = match expanded {
                Ok(expanded) => expanded.wanted.iter().flat_map(|row| row.stored()).collect::<Vec<_>>(),
                Err(found) => {
                    problems.extend(found);
                    continue;
                }
            };
            // A name that two rows read, such as a tied head, is stored once.
            let mut seen = BTreeSet::new();
            let once = stored.into_iter().filter(|stored| seen.insert(stored.name.clone()));
            let tensors = once.map(|stored| SynthTensor::new(*component, &stored.name, stored.shape, seed));
            let shards = into_shards(tensors, SynthTensor::bytes, *max_shard_bytes);
            let stem = component.weights_stem();
            let names = shard_names(stem, shards.len());
            if shards.len() > 1 {
                let tensors: Vec<Vec<&str>> =
                    shards.iter().map(|shard| shard.iter().map(SynthTensor::name).collect()).collect();
                let total = shards.iter().flatten().map(SynthTensor::bytes).sum();
                texts.push((folder.join(format!("{stem}.safetensors.index.json")), index(&names, &tensors, total)));
            }
            let shards = names.iter().zip(shards).map(|(name, shard)| SynthFile::new(folder.join(name), shard));
            files.extend(shards);
        }
        WeightsError::unless_empty(problems)?;
        Ok(Self { files, texts })
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

/// The dtype that a component is published in.
fn published_dtype(component: Component) -> Dtype {
    match component {
        Component::LanguageModel | Component::RvqDepthDecoder => Dtype::BF16,
        Component::ConditionEncoder | Component::Transformer | Component::Vocoder => Dtype::F32,
    }
}

//! Random checkpoints: the published layout with values made up on the spot, for timing and for whole runs where the
//! weights are not at hand.

use std::{
    fs, io,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use music3_weights::{
    Checkpoint, Component, Layout, NewFolder, NewFolderError, SynthCheckpoint, SynthComponent, WeightsError, WriteError,
};
use serde_json::{Value, json};

use crate::{configs::ModelConfigs, demo, error::SongError};

/// The published configurations, as upstream's classes state them.
static CONTRACT: &str = include_str!("../../../weights-mapping/contract.json");

/// What the demo checkpoint has and every other one needs: files that do not depend on dimensions.
const COMMON_FILES: [&str; 5] = [
    "tokenizer/tokenizer.json",
    "tokenizer/tokenizer_config.json",
    "modular_model_index.json",
    "language_model/generation_config.json",
    "scheduler/scheduler_config.json",
];

/// Where the native layout has the first of them. It has none of the others.
const NATIVE_COMMON_FILES: [&str; 2] =
    ["qwen_7B/qwen3-8B-tokenizer-music/tokenizer.json", "qwen_7B/qwen3-8B-tokenizer-music/tokenizer_config.json"];

/// Upstream's libraries start another file after so many bytes of weights.
const MAX_SHARD_BYTES: u64 = 5_000_000_000;

/// Dimensions of a random checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dims {
    /// The demo checkpoint's: 26 MB.
    Demo,
    /// The published ones: 28.5 GB.
    Published,
}

/// Why there is no random checkpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SynthError {
    /// There is no place for the folder.
    #[error(transparent)]
    Folder(#[from] NewFolderError),
    /// The system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A weight file could not be written, or the work was stopped.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The configurations cannot be planned.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The demo checkpoint, which the small files come from, could not be opened.
    #[error(transparent)]
    Demo(#[from] SongError),
}

/// A random checkpoint that is planned and not yet written.
#[derive(Debug, Clone)]
pub struct RandomCheckpoint {
    plan: SynthCheckpoint,
    /// Where the files that do not depend on dimensions are taken from.
    demo: PathBuf,
    layout: Layout,
}

impl RandomCheckpoint {
    /// Plans one.
    ///
    /// # Errors
    /// The demo checkpoint cannot be unpacked.
    pub fn new(dims: Dims, seed: u64) -> Result<Self, SynthError> {
        Self::of_layout(dims, Layout::Diffusers, seed)
    }

    /// Plans one in a layout; the same seed gives the same values in both.
    ///
    /// # Errors
    /// The demo checkpoint cannot be unpacked.
    pub fn of_layout(dims: Dims, layout: Layout, seed: u64) -> Result<Self, SynthError> {
        let demo = demo::unpack(demo::Demo::Random)?;
        let configs = raw_configs(dims, &demo)?;
        let components = Component::ALL.map(|component| SynthComponent {
            component,
            config: configs[component as usize].clone(),
            max_shard_bytes: max_shard_bytes(dims, component),
        });
        let plan = match layout {
            Layout::Diffusers => SynthCheckpoint::plan(&components, seed)?,
            Layout::Native => SynthCheckpoint::plan_native(&components, seed)?,
        };
        Ok(Self { plan, demo, layout })
    }

    /// Returns the bytes that it takes, but for a few kilobytes.
    pub fn bytes(&self) -> u64 {
        self.plan.bytes()
    }

    /// Writes it under the name `out`, which appears only when it is whole. `progress` is told how many bytes of tensors
    /// are written, by any thread, and stops the work by returning `Break`; then nothing is left.
    ///
    /// # Errors
    /// `out` exists, the disk is too full, or a file cannot be written.
    pub fn write(&self, out: &Path, progress: &(dyn Fn(u64) -> ControlFlow<()> + Sync)) -> Result<(), SynthError> {
        let fresh = NewFolder::begin(out, self.bytes())?;
        let names = match self.layout {
            Layout::Diffusers => COMMON_FILES.as_slice(),
            Layout::Native => NATIVE_COMMON_FILES.as_slice(),
        };
        for (name, to) in COMMON_FILES.iter().zip(names) {
            let path = fresh.path().join(to);
            let folder = path.parent().unwrap_or(fresh.path());
            fs::create_dir_all(folder)
                .and_then(|()| fs::copy(self.demo.join(name), &path))
                .map_err(|source| SynthError::Io { path, source })?;
        }
        self.plan.write(fresh.path(), progress)?;
        Ok(fresh.finish()?)
    }
}

impl ModelConfigs {
    /// Returns the configurations of given dimensions, without a checkpoint.
    ///
    /// # Errors
    /// The demo checkpoint cannot be unpacked.
    pub fn of_dims(dims: Dims) -> Result<Self, SongError> {
        let configs = raw_configs(dims, &demo::unpack(demo::Demo::Random)?)?;
        Self::from_values(|component| &configs[component as usize])
    }
}

/// The config.json of each component, in the order of [`Component::ALL`].
fn raw_configs(dims: Dims, demo: &Path) -> Result<[Value; 5], SongError> {
    let demo = Checkpoint::open(demo)?;
    let contract: Value = serde_json::from_str(CONTRACT).expect("a file of the tree, which tests read");
    Ok(Component::ALL.map(|component| {
        let mut config = demo.component(component).config().clone();
        if dims == Dims::Published {
            let published = contract["configs"][component.folder()].as_object().into_iter().flatten();
            published.for_each(|(key, value)| config[key] = value.clone());
            if component == Component::LanguageModel {
                let layers = config["num_hidden_layers"].as_u64().unwrap_or_default();
                config["layer_types"] = json!(vec!["full_attention"; layers as usize]);
            }
        }
        config
    }))
}

/// The demo checkpoint splits the components that are published in several files, small as they are.
fn max_shard_bytes(dims: Dims, component: Component) -> u64 {
    match (dims, component) {
        (Dims::Demo, Component::LanguageModel) => 12_900_000,
        (Dims::Demo, Component::Transformer) => 120_000,
        _ => MAX_SHARD_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go_on(_written: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    #[test]
    fn the_published_plan_takes_what_the_published_files_take() {
        let plan = RandomCheckpoint::new(Dims::Published, 0).expect("a plan");
        // 28 517 617 303 with a tokenizer of 11 MB.
        assert!((28_505_979_820..28_507_000_000).contains(&plan.bytes()), "{}", plan.bytes());
        let configs = ModelConfigs::of_dims(Dims::Published).expect("configurations that fit each other");
        assert_eq!((configs.language_model.num_hidden_layers, configs.transformer.num_layers), (36, 36));
        assert_eq!(configs.language_model.rope_theta(), 1e6);
    }

    #[test]
    fn a_demo_sized_one_opens_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let out = folder.path().join("random");
        let plan = RandomCheckpoint::new(Dims::Demo, 1).expect("a plan");
        plan.write(&out, &go_on).expect("a checkpoint");
        let checkpoint = Checkpoint::open(&out).expect("a checkpoint");
        checkpoint.plans().expect("every tensor in its place");
        let demo = Checkpoint::open(demo::unpack(demo::Demo::Random).expect("the demo")).expect("a checkpoint");
        for component in Component::ALL {
            let [made, original] = [&checkpoint, &demo].map(|checkpoint| checkpoint.component(component).summary());
            assert_eq!(made, original, "files, tensors, dtypes and bytes");
        }
        assert!(matches!(plan.write(&out, &go_on), Err(SynthError::Folder(NewFolderError::Exists { .. }))));
        let names: Vec<_> = fs::read_dir(folder.path()).expect("the folder").collect();
        assert_eq!(names.len(), 1, "nothing else is left");
    }

    #[test]
    fn leaves_nothing_when_it_is_stopped() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let plan = RandomCheckpoint::new(Dims::Demo, 1).expect("a plan");
        let stopped = plan.write(&folder.path().join("random"), &|_| ControlFlow::Break(()));
        assert!(matches!(stopped, Err(SynthError::Write(WriteError::Stopped { .. }))), "{stopped:?}");
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
    }
}

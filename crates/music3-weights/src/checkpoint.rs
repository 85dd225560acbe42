//! A checkpoint folder in the diffusers layout: five component folders and the tokenizer's.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use burn::{module::Module, tensor::backend::Backend};
use music3_nn::Width;
use serde_json::Value;

use crate::{
    agreement::disagreements,
    component::Component,
    config::wrong_class,
    error::WeightsError,
    json::{check_inside, read_json},
    layout::expect_diffusers,
    load::{Progress, load_module},
    plan::Plan,
    problem::Problem,
    shards::Shards,
};

/// An opened checkpoint: configs and headers are read, tensors are not.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    folders: [ComponentFolder; 5],
    tokenizer: PathBuf,
}

impl Checkpoint {
    /// Opens every folder.
    ///
    /// # Errors
    /// When the path is another kind of package, by name; otherwise with everything that is missing or unreadable in
    /// all of the folders.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, WeightsError> {
        let path = path.into();
        expect_diffusers(&path)?;
        let mut problems = Vec::new();
        let folders = Component::ALL.map(|component| {
            ComponentFolder::open(&path, component).map_err(|error| problems.extend(error.into_problems())).ok()
        });
        let tokenizer = path.join("tokenizer");
        problems.extend(tokenizer_problem(&path, &tokenizer));
        WeightsError::unless_empty(problems)?;
        let folders = folders.map(|folder| folder.expect("a folder that did not open left a problem"));
        Ok(Self { path, folders, tokenizer })
    }

    /// The checkpoint's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tokenizer's folder.
    pub fn tokenizer(&self) -> &Path {
        &self.tokenizer
    }

    /// The folder of a component.
    pub fn component(&self, component: Component) -> &ComponentFolder {
        &self.folders[component as usize]
    }

    /// All component folders, in the order of [`Component::ALL`].
    pub fn components(&self) -> &[ComponentFolder] {
        &self.folders
    }

    /// Plans every component, so that all that is wrong with a checkpoint is said before any of it is loaded.
    ///
    /// # Errors
    /// With the problems of all plans, and with the sizes that two components should share and do not.
    pub fn plans(&self) -> Result<[Plan; 5], WeightsError> {
        let mut problems = Vec::new();
        let plans = Component::ALL.map(|component| {
            self.component(component).plan().map_err(|error| problems.extend(error.into_problems())).ok()
        });
        problems.extend(disagreements(|component| self.component(component).config()));
        WeightsError::unless_empty(problems)?;
        Ok(plans.map(|plan| plan.expect("a plan that failed left a problem")))
    }
}

/// One component's folder: its config and its weight files.
#[derive(Debug)]
pub struct ComponentFolder {
    component: Component,
    config: Value,
    shards: Shards,
}

impl ComponentFolder {
    /// Opens the component's folder in `checkpoint`.
    ///
    /// # Errors
    /// With everything that is missing or unreadable in it, and when its config names another class.
    pub fn open(checkpoint: &Path, component: Component) -> Result<Self, WeightsError> {
        let folder = checkpoint.join(component.folder());
        if !folder.is_dir() {
            let what = format!("the folder {}", component.folder());
            return Err(Problem::Absent { path: checkpoint.to_owned(), what }.into());
        }
        check_inside(checkpoint, &folder)?;
        let stem = component.weights_stem();
        let config = open_config(&folder, component);
        let shards = Shards::open(&folder, &format!("{stem}.safetensors.index.json"), &format!("{stem}.safetensors"));
        match (config, shards) {
            (Ok(config), Ok(shards)) => Ok(Self { component, config, shards }),
            (config, shards) => {
                let problems = [config.err(), shards.err()].into_iter().flatten();
                Err(WeightsError::from_problems(problems.flat_map(WeightsError::into_problems).collect()))
            }
        }
    }

    /// The component.
    pub fn component(&self) -> Component {
        self.component
    }

    /// The parsed config.json.
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// The weight files.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    /// Plans a load of this component.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn plan(&self) -> Result<Plan, WeightsError> {
        Plan::new(self.component, &self.config, &self.shards)
    }

    /// Plans, then fills `module`, which was built from this folder's config. See [`load_module`].
    ///
    /// # Errors
    /// As [`Plan::new`] and [`load_module`].
    pub fn load<B: Backend, M: Module<B>>(
        &self,
        module: M,
        width: Width,
        progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<M, WeightsError> {
        load_module::<B, M>(module, &self.plan()?, &self.shards, width, progress)
    }
}

fn open_config(folder: &Path, component: Component) -> Result<Value, WeightsError> {
    let path = folder.join("config.json");
    if path.symlink_metadata().is_err() {
        return Err(Problem::Absent { path: folder.to_owned(), what: "config.json".to_owned() }.into());
    }
    let config = read_json(folder, &path)?;
    match wrong_class(component, &config) {
        Some(problem) => Err(problem.into()),
        None => Ok(config),
    }
}

fn tokenizer_problem(checkpoint: &Path, folder: &Path) -> Option<Problem> {
    let absent = |path: &Path, what: &str| Some(Problem::Absent { path: path.to_owned(), what: what.to_owned() });
    let holds = |name: &str| folder.join(name).is_file();
    match () {
        () if !folder.is_dir() => absent(checkpoint, "the folder tokenizer"),
        () if !holds("tokenizer.json") => absent(folder, "tokenizer.json"),
        () => check_inside(checkpoint, folder).err().map(Problem::from),
    }
}

//! A checkpoint folder in either layout: five components and the tokenizer.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
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
    layout::{Layout, detect},
    load::{Progress, load_module},
    mapping::Mapping,
    native,
    plan::Plan,
    problem::Problem,
    shards::Shards,
    source::{TensorEntry, TensorSource, TensorView},
    weight_files::WeightFiles,
};

/// An opened checkpoint: configs and headers are read, tensors are not.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    layout: Layout,
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
        let layout = detect(&path)?;
        let mut problems = Vec::new();
        let folders = match layout {
            Layout::Diffusers => Component::ALL.map(|component| {
                ComponentFolder::open(&path, component).map_err(|error| problems.extend(error.into_problems())).ok()
            }),
            Layout::Native => native::open(&path, &mut problems),
        };
        let tokenizer = match layout {
            Layout::Diffusers => "tokenizer",
            Layout::Native => native::TOKENIZER,
        };
        problems.extend(tokenizer_problem(&path, tokenizer));
        let tokenizer = path.join(tokenizer);
        WeightsError::unless_empty(problems)?;
        let folders = folders.map(|folder| folder.expect("a folder that did not open left a problem"));
        Ok(Self { path, layout, folders, tokenizer })
    }

    /// The checkpoint's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How its weights are packed.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The tensors that its files hold and the model does not need: the encoder's, in the native layout.
    pub fn left_out(&self) -> Vec<TensorEntry<'_>> {
        if self.layout == Layout::Diffusers {
            return Vec::new();
        }
        let vocoder = self.component(Component::Vocoder);
        vocoder.files.entries().into_iter().filter(|entry| !vocoder.holds(entry.name)).collect()
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

/// One component's config and weight files. As a source of tensors it holds the component's own.
#[derive(Debug)]
pub struct ComponentFolder {
    component: Component,
    layout: Layout,
    config: Value,
    config_path: Option<PathBuf>,
    /// Several components share files in the native layout.
    files: Arc<WeightFiles>,
}

impl ComponentFolder {
    pub(crate) fn new(
        component: Component,
        layout: Layout,
        config: Value,
        config_path: Option<PathBuf>,
        files: Arc<WeightFiles>,
    ) -> Self {
        Self { component, layout, config, config_path, files }
    }

    /// Opens the component's folder in `checkpoint`, which has the diffusers layout.
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
            (Ok(config), Ok(shards)) => {
                let files = Arc::new(WeightFiles::Safetensors(shards));
                Ok(Self::new(component, Layout::Diffusers, config, Some(folder.join("config.json")), files))
            }
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

    /// The config that upstream's class has: the parsed config.json, or what the native layout's stands for.
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// The config's file, where the layout has one for this component.
    pub fn config_path(&self) -> Option<&Path> {
        self.config_path.as_deref()
    }

    /// The weight files, which may hold other components too.
    pub fn files(&self) -> Vec<&Path> {
        self.files.paths()
    }

    fn holds(&self, name: &str) -> bool {
        Mapping::of(self.component, self.layout).names.take(name)
    }

    /// Plans a load of this component.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn plan(&self) -> Result<Plan, WeightsError> {
        let plan = Plan::of_layout(self.component, self.layout, &self.config, self);
        plan.map_err(|error| {
            let mut problems = error.into_problems();
            if self.config_path.is_none() {
                problems.push(Problem::PublishedSize { component: self.component });
            }
            WeightsError::from_problems(problems)
        })
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
        load_module::<B, M>(module, &self.plan()?, self, width, progress)
    }
}

impl TensorSource for ComponentFolder {
    fn entries(&self) -> Vec<TensorEntry<'_>> {
        self.files.entries().into_iter().filter(|entry| self.holds(entry.name)).collect()
    }

    fn tensor(&self, name: &str) -> Result<TensorView<'_>, WeightsError> {
        self.files.tensor(name)
    }

    fn prefetch(&self, name: &str) {
        self.files.prefetch(name);
    }

    fn release(&self, name: &str) {
        self.files.release(name);
    }
}

fn open_config(folder: &Path, component: Component) -> Result<Value, WeightsError> {
    let path = folder.join("config.json");
    if path.symlink_metadata().is_err() {
        return Err(Problem::Absent { path: folder.to_owned(), what: "config.json".to_owned() }.into());
    }
    let config = read_json(folder, &path)?;
    match wrong_class(component, Layout::Diffusers, &config) {
        Some(problem) => Err(problem.into()),
        None => Ok(config),
    }
}

fn tokenizer_problem(checkpoint: &Path, name: &str) -> Option<Problem> {
    let folder = &checkpoint.join(name);
    let absent = |path: &Path, what: &str| Some(Problem::Absent { path: path.to_owned(), what: what.to_owned() });
    let holds = |name: &str| folder.join(name).is_file();
    match () {
        () if !folder.is_dir() => absent(checkpoint, &format!("the folder {name}")),
        () if !holds("tokenizer.json") => absent(folder, "tokenizer.json"),
        () => check_inside(checkpoint, folder).err().map(Problem::from),
    }
}

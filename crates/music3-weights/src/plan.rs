//! A plan: every parameter of a component, and the stored tensors that make it, checked before any byte is read.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use burn::{module::Module, tensor::backend::Backend};
use safetensors::Dtype;
use serde_json::Value;

use crate::{
    component::Component,
    config::Words,
    error::WeightsError,
    layout::Layout,
    mapping::Operation,
    nearest::nearest,
    parameters::parameters,
    problem::Problem,
    rows::{Expanded, Stored, Wanted, expand, part_row},
    source::{TensorEntry, TensorSource, TensorView},
};

/// How every parameter of a component, or of a part of one, is made.
#[derive(Debug, Clone)]
pub struct Plan {
    component: Component,
    rows: BTreeMap<String, PlanRow>,
}

/// How one parameter is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRow {
    /// The parameter's path in our module.
    pub path: String,
    /// What is done with the stored tensors.
    pub operation: Operation,
    /// Their names in the checkpoint, in the order the operation takes them.
    pub stored: Vec<String>,
    /// The parameter's shape.
    pub shape: Vec<usize>,
    /// The bytes of the stored tensors that are read.
    pub bytes: u64,
}

impl PlanRow {
    /// The stored values that make the parameter, in the order the operation takes them; of a tensor that several
    /// parameters share, this one's part.
    ///
    /// # Errors
    /// When the source has no such tensor.
    pub fn views<'a>(&'a self, source: &'a dyn TensorSource) -> Result<Vec<TensorView<'a>>, WeightsError> {
        match self.operation {
            Operation::FoldWeightNorm => self.stored.iter().map(|name| source.tensor(name)).collect(),
            Operation::Identity | Operation::Split { .. } => Ok(vec![self.view(source)?]),
        }
    }

    /// The stored values of a parameter that is one tensor, or a part of one.
    pub(crate) fn view<'a>(&'a self, source: &'a dyn TensorSource) -> Result<TensorView<'a>, WeightsError> {
        let name = self.stored.first().expect("every operation takes at least one tensor");
        let whole = source.tensor(name)?;
        let (part, parts) = match self.operation {
            Operation::Split { part, parts } => (part, parts),
            Operation::Identity | Operation::FoldWeightNorm => (0, 1),
        };
        let bytes = whole.data.len() / parts;
        let data = &whole.data[part * bytes..(part + 1) * bytes];
        let entry = TensorEntry { shape: &self.shape, bytes: bytes as u64, ..whole.entry };
        Ok(TensorView { entry, data })
    }
}

impl Plan {
    /// Plans a whole component.
    ///
    /// # Errors
    /// With everything that is wrong: config values that the model does not support, and tensors that are missing,
    /// unused, given twice, or of another shape or dtype.
    pub fn new(component: Component, config: &Value, source: &dyn TensorSource) -> Result<Self, WeightsError> {
        Self::of_layout(component, Layout::Diffusers, config, source)
    }

    /// Plans a whole component whose tensors are stored as `layout` names them. The config is that of upstream's class.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn of_layout(
        component: Component,
        layout: Layout,
        config: &Value,
        source: &dyn TensorSource,
    ) -> Result<Self, WeightsError> {
        let expanded = Words::read(component, layout, config).and_then(|words| expand(component, &words));
        match expanded {
            Ok(expanded) => Self::checked(component, expanded, source),
            Err(problems) => Err(WeightsError::from_problems(problems)),
        }
    }

    /// Plans a module that is only a part of a component, such as `transformer_blocks.{i}` or `snake_out`, whose
    /// tensors are stored under their names within the part. The shapes are those of the module.
    ///
    /// # Errors
    /// As [`Plan::new`]; also when the module has a parameter that the part does not.
    pub fn for_part<B: Backend, M: Module<B>>(
        component: Component,
        part: &str,
        module: &M,
        source: &dyn TensorSource,
    ) -> Result<Self, WeightsError> {
        let (mut wanted, mut problems) = (Vec::new(), Vec::new());
        for parameter in parameters::<B, M>(module) {
            match part_row(component, part, &parameter.path, &parameter.shape) {
                Some(row) => wanted.push(row),
                None => problems.push(Problem::NoRow { component, path: parameter.path }),
            }
        }
        WeightsError::unless_empty(problems)?;
        Self::checked(component, Expanded { wanted, ignored: BTreeSet::new() }, source)
    }

    /// The component that is planned.
    pub fn component(&self) -> Component {
        self.component
    }

    /// The rows in the order of their paths.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &PlanRow> {
        self.rows.values()
    }

    /// The row of one parameter.
    pub fn row(&self, path: &str) -> Option<&PlanRow> {
        self.rows.get(path)
    }

    fn checked(component: Component, expanded: Expanded, source: &dyn TensorSource) -> Result<Self, WeightsError> {
        let mut check = Check::new(component, source);
        let rows: BTreeMap<_, _> =
            expanded.wanted.iter().map(|wanted| (wanted.path.clone(), check.row(wanted))).collect();
        WeightsError::unless_empty(check.finish(&expanded.ignored))?;
        Ok(Self { component, rows })
    }
}

/// Compares what is wanted with what is stored.
struct Check<'a> {
    component: Component,
    entries: BTreeMap<&'a str, TensorEntry<'a>>,
    used: BTreeSet<&'a str>,
    missing: Vec<String>,
    problems: Vec<Problem>,
}

impl<'a> Check<'a> {
    fn new(component: Component, source: &'a dyn TensorSource) -> Self {
        let mut check = Self {
            component,
            entries: BTreeMap::new(),
            used: BTreeSet::new(),
            missing: Vec::new(),
            problems: Vec::new(),
        };
        for entry in source.entries() {
            if let Some(first) = check.entries.insert(entry.name, entry) {
                check.problems.push(Problem::Duplicate {
                    file: first.file.to_owned(),
                    name: entry.name.to_owned(),
                    other: Some(entry.file.to_owned()),
                });
            }
        }
        check
    }

    fn row(&mut self, wanted: &Wanted) -> PlanRow {
        let stored = wanted.stored();
        let bytes: u64 = stored.iter().map(|stored| self.tensor(stored)).sum();
        let bytes = match wanted.operation {
            Operation::Split { parts, .. } => bytes / parts as u64,
            _ => bytes,
        };
        PlanRow {
            path: wanted.path.clone(),
            operation: wanted.operation,
            stored: stored.into_iter().map(|stored| stored.name).collect(),
            shape: wanted.shape.clone(),
            bytes,
        }
    }

    /// Checks one stored tensor and returns its bytes.
    fn tensor(&mut self, wanted: &Stored) -> u64 {
        let Some(entry) = self.entries.get(wanted.name.as_str()).copied() else {
            if self.missing.last() != Some(&wanted.name) {
                self.missing.push(wanted.name.clone());
            }
            return 0;
        };
        if !self.used.insert(entry.name) {
            // Another row reads it too, and has asked for the same shape.
            return entry.bytes;
        }
        let (component, name, file) = (self.component, wanted.name.clone(), entry.file.to_owned());
        if entry.shape != wanted.shape {
            let words = if wanted.words.is_empty() { String::new() } else { format!("[{}]", wanted.words.join(", ")) };
            self.problems.push(Problem::Shape {
                component,
                name,
                file,
                found: entry.shape.to_vec(),
                expected: wanted.shape.clone(),
                words,
            });
        } else if !matches!(entry.dtype, Dtype::F32 | Dtype::BF16) {
            self.problems.push(Problem::Dtype { component, name, file, found: entry.dtype });
        }
        entry.bytes
    }

    fn finish(mut self, ignored: &BTreeSet<String>) -> Vec<Problem> {
        /// Suggestions past this many would not be read, and their cost grows with the square.
        const MOST_SUGGESTIONS: usize = 40;
        let used = |name: &str| self.used.contains(name) || ignored.contains(name);
        let unused: Vec<_> = self.entries.values().filter(|entry| !used(entry.name)).collect();
        let file = common_place(self.entries.values().map(|entry| entry.file));
        let missing = self.missing.into_iter().enumerate().map(|(place, name)| Problem::Missing {
            component: self.component,
            file: file.clone(),
            nearest: match place < MOST_SUGGESTIONS {
                true => nearest(&name, unused.iter().map(|entry| entry.name)).map(str::to_owned),
                false => None,
            },
            name,
        });
        self.problems.extend(missing);
        self.problems.extend(unused.into_iter().map(|entry| Problem::Unused {
            component: self.component,
            name: entry.name.to_owned(),
            file: entry.file.to_owned(),
        }));
        self.problems
    }
}

/// The file that all tensors are in, or the folder of their files.
fn common_place<'a>(mut files: impl Iterator<Item = &'a Path>) -> Option<PathBuf> {
    let first = files.next()?;
    match files.all(|file| file == first) {
        true => Some(first.to_owned()),
        false => first.parent().map(Path::to_owned),
    }
}

//! What can be wrong with a checkpoint.

use std::path::PathBuf;

use safetensors::Dtype;

use crate::{component::Component, file_error::FileError};

/// One thing that is wrong with a checkpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A file that cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The folder is not a checkpoint that this program reads.
    #[error("{}: {found}; {remedy}", path.display())]
    Layout {
        /// The path given.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What to pass instead.
        remedy: &'static str,
    },
    /// A part of the checkpoint is not there.
    #[error("{}: {what} is missing", path.display())]
    Absent {
        /// The checkpoint folder or one of its folders.
        path: PathBuf,
        /// The missing file or folder.
        what: String,
    },
    /// Both a single file and an index of shards.
    #[error("{}: holds both {single} and {index}; keep the one whose tensors you want", path.display())]
    TwoSets {
        /// The folder.
        path: PathBuf,
        /// The single file.
        single: String,
        /// The index.
        index: String,
    },
    /// The config belongs to another class.
    #[error("{component}: config.json has {key} {found}, expected {expected}")]
    Class {
        /// The component.
        component: Component,
        /// The config key.
        key: String,
        /// Its value, or "nothing".
        found: String,
        /// The class this component is.
        expected: String,
    },
    /// A config value that the model does not support.
    #[error("{component}: config.json has {key} {found}, expected {expected}")]
    ConfigValue {
        /// The component.
        component: Component,
        /// The config key.
        key: String,
        /// Its value.
        found: String,
        /// What is supported.
        expected: String,
    },
    /// The tensors are not those of the published size, and nothing says that they should be others.
    #[error(
        "{component}: the native layout has no config for it, so the published size is expected; a checkpoint of another size has {component}.json, as upstream's class writes it, beside its .pth files"
    )]
    PublishedSize {
        /// The component.
        component: Component,
    },
    /// The config values fit no tensor shape.
    #[error("{component}: config.json gives `{name}` no shape: {reason}")]
    NoShape {
        /// The component.
        component: Component,
        /// The tensor or the row of the mapping.
        name: String,
        /// Why not.
        reason: String,
    },
    /// A tensor that the model needs.
    #[error("{component}: tensor `{name}` is missing{}{}", file.as_ref().map_or(String::new(), |file| format!(" ({})", file.display())), nearest.as_ref().map_or(String::new(), |nearest| format!("; the nearest unused name is `{nearest}`")))]
    Missing {
        /// The component.
        component: Component,
        /// The tensor's name in the checkpoint.
        name: String,
        /// The file that should hold it, or the folder of the files.
        file: Option<PathBuf>,
        /// The unused tensor whose name is most like it.
        nearest: Option<String>,
    },
    /// A tensor that nothing reads.
    #[error("{component}: tensor `{name}` is not used ({})", file.display())]
    Unused {
        /// The component.
        component: Component,
        /// The tensor.
        name: String,
        /// Its file.
        file: PathBuf,
    },
    /// A tensor of another shape.
    #[error("{component}: tensor `{name}` has shape {found:?}, expected {expected:?}{} ({})", in_words(words), file.display())]
    Shape {
        /// The component.
        component: Component,
        /// The tensor.
        name: String,
        /// Its file.
        file: PathBuf,
        /// Its shape.
        found: Vec<usize>,
        /// The shape the config asks for.
        expected: Vec<usize>,
        /// The same in config words; empty where the shape comes from a module.
        words: String,
    },
    /// A tensor of a dtype that weights cannot have.
    #[error("{component}: tensor `{name}` has dtype {found}, expected F32 or BF16 ({})", file.display())]
    Dtype {
        /// The component.
        component: Component,
        /// The tensor.
        name: String,
        /// Its file.
        file: PathBuf,
        /// Its dtype.
        found: Dtype,
    },
    /// A name that a file, an index or two shards give twice.
    #[error("{}: `{name}` occurs twice{}", file.display(), other.as_ref().map_or(String::new(), |other| format!(", also in {}", other.display())))]
    Duplicate {
        /// The file.
        file: PathBuf,
        /// The name.
        name: String,
        /// The other file, where there is one.
        other: Option<PathBuf>,
    },
    /// The index names a tensor that its file does not hold.
    #[error("{}: tensor `{name}` is said to be in {file}, which does not hold it{}", index.display(), holder.as_ref().map_or(String::new(), |holder| format!("; {holder} does")))]
    NotInShard {
        /// The index.
        index: PathBuf,
        /// The tensor.
        name: String,
        /// The shard that the index names.
        file: String,
        /// The shard that holds it, where one does.
        holder: Option<String>,
    },
    /// A shard holds a tensor that the index does not name.
    #[error("{}: tensor `{name}` is in {file}, but not in the index", index.display())]
    NotInIndex {
        /// The index.
        index: PathBuf,
        /// The tensor.
        name: String,
        /// The shard that holds it.
        file: String,
    },
    /// Weight norm divides by a row's norm, which is not a positive number.
    #[error("{component}: row {row} of `{name}` has norm {norm}; weight norm cannot be folded ({})", file.display())]
    RowNorm {
        /// The component.
        component: Component,
        /// The tensor.
        name: String,
        /// Its file.
        file: PathBuf,
        /// The row, from 0.
        row: usize,
        /// Its norm.
        norm: f32,
    },
    /// A parameter of the module that the mapping has no row for: an error of the program, not of the checkpoint.
    #[error("{component}: parameter `{path}` has no row in the mapping; this is a bug")]
    NoRow {
        /// The component.
        component: Component,
        /// The parameter's path.
        path: String,
    },
    /// A row whose parameter the module lacks: an error of the program, or a plan for another config.
    #[error("{component}: the module has no parameter `{path}`; it was built from another config, or this is a bug")]
    NoParameter {
        /// The component.
        component: Component,
        /// The row's path.
        path: String,
    },
    /// A parameter whose shape is not the plan's.
    #[error(
        "{component}: parameter `{path}` was built with shape {found:?}, the config gives {expected:?}; this is a bug"
    )]
    ModuleShape {
        /// The component.
        component: Component,
        /// The parameter's path.
        path: String,
        /// The module's shape.
        found: Vec<usize>,
        /// The plan's shape.
        expected: Vec<usize>,
    },
}

fn in_words(words: &str) -> String {
    match words {
        "" => String::new(),
        words => format!(" = {words}"),
    }
}

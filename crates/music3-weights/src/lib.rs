//! Checkpoint folders to Burn modules, driven by the weights-mapping files.

mod agreement;
mod checkpoint;
mod component;
mod config;
mod error;
mod expression;
mod file;
mod file_error;
mod fold;
mod json;
mod layout;
mod load;
mod mapping;
mod nearest;
mod parameters;
mod plan;
mod problem;
mod rows;
mod shards;
mod source;
mod summary;
mod synth;

pub use checkpoint::{Checkpoint, ComponentFolder};
pub use component::Component;
pub use error::{Problems, WeightsError};
pub use file::{Prefixed, SafetensorsFile};
pub use file_error::FileError;
pub use load::{Progress, load_module};
pub use mapping::Operation;
pub use plan::{Plan, PlanRow};
pub use problem::Problem;
pub use safetensors::Dtype;
pub use shards::Shards;
pub use source::{TensorEntry, TensorSource, TensorView};
pub use summary::{CheckpointSummary, ComponentSummary};
pub use synth::{SynthCheckpoint, SynthComponent, SynthFile, SynthTensor, WriteError};

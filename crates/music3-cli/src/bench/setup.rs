//! The modules of a benchmark: read from a checkpoint, or drawn on the device; and their inputs.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Instant,
};

use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::{Distribution, Tensor, backend::Backend},
};
use music3::{ModelConfigs, Precision, SongError, synth::Dims};
use music3_nn::{Width, ops};
use music3_weights::{Checkpoint, Component, WeightsError};
use serde::Serialize;

use super::timing::finish;
use crate::{
    failure::{Failure, chain},
    figures,
    interrupt::Interrupt,
    memory,
};

/// Where weights come from.
#[derive(Clone, Debug)]
pub(super) enum Weights {
    /// A checkpoint folder.
    Folder(PathBuf),
    /// A generator on the device.
    Drawn(Dims),
}

/// What came onto the device, and how long that took.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Staging {
    /// Bytes as they are stored there.
    pub(super) bytes: u64,
    pub(super) seconds: f64,
}

/// Builds the modules that are asked for, and no others.
pub(super) struct Builder<'a, B: Backend> {
    pub(super) configs: ModelConfigs,
    pub(super) precision: Precision,
    pub(super) device: B::Device,
    pub(super) staging: Staging,
    /// Opening what the modules are built from: configurations, headers, tokenizer.
    pub(super) load_seconds: f64,
    checkpoint: Option<Checkpoint>,
    interrupt: &'a Interrupt,
}

impl<'a, B: Backend> Builder<'a, B> {
    /// Opens a checkpoint, or finds the dimensions to draw at.
    pub(super) fn open(
        weights: &Weights,
        precision: Precision,
        device: B::Device,
        interrupt: &'a Interrupt,
    ) -> Result<Self, Failure> {
        let start = Instant::now();
        let (checkpoint, configs) = match weights {
            Weights::Folder(folder) => {
                let checkpoint = Checkpoint::open(folder).map_err(SongError::from)?;
                let configs = ModelConfigs::read(&checkpoint)?;
                (Some(checkpoint), configs)
            }
            Weights::Drawn(dims) => (None, ModelConfigs::of_dims(*dims)?),
        };
        let load_seconds = start.elapsed().as_secs_f64();
        Ok(Self { configs, precision, device, staging: Staging::default(), load_seconds, checkpoint, interrupt })
    }

    /// Returns the folder of the tokenizer.
    pub(super) fn tokenizer(&self) -> Result<PathBuf, Failure> {
        match &self.checkpoint {
            Some(checkpoint) => Ok(checkpoint.tokenizer().to_owned()),
            None => Ok(music3::demo::unpack(music3::demo::Demo::Random)?.join(Path::new("tokenizer"))),
        }
    }

    /// Returns the bytes that a stored value takes.
    pub(super) fn value_bytes(&self, width: Width) -> usize {
        width.store_dtype::<B>(&self.device).size()
    }

    /// Fills a module that is not initialised yet, on the device.
    ///
    /// # Errors
    /// It does not fit into memory, or its weights cannot be read.
    pub(super) fn fill<M: Module<B>>(&mut self, module: M, component: Component, width: Width) -> Result<M, Failure> {
        let bytes = values(&module) * self.value_bytes(width) as u64;
        self.refuse_what_cannot_fit(component, bytes)?;
        let start = Instant::now();
        let module = match &self.checkpoint {
            Some(checkpoint) => {
                let mut stop = |_: music3_weights::Progress<'_>| match self.interrupt.asked() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                };
                checkpoint.component(component).load::<B, M>(module, width, &mut stop).map_err(|error| match error {
                    WeightsError::Cancelled { .. } => Failure::Interrupted(format!("{error}; nothing is reported")),
                    error => Failure::run(chain(&error)),
                })?
            }
            None => {
                module.visit(&mut Draw);
                // What values are drawn in is several times as large as what they are kept in.
                B::memory_cleanup(&self.device);
                module
            }
        };
        finish::<B>(&self.device)?;
        self.staging.seconds += start.elapsed().as_secs_f64();
        self.staging.bytes += bytes;
        Ok(module)
    }

    /// Returns an input of normal values. Zeros would be faster than what a model reads.
    pub(super) fn input<const D: usize>(&self, shape: [usize; D], width: Width) -> Tensor<B, D> {
        ops::round(Tensor::random(shape, Distribution::Normal(0.0, 1.0), &self.device), width)
    }

    fn refuse_what_cannot_fit(&self, component: Component, needed: u64) -> Result<(), Failure> {
        let report = music3::device_report::<B>(&self.device).map_err(Failure::run)?;
        let free = report.map(|report| report.free_bytes).or_else(memory::available_bytes);
        match free {
            Some(free) if free < needed => Err(Failure::run(format!(
                "the weights of {component} take {} and {} are free; try --precision bf16, smaller dimensions, or a \
                 machine with more memory",
                figures::bytes(needed),
                figures::bytes(free)
            ))),
            _ => Ok(()),
        }
    }
}

/// Counts a module's values without drawing them.
fn values<B: Backend, M: Module<B>>(module: &M) -> u64 {
    struct Count(u64);
    impl<B: Backend> ModuleVisitor<B> for Count {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            self.0 += param.lazy_shape().num_elements() as u64;
        }
    }
    let mut count = Count(0);
    module.visit(&mut count);
    count.0
}

/// Makes a module's parameters draw themselves.
struct Draw;

impl<B: Backend> ModuleVisitor<B> for Draw {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        drop(param.val());
    }
}

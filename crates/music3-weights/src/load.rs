//! Stored tensors into a Burn module, one at a time, all or nothing.

use std::{collections::BTreeSet, ops::ControlFlow};

use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{Bool, Int, Tensor, TensorData, backend::Backend},
};
use music3_nn::{
    Width, free_device_bytes,
    ops::{from_data, from_stored},
};

use crate::{
    component::Component,
    error::WeightsError,
    fold::fold_weight_norm,
    mapping::Operation,
    parameters::{ParameterPath, parameters},
    plan::{Plan, PlanRow},
    problem::Problem,
    source::TensorSource,
};

/// How far a load is: said after each parameter.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The component that loads.
    pub component: Component,
    /// The parameter that was just loaded.
    pub path: &'a str,
    /// Parameters loaded so far, this one included.
    pub loaded: usize,
    /// Parameters of the component.
    pub total: usize,
    /// Stored bytes read so far.
    pub loaded_bytes: u64,
    /// Stored bytes of the component.
    pub total_bytes: u64,
}

/// What a device needs beside weights while they are loaded: kernels, queues, a tensor's second copy.
const ROOM_BYTES: u64 = 256 << 20;

/// Weights from this size on are worth asking the device whether it has room for them.
const LARGE_BYTES: u64 = 16 << 20;

/// Fills every parameter of `module` as the plan says, stored in `width`, on the device the module was built for.
///
/// Parameters that were not initialised yet never are: each receives its stored value at once. `progress` is called
/// after each and stops the load by returning `Break`.
///
/// # Errors
/// Before anything is read, when the module's parameters are not the plan's rows; then when a tensor cannot be read
/// or folded, when the device's own memory is too small for what is left, or when `progress` stops the load. The module is lost
/// then, half filled.
pub fn load_module<B: Backend, M: Module<B>>(
    module: M,
    plan: &Plan,
    source: &dyn TensorSource,
    width: Width,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<M, WeightsError> {
    let order = matched::<B, M>(&module, plan)?;
    let mut loader = Loader {
        plan,
        source,
        width,
        progress,
        path: ParameterPath::default(),
        remaining: order.iter().map(String::as_str).collect(),
        order: &order,
        loaded_bytes: 0,
        total_bytes: plan.rows().map(|row| row.bytes).sum(),
        left_bytes: plan.rows().map(|row| held_bytes(row, width)).sum(),
        failed: None,
    };
    let module = module.map(&mut loader);
    match loader.failed {
        Some(error) => Err(error),
        None => Ok(module),
    }
}

/// Compares the module with the plan; returns the parameters' paths in the order a mapper meets them.
fn matched<B: Backend, M: Module<B>>(module: &M, plan: &Plan) -> Result<Vec<String>, WeightsError> {
    let component = plan.component();
    let (mut order, mut problems) = (Vec::new(), Vec::new());
    let mut absent: BTreeSet<&str> = plan.rows().map(|row| row.path.as_str()).collect();
    for parameter in parameters::<B, M>(module) {
        let path = parameter.path;
        match plan.row(&path).filter(|_| absent.remove(path.as_str())) {
            None => problems.push(Problem::NoRow { component, path: path.clone() }),
            Some(row) if row.shape != parameter.shape => problems.push(Problem::ModuleShape {
                component,
                path: path.clone(),
                found: parameter.shape,
                expected: row.shape.clone(),
            }),
            Some(_) => {}
        }
        order.push(path);
    }
    problems.extend(absent.into_iter().map(|path| Problem::NoParameter { component, path: path.to_owned() }));
    WeightsError::unless_empty(problems)?;
    Ok(order)
}

/// Returns what a device's own memory has free if that is too little, what the backend keeps for later not counted.
///
/// # Errors
/// What failed on the device before, which whoever waits for it is told.
fn too_little<B: Backend>(device: &B::Device, needed_bytes: u64) -> Result<Option<u64>, String> {
    let free = || free_device_bytes::<B>(device).filter(|free_bytes| *free_bytes < needed_bytes);
    if free().is_none() {
        return Ok(None);
    }
    B::memory_cleanup(device);
    B::sync(device).map_err(|error| error.to_string())?;
    Ok(free())
}

/// Returns the bytes that a parameter takes on a device of its own memory.
fn held_bytes(row: &PlanRow, width: Width) -> u64 {
    (row.shape.iter().product::<usize>() * width.bytes()) as u64
}

struct Loader<'a> {
    plan: &'a Plan,
    source: &'a dyn TensorSource,
    width: Width,
    progress: &'a mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    path: ParameterPath,
    order: &'a [String],
    remaining: BTreeSet<&'a str>,
    loaded_bytes: u64,
    total_bytes: u64,
    /// What the parameters that are not loaded yet will take where they go.
    left_bytes: u64,
    /// A mapper cannot return an error: the first is kept here, and nothing is loaded after it.
    failed: Option<WeightsError>,
}

impl Loader<'_> {
    fn fill<B: Backend, const D: usize>(&mut self, param: &Param<Tensor<B, D>>) -> Result<Tensor<B, D>, WeightsError> {
        let (component, path) = (self.plan.component(), self.path.joined());
        let row = self.plan.row(&path).filter(|_| self.remaining.remove(path.as_str()));
        let row = row.ok_or(Problem::NoRow { component, path })?;
        let (loaded, total) = (self.order.len() - self.remaining.len(), self.order.len());
        let next = self.order.get(loaded).and_then(|path| self.plan.row(path));
        next.into_iter().flat_map(|row| &row.stored).for_each(|name| self.source.prefetch(name));
        let device = param.lazy_device();
        let (held_bytes, needed_bytes) = (held_bytes(row, self.width), self.left_bytes + ROOM_BYTES);
        self.left_bytes -= held_bytes;
        if held_bytes >= LARGE_BYTES
            && let Some(free_bytes) =
                too_little::<B>(&device, needed_bytes).map_err(|message| WeightsError::Device { component, message })?
        {
            return Err(WeightsError::OutOfMemory { component, needed_bytes, free_bytes });
        }
        let tensor = self.tensor(row, &device)?;
        row.stored.iter().for_each(|name| self.source.release(name));
        self.loaded_bytes += row.bytes;
        let (loaded_bytes, total_bytes) = (self.loaded_bytes, self.total_bytes);
        let progress = Progress { component, path: &row.path, loaded, total, loaded_bytes, total_bytes };
        match (self.progress)(progress) {
            ControlFlow::Continue(()) => Ok(tensor),
            ControlFlow::Break(()) => Err(WeightsError::Cancelled { component, loaded, total }),
        }
    }

    /// Returns the parameter's value, straight from the file where it is stored as the device wants it.
    fn tensor<B: Backend, const D: usize>(
        &self,
        row: &PlanRow,
        device: &B::Device,
    ) -> Result<Tensor<B, D>, WeightsError> {
        if row.operation != Operation::FoldWeightNorm
            && let Ok(shape) = row.shape.as_slice().try_into()
            && let Some(bytes) = row.view(self.source)?.bytes_in(self.width)
            && let Some(tensor) = from_stored(bytes, shape, self.width, device)
        {
            return Ok(tensor);
        }
        Ok(from_data(self.data(row)?, self.width, device))
    }

    fn data(&self, row: &PlanRow) -> Result<TensorData, WeightsError> {
        match (row.operation, row.stored.as_slice()) {
            (Operation::FoldWeightNorm, [g, v]) => {
                let (g, v) = (self.source.tensor(g)?, self.source.tensor(v)?);
                fold_weight_norm(self.plan.component(), g, v, self.width)
            }
            _ => row.view(self.source)?.to_width(self.width),
        }
    }

    fn no_row(&mut self) {
        let problem = Problem::NoRow { component: self.plan.component(), path: self.path.joined() };
        self.failed.get_or_insert(problem.into());
    }
}

impl<B: Backend> ModuleMapper<B> for Loader<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        if self.failed.is_some() {
            return param;
        }
        match self.fill(&param) {
            Ok(tensor) => {
                let id = param.id;
                param.transform_for_load(tensor, id)
            }
            Err(error) => {
                self.failed = Some(error);
                param
            }
        }
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<B, D, Int>>) -> Param<Tensor<B, D, Int>> {
        self.no_row();
        param
    }

    fn map_bool<const D: usize>(&mut self, param: Param<Tensor<B, D, Bool>>) -> Param<Tensor<B, D, Bool>> {
        self.no_row();
        param
    }
}

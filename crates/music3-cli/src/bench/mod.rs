//! `music3 bench`: the time of one component or of a whole song, beside what the machine can do.

mod args;
mod ceilings;
mod cost;
mod report;
mod setup;
mod statistics;
mod timing;
mod work;

use std::process::ExitCode;

use burn::tensor::{DType, backend::Backend};
use music3::{ComputePath, Matmul};
use music3_nn::Width;

pub(crate) use self::args::BenchCommand;
use self::{
    args::CommonArgs,
    ceilings::{ProductCeiling, Sizes},
    cost::Cost,
    report::{Machine, Products, Report},
    setup::{Builder, Weights},
    timing::{Counts, Timings},
};
use crate::{
    backends::{Selected, Task},
    failure::Failure,
    generate::no_such_folder,
    interrupt::Interrupt,
    memory,
    terminal::{answer, say},
};

/// Times what was asked for.
pub(crate) fn run(command: BenchCommand) -> Result<ExitCode, Failure> {
    let common = command.common();
    let interrupt = Interrupt::listen();
    let backend = Selected::choose(common.backend)?;
    let weights = weights(common)?;
    backend.first_run().into_iter().for_each(say);
    let json = common.json;
    let report = backend.dispatch(Timing { command: &command, weights, backend, interrupt })?;
    if json { answer(report.to_json()) } else { answer(report.text()) }?;
    Ok(ExitCode::SUCCESS)
}

fn weights(common: &CommonArgs) -> Result<Weights, Failure> {
    match (&common.model, common.random) {
        (Some(folder), _) if folder.is_dir() => Ok(Weights::Folder(folder.clone())),
        (Some(folder), _) => Err(no_such_folder(folder)),
        (None, Some(dims)) => Ok(Weights::Drawn(dims.into())),
        (None, None) => Ok(Weights::Folder(music3::demo::unpack(music3::demo::Demo::Random)?)),
    }
}

/// The work of a benchmark, on any backend: one entry for all of them, because each costs minutes of compiling.
struct Timing<'a> {
    command: &'a BenchCommand,
    weights: Weights,
    backend: Selected,
    interrupt: Interrupt,
}

impl Task for Timing<'_> {
    type Output = Result<Report, Failure>;

    fn run<B: Backend>(self, device: B::Device) -> Self::Output {
        let products = self.command.common().products;
        products.path().scope(|| products.matmul().scope(|| self.measured::<B>(device)))
    }
}

impl Timing<'_> {
    fn measured<B: Backend>(&self, device: B::Device) -> Result<Report, Failure> {
        let common = self.command.common();
        let sizes = if self.backend.is_on_cpu() { Sizes::CPU } else { Sizes::GPU };
        let report = music3::device_report::<B>(&device).map_err(Failure::run)?;
        let machine = Machine::new(report, memory::processor());
        // 1. The modules, and nothing else.
        let mut builder = Builder::<B>::open(&self.weights, common.precision.into(), device.clone(), &self.interrupt)?;
        let mut work = work::prepare(self.command, &mut builder)?;
        // 2. The loops.
        let in_loops = !matches!(self.command, BenchCommand::Song(_));
        let counts = Counts { repeat: self.command.repeat(), warmup: common.warmup, in_loops };
        let (timings, outcome) = timing::measure::<B>(&device, counts, &self.interrupt, &mut *work.call)?;
        let peak_host_bytes = memory::peak_bytes();
        // 3. The ceilings, after the module has made room for them.
        let cost = (work.cost)(&outcome);
        let widths = work.widths;
        drop(work.call);
        B::memory_cleanup(&device);
        timing::finish::<B>(&device)?;
        let copy_ceiling = ceilings::copy::<B>(sizes, &device)?;
        let product_ceilings =
            widths.iter().map(|&width| ceilings::product::<B>(sizes, width, &device)).collect::<Result<Vec<_>, _>>()?;
        Ok(Report {
            what: work.what,
            weights: self.origin(),
            backend: self.backend.name(),
            machine,
            precision: common.precision.into(),
            path: ComputePath::of::<B>().to_string(),
            products: widths.iter().map(|&width| products::<B>(width, &device)).collect(),
            load_seconds: builder.load_seconds,
            staging: builder.staging,
            seconds_per_call: timings.seconds_per_call(),
            share_of_bytes: cost.bytes() / copy_ceiling.bytes_per_second / timings.seconds_per_call(),
            share_of_flop: share_of_flop(&cost, &product_ceilings, &timings),
            timings,
            song: outcome.song,
            cost,
            copy_ceiling,
            product_ceilings,
            peak_host_bytes,
        })
    }

    fn origin(&self) -> String {
        match (&self.weights, self.command.common().demo) {
            (_, true) => "of the demo model".to_owned(),
            (Weights::Folder(folder), false) => format!("of {}", folder.display()),
            (Weights::Drawn(dims), false) => format!("drawn on the device, {dims:?} dimensions").to_lowercase(),
        }
    }
}

/// Asks what products of such operands ran as, on the thread and in the scope that they ran in.
fn products<B: Backend>(width: Width, device: &B::Device) -> Products {
    let matmul = Matmul::of::<B>().to_string();
    match (width, width.store_dtype::<B>(device)) {
        (Width::F32, _) => Products { operands: "f32", matmul },
        // They are exact in f32, and there is one way to multiply them.
        (Width::Bf16, DType::BF16) => Products { operands: "bf16", matmul: "exact with sums in f32".to_owned() },
        (Width::Bf16, _) => Products { operands: "bf16 kept as f32", matmul },
    }
}

/// A share needs one ceiling: a song of two widths has two.
fn share_of_flop(cost: &Cost, ceilings: &[ProductCeiling], timings: &Timings) -> Option<f64> {
    match ceilings {
        [only] => Some(cost.flop / only.flop_per_second / timings.seconds_per_call()),
        _ => None,
    }
}

//! `music3 generate`: a request, a song, a report.

mod announce;
mod follow;
mod order;
mod report;

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use burn::tensor::backend::Backend;
use music3::{
    ComputePath, Music3, OnProgress, Options, Song,
    audio::{SampleFormat, write_wav},
};

pub(crate) use self::order::{DEMO_CAPTION, DEMO_LYRICS, no_such_folder};
use self::{announce::Announcer, follow::Follow, order::Order, report::Report};
use crate::{
    args::GenerateArgs,
    backends::{Selected, Task},
    failure::Failure,
    interrupt::Interrupt,
    memory,
    terminal::{answer, say},
};

/// Makes a song.
pub(crate) fn run(args: GenerateArgs) -> Result<ExitCode, Failure> {
    // 1. Everything that can be refused without a device or a model.
    let order = Order::new(args)?;
    let interrupt = Interrupt::listen();
    // 2. Where it runs, and on what.
    let backend = Selected::choose(order.backend)?;
    let folder = order.checkpoint.unpacked()?;
    // 3. The song.
    let making = Making { order: &order, folder: &folder, backend, interrupt };
    let Made { song, elapsed, compute_path } = backend.dispatch(making)?;
    write_wav(&order.output, &song.audio, SampleFormat::default())?;
    // 4. What became of it.
    let report = Report::new(&order, (backend, compute_path), &song, elapsed);
    if order.speaks() {
        say(report.summary());
    }
    if order.json { answer(report.to_json()) } else { answer(order.output.display()) }?;
    Ok(ExitCode::SUCCESS)
}

/// The work of making a song, on any backend.
struct Making<'a> {
    order: &'a Order,
    folder: &'a Path,
    backend: Selected,
    interrupt: Interrupt,
}

/// A song, and how long it took.
struct Made {
    song: Song,
    elapsed: Duration,
    compute_path: ComputePath,
}

impl Task for Making<'_> {
    type Output = Result<Made, Failure>;

    fn run<B: Backend>(self, device: B::Device) -> Self::Output {
        let Order { request, precision, products, memory_limit_bytes, .. } = self.order;
        let memory_limit_bytes = match (memory_limit_bytes, music3::device_report::<B>(&device).map_err(Failure::run)?)
        {
            (Some(asked), _) => Some(*asked),
            (None, Some(report)) => Some(report.free_bytes),
            (None, None) => memory::available_bytes(),
        };
        let options = Options {
            precision: *precision,
            matmul: products.matmul.into(),
            path: products.path(),
            memory_limit_bytes,
        };
        let music = Music3::<B>::open(self.folder, device, options)?;
        let announcer = Announcer { order: self.order, backend: self.backend, memory_limit_bytes };
        announcer.before_loading(&music)?;

        let mut follow = Follow::new(self.order.display(), self.interrupt);
        let start = Instant::now();
        let song = music.generate(request, &mut OnProgress(|progress| follow.progress(progress)));
        follow.end();
        let compute_path = music.scope(ComputePath::of::<B>);
        Ok(Made { song: song?, elapsed: start.elapsed(), compute_path })
    }
}

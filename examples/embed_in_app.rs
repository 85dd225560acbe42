//! Inside an application: it chooses the backend while it runs, shows progress from another thread, and can stop.
//!
//! `cargo run --release --example embed_in_app [flex|ndarray [STOP_AFTER_FRAMES]]`

use std::{
    error::Error,
    ops::ControlFlow,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};

use burn::tensor::backend::Backend;
use burn_flex::Flex;
use burn_ndarray::NdArray;
use music3::{Music3, OnProgress, Options, Progress, Song, SongError, SongRequest};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let backend = arguments.first().map_or("flex", String::as_str);
    let stop_after = arguments.get(1).map(|frames| frames.parse::<usize>()).transpose()?;

    // The user's button: any thread may press it.
    let stop = AtomicBool::new(false);
    let (events, progress) = mpsc::channel();
    let outcome = thread::scope(|scope| {
        // The song is made on a thread of its own, so that the application stays alive.
        let work = scope.spawn(|| {
            let events = events;
            match backend {
                "flex" => make::<Flex>(&events, &stop),
                "ndarray" => make::<NdArray>(&events, &stop),
                other => panic!("{other}: expected flex or ndarray"),
            }
        });
        // Ends when the other thread drops its end.
        for event in progress {
            show(event);
            if let (Progress::Frame { frames, .. }, Some(limit)) = (event, stop_after)
                && frames >= limit
            {
                stop.store(true, Ordering::Relaxed);
            }
        }
        work.join().expect("the work does not panic")
    });
    match outcome {
        Ok(song) => eprintln!("{backend}: {} frames, {} samples", song.codes.len(), song.audio.samples()),
        Err(SongError::Cancelled { stage }) => eprintln!("stopped in the {stage}; nothing is left of it"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// The same code for every backend.
fn make<B: Backend>(events: &mpsc::Sender<Progress>, stop: &AtomicBool) -> Result<Song, SongError> {
    let folder = music3::demo::unpack(music3::demo::Demo::Random)?;
    let music = Music3::<B>::open(&folder, B::Device::default(), Options::default())?;
    let request = SongRequest {
        max_seconds: 1.0,
        steps: 4,
        ..SongRequest::new("slow piano ballad, female voice", "[verse]\nSnow falls on the harbour tonight")
    };
    let estimate = music.estimate(&request)?;
    eprintln!("about {} MB at the peak", estimate.peak().1.div_ceil(1_000_000));
    let mut listener = OnProgress(|progress| {
        // An application that has gone away wants no song either.
        let gone = events.send(progress).is_err();
        if gone || stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    music.generate(&request, &mut listener)
}

/// What an application would draw as a bar.
fn show(progress: Progress) {
    match progress {
        Progress::Loading { component, bytes, total_bytes } if bytes == total_bytes => eprintln!("loaded {component}"),
        Progress::Frame { frames, max_frames } if frames % 10 == 0 => eprintln!("frame {frames} of {max_frames}"),
        Progress::Step { step, steps, .. } => eprintln!("step {step} of {steps}"),
        Progress::Vocoded { window, windows } => eprintln!("samples of window {window} of {windows}"),
        _ => {}
    }
}

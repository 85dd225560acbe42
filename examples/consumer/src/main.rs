//! An application with a backend of its own: a short song, and one component by itself.

use std::{error::Error, ops::ControlFlow};

use burn::tensor::{Tensor, backend::Backend};
use music3::{Component, Music3, OnProgress, Options, Progress, SongError, SongRequest, model::Vocoder};

/// What this application computes with; nothing below names it again.
#[cfg(feature = "cuda")]
type App = burn_cuda::Cuda<f32, i32>;
#[cfg(not(feature = "cuda"))]
type App = burn_flex::Flex;

fn main() -> Result<(), Box<dyn Error>> {
    let music = Music3::<App>::open(
        &music3::demo::unpack(music3::demo::Demo::Random)?,
        Default::default(),
        Options::default(),
    )?;
    song(&music)?;
    stopped(&music)?;
    vocoder_alone(&music)?;
    Ok(())
}

fn song<B: Backend>(music: &Music3<B>) -> Result<(), SongError> {
    let request = SongRequest { max_seconds: 0.4, steps: 2, ..SongRequest::new("slow piano", "[verse]\nSnow falls") };
    let mut loaded = Vec::new();
    let song = music.generate(
        &request,
        &mut OnProgress(|progress| {
            if let Progress::Loading { component, bytes, total_bytes } = progress
                && bytes == total_bytes
            {
                loaded.push(component);
            }
            ControlFlow::Continue(())
        }),
    )?;
    assert_eq!(loaded, Component::ALL);
    println!("a song of {} frames and {} samples", song.codes.len(), song.audio.samples());
    Ok(())
}

fn stopped<B: Backend>(music: &Music3<B>) -> Result<(), SongError> {
    let request = SongRequest::new("slow piano", "[verse]\nSnow falls");
    let mut listener = OnProgress(|progress| match progress {
        Progress::Frame { frames: 2.., .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    match music.generate(&request, &mut listener) {
        Err(SongError::Cancelled { stage }) => println!("stopped in the {stage}, as asked"),
        Err(error) => return Err(error),
        Ok(_) => panic!("nobody stopped it"),
    }
    Ok(())
}

fn vocoder_alone<B: Backend>(music: &Music3<B>) -> Result<(), SongError> {
    let vocoder: Vocoder<B> = music.load_vocoder(&mut ())?;
    let latents = Tensor::zeros([1, music.configs().transformer.in_channels, 3], music.device());
    println!("the vocoder alone: 3 latents become {:?} samples", vocoder.forward(latents).dims());
    Ok(())
}

//! The work of making a song, on any backend.

use std::{
    ops::ControlFlow,
    path::Path,
    time::{Duration, Instant},
};

use burn::tensor::backend::Backend;
use music3::{
    ComputePath, FramesOrigin, Listener, Matmul, Music3, OnProgress, Options, Progress, SavedFrames, Song, SongError,
    stage_frames,
};

use super::{announce::Announcer, follow::Follow, order::Order};
use crate::{
    backends::{Selected, Task},
    failure::Failure,
    interrupt::Interrupt,
    memory,
    terminal::say,
};

/// The work of making a song.
pub(super) struct Making<'a> {
    pub(super) order: &'a Order,
    pub(super) folder: &'a Path,
    pub(super) backend: Selected,
    pub(super) interrupt: Interrupt,
}

/// A song, what made it, and how long it took.
pub(super) struct Made {
    pub(super) song: Song,
    pub(super) fingerprint: String,
    pub(super) elapsed: Duration,
    pub(super) compute_path: ComputePath,
    pub(super) matmul: Matmul,
}

impl Task for Making<'_> {
    type Output = Result<Made, Failure>;

    fn run<B: Backend>(self, device: B::Device) -> Self::Output {
        let Order { precision, products, memory_limit_bytes, .. } = self.order;
        let memory_limit_bytes = match (memory_limit_bytes, music3::device_report::<B>(&device).map_err(Failure::run)?)
        {
            (Some(asked), _) => Some(*asked),
            (None, Some(report)) => Some(report.free_bytes),
            (None, None) => memory::available_bytes(),
        };
        let options =
            Options { precision: *precision, matmul: products.matmul(), path: products.path(), memory_limit_bytes };
        let music = Music3::<B>::open(self.folder, device, options)?;
        let fingerprint = music.fingerprint()?;
        let announcer = Announcer { order: self.order, backend: self.backend, memory_limit_bytes };
        announcer.before_loading(&music, &fingerprint)?;

        let mut follow = Follow::new(self.order.display(), self.interrupt.clone());
        let start = Instant::now();
        let song = {
            let mut listener = OnProgress(|progress: Progress| -> ControlFlow<()> { follow.progress(progress) });
            match &self.order.frames {
                None => self.song_of_texts(&music, &fingerprint, &mut listener),
                Some(saved) => self.song_of_frames(&music, saved, &mut listener),
            }
        };
        follow.end();
        let (compute_path, matmul) = music.scope(|| (ComputePath::of::<B>(), Matmul::of::<B>()));
        Ok(Made { song: song?, fingerprint, elapsed: start.elapsed(), compute_path, matmul })
    }
}

impl Making<'_> {
    fn song_of_texts<B: Backend>(
        &self,
        music: &Music3<B>,
        fingerprint: &str,
        listener: &mut dyn Listener<B>,
    ) -> Result<Song, SongError> {
        let request = &self.order.request;
        let mut source = music.sampler(request);
        let (frames, timing) = music.frames(request, &mut source, listener)?;
        if let Some(path) = &self.order.files.codes {
            let origin = FramesOrigin {
                program: format!("music3 {}", env!("CARGO_PKG_VERSION")),
                model: fingerprint.to_owned(),
                request: request.clone(),
                precision: self.order.precision,
                backend: self.backend.name().to_owned(),
                finish: frames.finish,
            };
            // Now, not at the end: whatever becomes of the song, this half of it is kept.
            stage_frames(path, &frames, &origin)?.complete()?;
            if self.order.speaks() {
                say(format_args!("codes of {} frames are in {}", frames.codes.len() - 1, path.display()));
            }
        }
        let prompt_tokens = music.prompt(request)?.conditional.len();
        let mut song = music.render(frames, request.steps, &mut source, listener)?;
        song.prompt_tokens = Some(prompt_tokens);
        song.timings.insert(0, timing);
        Ok(song)
    }

    fn song_of_frames<B: Backend>(
        &self,
        music: &Music3<B>,
        saved: &SavedFrames,
        listener: &mut dyn Listener<B>,
    ) -> Result<Song, SongError> {
        let request = &self.order.request;
        let (frames, mut noise) = music.saved_frames(saved, request.rng, request.seed)?;
        music.render(frames, request.steps, &mut noise, listener)
    }
}

//! The language model once, the rest several times: its frames are kept in a file and rendered in different ways.
//!
//! `cargo run --release --example render_from_codes [FILE]`

use std::{error::Error, path::PathBuf};

use burn_flex::{Flex, FlexDevice};
use music3::{
    FramesOrigin, Music3, Options, SavedFrames, Song, SongRequest, audio::levels, codes_sha256, stage_frames,
};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).map_or_else(|| std::env::temp_dir().join("music3.frames"), PathBuf::from);
    let music =
        Music3::<Flex>::open(&music3::demo::unpack(music3::demo::Demo::Random)?, FlexDevice, Options::default())?;
    let request = SongRequest {
        max_seconds: 1.0,
        steps: 8,
        ..SongRequest::new("slow piano ballad, female voice", "[verse]\nSnow falls on the harbour tonight")
    };

    // 1. Text to frames, the long part with a model of full size. They go into a file with where they come from.
    let mut source = music.sampler(&request);
    let (frames, _) = music.frames(&request, &mut source, &mut ())?;
    let origin = FramesOrigin {
        program: "render_from_codes".to_owned(),
        model: music.fingerprint()?,
        request: request.clone(),
        precision: music.options().precision,
        backend: "flex".to_owned(),
        finish: frames.finish,
    };
    stage_frames(&path, &frames, &origin)?.complete()?;
    let whole = music.render(frames, request.steps, &mut source, &mut ())?;
    describe("in one go", &whole);

    // 2. From the file: the same settings give the same samples.
    let saved = SavedFrames::read(&path)?;
    eprintln!("the file holds {} frames, codes {}", saved.count(), &codes_sha256(&whole.codes)[..8]);
    let render = |steps, seed| -> Result<Song, Box<dyn Error>> {
        let (frames, mut noise) = music.saved_frames(&saved, request.rng, seed)?;
        Ok(music.render(frames, steps, &mut noise, &mut ())?)
    };
    let again = render(request.steps, request.seed)?;
    describe("from the file", &again);
    eprintln!("the same samples: {}", again.audio == whole.audio);

    // 3. Other steps or other noise give another rendering of the same codes.
    describe("with 16 steps", &render(16, request.seed)?);
    describe("with other noise", &render(request.steps, 1)?);
    Ok(())
}

fn describe(what: &str, song: &Song) {
    let levels = levels(&song.audio);
    eprintln!(
        "{what}: {} samples, RMS {:.2} dBFS, peak {:.2} dBFS",
        song.audio.samples(),
        levels.rms_dbfs,
        levels.peak_dbfs
    );
}

//! A song from the library's side: open a checkpoint, ask for a song, write a WAV file.
//!
//! `cargo run --release --example generate_song [FILE.wav]`

use std::{error::Error, ops::ControlFlow, path::PathBuf};

use burn_flex::{Flex, FlexDevice};
use music3::{
    Music3, OnProgress, Options, Progress, SongRequest,
    audio::{SampleFormat, levels, write_wav},
};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).map_or_else(|| std::env::temp_dir().join("music3.wav"), PathBuf::from);

    // The demo checkpoint is tiny and random, so this makes noise. For music, pass the folder of the published weights.
    let folder = music3::demo::unpack(music3::demo::Demo::Random)?;

    let music = Music3::<Flex>::open(&folder, FlexDevice, Options::default())?;
    let request = SongRequest {
        max_seconds: 2.0,
        ..SongRequest::new("slow piano ballad, female voice", "[verse]\nSnow falls on the harbour tonight")
    };
    let song = music.generate(&request, &mut OnProgress(report))?;
    write_wav(&path, &song.audio, SampleFormat::Pcm16)?;

    let loudness = levels(&song.audio);
    eprintln!("{}, {} frames", song.finish, song.codes.len());
    eprintln!("{:.2} s, peak {:.1} dBFS", song.audio.duration_secs(), loudness.peak_dbfs);
    eprintln!("{}", path.display());
    Ok(())
}

/// Called after each frame, step and window; `Break` would stop the run there.
fn report(progress: Progress) -> ControlFlow<()> {
    match progress {
        Progress::Frame { frames, max_frames } if frames % 25 == 0 => eprintln!("{frames} of {max_frames} frames"),
        Progress::Vocoded { window, windows } => eprintln!("{window} of {windows} windows"),
        _ => {}
    }
    ControlFlow::Continue(())
}

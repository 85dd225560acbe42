//! `music3 plot`: a song as a picture, to see what one would otherwise have to listen for.

mod canvas;
mod figure;
mod joins;
mod loudness;
mod panels;
mod spectrum;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use music3::audio::{Staged, levels, read_wav};

use self::{figure::Figure, joins::joins, loudness::clipped};
use crate::{
    failure::{Failure, chain},
    figures,
    terminal::{answer, say},
};

const EXAMPLES: &str = "\
Examples:
  music3 plot song.wav
  music3 plot song.wav -o picture.png

From top to bottom: both channels, with samples at full scale marked in red; the spectrogram of their mean; level and peak of
every quarter of a second. Dashed lines show where two windows of the flow were joined.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlotArgs {
    /// A stereo WAV file.
    #[arg(value_name = "FILE")]
    pub(crate) song: PathBuf,
    /// The PNG file to write [default: the song's name with .png].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print nothing but errors, and the path of the picture.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Draws a song.
pub(crate) fn run(args: PlotArgs) -> Result<ExitCode, Failure> {
    let output = args.output.unwrap_or_else(|| args.song.with_extension("png"));
    refuse_format(&output)?;
    if !args.song.exists() {
        return Err(Failure::usage(format!("{}: there is no such file; pass a WAV file", args.song.display())));
    }
    let audio = read_wav(&args.song).map_err(|error| Failure::usage(chain(&error)))?;
    if audio.samples() == 0 {
        return Err(Failure::usage(format!("{}: it has no samples, so there is nothing to draw", args.song.display())));
    }
    let (levels, clipped) = (levels(&audio), clipped(&audio));
    let joins = joins(audio.samples());
    let count: usize = clipped.iter().map(Vec::len).sum();
    let described = format!(
        "{:.2} s at {} Hz, peak {}, RMS {}, {count} samples at full scale",
        audio.duration_secs(),
        audio.sample_rate_hz(),
        figures::level(levels.peak_dbfs),
        figures::level(levels.rms_dbfs),
    );
    let windows = match &joins {
        Some(joins) => format!("{} of the flow", figures::count(joins.len() + 1, "window")),
        None => "no song of this program by its length".to_owned(),
    };
    let name = args.song.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let title = format!("{name}: {described}, {windows}");
    let figure =
        Figure { audio: &audio, clipped: &clipped, joins: joins.as_deref().unwrap_or_default(), title: &title };
    let png = figure.png().map_err(|error| Failure::run(format!("the picture cannot be encoded: {error}")))?;
    Staged::write(&output, |file| std::io::Write::write_all(file, &png))?.complete()?;
    if !args.quiet {
        say(title);
    }
    answer(output.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses a name that promises another format.
fn refuse_format(output: &Path) -> Result<(), Failure> {
    let extension = output.extension().map(|extension| extension.to_ascii_lowercase());
    match extension {
        Some(extension) if extension == "png" => Ok(()),
        _ => Err(Failure::usage(format!("{}: a PNG file is written; pass a name that ends in .png", output.display()))),
    }
}

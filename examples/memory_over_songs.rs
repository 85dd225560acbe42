//! Many songs in one process, and what memory it holds after each: a table, and a plot of it.
//!
//! `cargo run --release --example memory_over_songs [SONGS [FOLDER]]`
//!
//! Stages are loaded and dropped for every song. What one song leaves behind would add up, and show here.

use std::{error::Error, fmt::Write, path::PathBuf};

use burn_flex::{Flex, FlexDevice};
use music3::{Music3, Options, SongRequest};
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let songs: u64 = match arguments.next() {
        Some(songs) => songs.to_string_lossy().parse()?,
        None => 30,
    };
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);

    let music =
        Music3::<Flex>::open(&music3::demo::unpack(music3::demo::Demo::Random)?, FlexDevice, Options::default())?;
    let mut held = Vec::new();
    for seed in 0..songs {
        // Songs of two lengths, so that none finds exactly the room that the one before has freed.
        let request = SongRequest {
            max_seconds: if seed % 2 == 0 { 4.0 } else { 2.0 },
            steps: 4,
            seed,
            ..SongRequest::new("slow piano ballad, female voice", "[verse]\nSnow falls on the harbour tonight")
        };
        let song = music.generate(&request, &mut ())?;
        held.push(resident_bytes()?);
        eprintln!("song {}: {:.2} s, {} bytes held", seed + 1, song.audio.duration_secs(), held[held.len() - 1]);
    }
    let table = folder.join("memory_over_songs.csv");
    std::fs::write(&table, csv(&held)?)?;
    let plot = folder.join("memory_over_songs.svg");
    std::fs::write(&plot, svg(&held)?)?;
    eprintln!("{}\n{}", table.display(), plot.display());
    Ok(())
}

/// Returns the memory that this process holds in the computer's own.
fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let process = sysinfo::get_current_pid()?;
    let mut system = System::new();
    let kind = ProcessRefreshKind::nothing().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[process]), true, kind);
    Ok(system.process(process).ok_or("this process is not listed")?.memory())
}

fn csv(held: &[u64]) -> Result<String, std::fmt::Error> {
    let mut text = "song,resident_bytes\n".to_owned();
    for (index, bytes) in held.iter().enumerate() {
        writeln!(text, "{},{bytes}", index + 1)?;
    }
    Ok(text)
}

/// Draws the table: songs to the right, memory upwards from zero.
fn svg(held: &[u64]) -> Result<String, std::fmt::Error> {
    let (width, height, left, bottom) = (640.0, 320.0, 70.0, 40.0);
    let most = held.iter().copied().max().unwrap_or(1).max(1);
    // The axis ends at the next 50 MB.
    let top = most.div_ceil(50_000_000) * 50_000_000;
    let x = |song: usize| left + (width - left - 20.0) * song as f64 / held.len().max(1) as f64;
    let y = |bytes: u64| height - bottom - (height - bottom - 20.0) * bytes as f64 / top as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for bytes in (0..=top).step_by(50_000_000) {
        let (y, right) = (y(bytes), width - 20.0);
        writeln!(text, "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>")?;
        writeln!(
            text,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{} MB</text>",
            left - 8.0,
            y + 4.0,
            bytes / 1_000_000
        )?;
    }
    let points: Vec<String> =
        held.iter().enumerate().map(|(index, &bytes)| format!("{:.1},{:.1}", x(index + 1), y(bytes))).collect();
    writeln!(text, "<polyline points=\"{}\" fill=\"none\" stroke=\"#06c\" stroke-width=\"2\"/>", points.join(" "))?;
    for song in (0..=held.len()).step_by(5) {
        let baseline = height - bottom + 18.0;
        writeln!(text, "<text x=\"{:.1}\" y=\"{baseline}\" text-anchor=\"middle\">{song}</text>", x(song))?;
    }
    let middle = (left + width) / 2.0;
    writeln!(
        text,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">songs made by one process</text>",
        height - 6.0
    )?;
    text.push_str("</svg>\n");
    Ok(text)
}

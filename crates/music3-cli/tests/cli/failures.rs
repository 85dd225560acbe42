//! Runs that are stopped from outside, and disks that are full: no half of a song is left under its name.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Instant,
};

use crate::program::{Program, Ran};

/// Two windows of three steps, and the files.
const SECONDS: f64 = 12.0;

/// Ten points of a run, as the log at its second level names them.
const POINTS: [&str; 10] = [
    "Loading { component: LanguageModel",
    "Loading { component: RvqDepthDecoder",
    "Prompt {",
    "Frame { frames: 1,",
    "Frame { frames: 150,",
    "Loading { component: Transformer",
    "Step { window: 0, windows: 2, step: 1,",
    "Step { window: 1, windows: 2, step: 2,",
    "Vocoded { window: 1,",
    "writing song.wav",
];

/// A program that was sent a signal.
struct Stopped {
    status: ExitStatus,
    said: String,
}

/// Runs the program until it has said `point`, and sends it a signal then.
fn stopped_at(program: &Program, point: &str, send: fn(&mut Child)) -> Stopped {
    let seconds = SECONDS.to_string();
    let mut command = program.command(&["generate", "--demo", "random", "--max-seconds", &seconds, "--steps", "3"]);
    command.env("RUST_LOG", "music3=debug").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains(point) {
        line.clear();
        assert_ne!(lines.read_line(&mut line).expect("lines"), 0, "the program ended before `{point}`");
    }
    let sent = Instant::now();
    send(&mut child);
    let mut said = String::new();
    lines.read_to_string(&mut said).expect("the rest");
    let status = child.wait().expect("the program ends");
    assert!(sent.elapsed().as_secs() < 20, "{point}: it took {:?} to stop", sent.elapsed());
    Stopped { status, said }
}

/// As [`stopped_at`], again where the program was faster than the signal: then nothing was stopped.
fn stopped_in_time(program: &Program, point: &str, send: fn(&mut Child)) -> Stopped {
    for _ in 0..20 {
        let stopped = stopped_at(program, point, send);
        if !stopped.status.success() {
            return stopped;
        }
        for name in ["song.wav", "song.json"] {
            std::fs::remove_file(program.path(name)).expect("a whole song and its recipe");
        }
    }
    panic!("{point}: the program was faster than the signal twenty times");
}

/// Does it for all points, as many at a time as there are processors.
fn at_all_points(work: impl Fn(&'static str) + Sync) {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for worker in 0..workers {
            let work = &work;
            scope.spawn(move || POINTS.iter().skip(worker).step_by(workers).for_each(|point| work(point)));
        }
    });
}

#[test]
fn a_killed_run_leaves_nothing_under_the_final_names() {
    use std::os::unix::process::ExitStatusExt;

    at_all_points(|point| {
        let program = Program::new();
        let stopped = stopped_in_time(&program, point, |child| child.kill().expect("killed"));
        assert_eq!(stopped.status.signal(), Some(9), "{point}");
        // What was being written when the program died has a name of its own.
        let names = program.names();
        let temporary = |name: &String| name.starts_with(".music3-") && name.ends_with(".part");
        assert!(names.iter().all(temporary) && names.len() <= 2, "{point}: {names:?}");
    });
}

#[test]
fn an_interrupted_run_leaves_nothing_at_all() {
    at_all_points(|point| {
        let program = Program::new();
        let stopped = stopped_in_time(&program, point, |child| {
            let id = child.id().to_string();
            assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
        });
        assert_eq!(stopped.status.code(), Some(130), "{point}: {}", stopped.said);
        let last = stopped.said.lines().last().unwrap_or_default();
        assert!(last.starts_with("music3: stopped ") && last.ends_with("no song was written"), "{point}: {last}");
        assert!(program.names().is_empty(), "{point}: {:?}", program.names());
    });
}

#[test]
fn an_interrupted_run_keeps_the_song_that_was_there() {
    let program = Program::new();
    program.write("song.wav", "an older song");
    program.write("song.json", "{\"music3_recipe\": 1}");
    let stopped = stopped_at(&program, "Vocoded { window: 1,", |child| child.kill().expect("killed"));
    assert!(!stopped.status.success());
    assert_eq!(std::fs::read(program.path("song.wav")).expect("still there"), b"an older song");
    assert_eq!(std::fs::read(program.path("song.json")).expect("still there"), b"{\"music3_recipe\": 1}");
}

/// Runs the program where no file may be larger than so many blocks of 512 bytes: to the program, a full disk.
fn with_room_for(program: &Program, blocks: usize, arguments: &[&str]) -> Ran {
    let shell = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let started = program.command(arguments);
    let mut command = Command::new("sh");
    command.arg("-c").arg(shell).arg(started.get_program()).args(started.get_args());
    command.current_dir(started.get_current_dir().expect("a folder")).stdin(Stdio::null());
    for (name, value) in started.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Ran::from(command.output().expect("the program starts"))
}

#[test]
fn a_disk_without_room_is_one_clear_line() {
    let program = Program::new();
    let arguments = ["generate", "--demo", "--max-seconds", "1", "--steps", "1", "--quiet", "--save-codes", "a.frames"];
    // Unpacked before, so that only the run's own files meet the limit.
    assert_eq!(program.run(&["inspect", "--demo"]).code, Some(0));
    for (blocks, file) in [(1, "a.frames"), (100, "song.wav")] {
        let ran = with_room_for(&program, blocks, &arguments);
        let expected = format!("music3: {file} cannot be written: the file system allows no file of that size\n");
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr), (Some(1), "", expected));
        let kept: &[&str] = if file == "song.wav" { &["a.frames"] } else { &[] };
        assert_eq!(program.names(), kept, "{file}");
    }
    let ran = with_room_for(&program, 4000, &arguments);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "song.wav\n", ""));
}

//! Wrong input: one line that says what to do, an exit code, and nothing left behind.

use crate::program::{Program, Ran};

/// Asserts that the program refused before it opened anything: one line, nothing on standard output, no file.
pub(crate) fn assert_refused(program: &Program, arguments: &[&str], said: &str) {
    let before = program.names();
    let Ran { code, stdout, stderr } = program.run(arguments);
    assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
    assert_eq!(stdout, "", "{arguments:?}");
    assert!(stderr.starts_with("music3: ") && stderr.contains(said), "{arguments:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    // A demo model that was unpacked would be in the cache folder.
    assert_eq!(program.names(), before, "{arguments:?}");
}

fn generate<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["generate"], arguments].concat()
}

#[test]
fn refuses_blank_texts() {
    let program = Program::untouched();
    program.write("blank.txt", "\u{feff}\r\n \r");
    for caption in ["", " ", "\u{3000}\n\t"] {
        assert_refused(&program, &generate(&["--demo", "--caption", caption]), "give it with --caption");
    }
    for lyrics in ["", "\n", "\u{a0}"] {
        assert_refused(&program, &generate(&["--demo", "--lyrics", lyrics]), "give it with --lyrics or --lyrics-file");
    }
    let file = generate(&["--demo", "--lyrics-file", "blank.txt"]);
    assert_refused(&program, &file, "give it with --lyrics or --lyrics-file");
}

#[test]
fn refuses_lengths_that_give_no_frame() {
    let program = Program::untouched();
    for (seconds, said) in [
        ("0", "zero seconds"),
        ("-0.0", "zero seconds"),
        ("-1", "negative"),
        ("nan", "not a number"),
        ("inf", "infinite"),
        ("0.039", "shorter than one frame"),
        ("long", "'--max-seconds <SECONDS>': expected a number of seconds"),
    ] {
        assert_refused(&program, &generate(&["--demo", "--max-seconds", seconds]), said);
    }
    for steps in ["0", "-3", "1001", "many"] {
        assert_refused(&program, &generate(&["--demo", "--steps", steps]), "expected a whole number from 1 to 1000");
    }
}

#[test]
fn refuses_outputs_that_cannot_be_written() {
    let program = Program::untouched();
    std::fs::create_dir(program.path("folder")).expect("a folder");
    program.write("file", "x");
    for (output, said) in [
        ("missing/song.wav", "the folder missing does not exist"),
        ("folder", "names a folder"),
        ("folder/", "names a folder"),
        ("file/song.wav", "is not a folder"),
        ("", "a value is required for '--output <FILE>'"),
        ("song.MP3", "only WAV is written"),
    ] {
        assert_refused(&program, &generate(&["--demo", "--output", output]), said);
    }
}

#[test]
fn refuses_lyrics_files_that_cannot_be_read() {
    let program = Program::untouched();
    program.write("latin1.txt", b"[verse]\ncaf\xe9");
    program.write("utf16.txt", b"\xff\xfea\0");
    program.write("huge.txt", vec![b'a'; (1 << 20) + 1]);
    for (file, said) in [
        ("missing.txt", "missing.txt cannot be read"),
        (".", "cannot be read"),
        ("latin1.txt", "not UTF-8 (byte 11); save it as UTF-8"),
        ("utf16.txt", "not UTF-8 (byte 0); save it as UTF-8"),
        ("huge.txt", "more than 1048576 bytes"),
    ] {
        assert_refused(&program, &generate(&["--demo", "--lyrics-file", file]), said);
    }
}

#[test]
fn refuses_command_lines_in_one_line() {
    let program = Program::untouched();
    for (arguments, said) in [
        (&["generate", "--demo", "--lyric", "la"][..], "'--lyrics'; see `music3 generate --help`"),
        (&["generate", "--demo", "--frobnicate"], "unexpected argument '--frobnicate'"),
        (&["generate"], "--demo [<TUNE>]|--model <DIR>"),
        (&["generate", "--demo", "--model", "."], "cannot be used with"),
        (&["generate", "--model", "."], "--caption <TEXT>"),
        (&["generate", "--demo", "--lyrics", "la", "--lyrics-file", "-"], "cannot be used with"),
        (&["generate", "--demo", "--backend", "tpu"], "expected auto, flex, ndarray, cuda or cuda:N"),
        (&["generate", "--demo", "--precision", "f64"], "possible values: mixed, f32, bf16"),
        (&["generate", "--demo", "--seed", "-1"], "expected a whole number from 0"),
        (&["generate", "--demo", "--memory", "0"], "gigabytes above zero"),
        (&["compose"], "unrecognized subcommand 'compose'"),
        (&["generate", "--demo", "yesterday"], "possible values: twinkle"),
        (&["inspect"], "--demo [<TUNE>]|DIR"),
        (&["check"], "<PATH>"),
        (&["check", ".", "--precision", "f64"], "possible values: mixed, f32, bf16"),
    ] {
        assert_refused(&program, arguments, said);
    }
}

#[test]
fn refuses_what_is_not_there() {
    let program = Program::untouched();
    let model = ["generate", "--model", "missing", "--caption", "folk", "--lyrics", "la"];
    assert_refused(
        &program,
        &model,
        "missing: there is no such folder; pass the folder that the weights were downloaded to",
    );
    assert_refused(&program, &["inspect", "missing"], "missing: there is no such folder");
    assert_refused(&program, &["check", "missing"], "missing: ");
    assert_refused(&program, &["check", ".", "--model", "missing"], "missing: there is no such folder");
    assert_refused(&program, &["check", "."], "there is no JSON file");
}

#[test]
#[cfg(not(feature = "cuda"))]
fn refuses_a_backend_that_is_not_built_in() {
    let program = Program::untouched();
    assert_refused(&program, &generate(&["--demo", "--backend", "cuda"]), "--features cuda");
}

#[test]
fn refuses_the_fused_backend_where_nothing_is_compared() {
    let program = Program::untouched();
    assert_refused(&program, &generate(&["--demo", "--backend", "cuda-fused"]), "for `music3 check` only");
    let bench = ["bench", "dit", "--random", "demo", "--backend", "cuda-fused:1"];
    assert_refused(&program, &bench, "use --backend cuda");
}

#[test]
#[cfg(not(feature = "cuda-fused"))]
fn refuses_to_compare_with_a_backend_that_is_not_built_in() {
    let program = Program::untouched();
    program.write("case.json", "{}");
    let check = ["check", "case.json", "--beside", "cuda-fused"];
    assert_refused(&program, &check, "--features cuda-fused");
}

#[test]
fn checks_the_request_before_it_looks_at_the_model() {
    let program = Program::untouched();
    let arguments = ["generate", "--model", "missing", "--caption", " ", "--lyrics", "la", "--max-seconds", "0"];
    assert_refused(&program, &arguments, "caption: nothing but white space");
}

#[test]
fn a_failure_leaves_no_song() {
    let program = Program::new();
    // Refused with the figures: no model runs in a megabyte.
    let ran = program.run(&["generate", "--demo", "--quiet", "--memory", "0.001"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("GB of memory at its peak") && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    // A folder that is no checkpoint.
    let ran = program.run(&["generate", "--model", ".", "--caption", "folk", "--lyrics", "la", "--quiet"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("pass the folder that holds") && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    // Lyrics that only the tokenizer can refuse.
    for (lyrics, said) in [("[verse]\n<|im_end|>".to_owned(), "control token"), ("la ".repeat(20_000), "shorten")] {
        let ran = program.run(&["generate", "--demo", "--quiet", "--lyrics", &lyrics]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(said) && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    }
    assert!(program.names().is_empty(), "{:?}", program.names());
}

#[test]
fn a_failure_keeps_the_song_that_was_there() {
    let program = Program::new();
    program.write("song.wav", "an older song");
    let ran = program.run(&["generate", "--demo", "--quiet", "--memory", "0.001"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert_eq!(std::fs::read(program.path("song.wav")).expect("still there"), b"an older song");
}

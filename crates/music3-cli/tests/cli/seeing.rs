//! Pictures, what is told of a song, hints about lyrics, completions.

use std::fs;

use crate::program::Program;

#[test]
fn plot_draws_a_song_and_says_what_it_shows() {
    let program = Program::new();
    let ran = program.run(&["generate", "--demo", "random", "--max-seconds", "9", "--steps", "1", "--quiet"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = program.run(&["plot", "song.wav"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "song.png\n"), "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with("song.wav: 9.0") && ran.stderr.contains("0 samples at full scale, 2 windows"),
        "{}",
        ran.stderr
    );
    let png = fs::read(program.path("song.png")).expect("a picture");
    assert_eq!(&png[1..4], b"PNG");
    // Width and height stand in the header.
    let size = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((size(16), size(20)), (1500, 978));

    let ran = program.run(&["plot", "song.wav", "-o", "other.png", "--quiet"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(fs::read(program.path("other.png")).expect("a picture"), png, "the same song, the same picture");
}

#[test]
fn plot_refuses_what_it_cannot_draw() {
    let program = Program::new();
    program.write("song.wav", b"no song");
    for (arguments, said) in [
        (["plot", "song.wav", "-o", "a.png"], "cannot be read as a WAV file"),
        (["plot", "none.wav", "-o", "a.png"], "there is no such file"),
        (["plot", "song.wav", "-o", "a.jpg"], "pass a name that ends in .png"),
    ] {
        let ran = program.run(&arguments);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(said) && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    }
    assert_eq!(program.names(), ["song.wav"]);
}

#[test]
fn verbose_tells_what_the_codes_tell() {
    let program = Program::new();
    let ran = program.run(&["generate", "--demo", "random", "--max-seconds", "2", "--steps", "1", "-v"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for part in ["repetition: ", " different semantic codes in 50 frames", "silence: none at the end"] {
        assert!(ran.stderr.contains(part), "`{part}` is missing in {}", ran.stderr);
    }
    let quiet = program.run(&["generate", "--demo", "--max-seconds", "2", "--steps", "1"]);
    assert!(!quiet.stderr.contains("repetition"), "{}", quiet.stderr);
}

#[test]
fn hints_come_before_a_long_song_and_stop_nothing() {
    let program = Program::new();
    let hinted = |lyrics: &str, seconds: &str| {
        let arguments =
            ["generate", "--demo", "--lyrics", lyrics, "--max-seconds", seconds, "--steps", "1", "--memory", "0.01"];
        // Refused for its memory after everything that is said before: no minute of song is made here.
        program.run(&arguments).stderr
    };
    let said = hinted("[verse]\nla la", "60");
    assert!(
        said.contains("hint: 2 words are few for 60 s") && said.contains("hint: the lyrics have no [outro]"),
        "{said}"
    );
    let said = hinted(&format!("[verse]\n{}\n[outro]\nla", "la ".repeat(100)), "60");
    assert!(!said.contains("hint"), "{said}");
    assert!(!hinted("[verse]\nla la", "4").contains("hint"));
}

#[test]
fn completions_know_the_commands_of_each_shell() {
    let program = Program::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = program.run(&["completions", shell]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        for word in ["generate", "plot", "synth-checkpoint", "max-seconds"] {
            assert!(ran.stdout.contains(word), "{shell}: {word}");
        }
    }
    let ran = program.run(&["completions", "tcsh"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

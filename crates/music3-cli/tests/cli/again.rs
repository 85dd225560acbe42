//! Songs that are made again: from a recipe, and from saved codes.

use std::fs;

use serde_json::Value;

use crate::{
    program::{Program, Ran},
    refusals::assert_refused,
};

// The random model: another seed makes other codes.
const SHORT: [&str; 7] = ["generate", "--demo", "random", "--max-seconds", "0.4", "--steps", "2"];

fn run(program: &Program, arguments: &[&str]) -> Ran {
    let ran = program.run(arguments);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
    ran
}

fn short(program: &Program, more: &[&str]) -> Ran {
    run(program, &[&SHORT[..], more].concat())
}

fn bytes(program: &Program, name: &str) -> Vec<u8> {
    fs::read(program.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn json(program: &Program, name: &str) -> Value {
    serde_json::from_slice(&bytes(program, name)).expect("JSON")
}

#[test]
fn a_recipe_makes_the_song_again() {
    let program = Program::new();
    for more in [&["--seed", "3"][..], &["--rng", "counter", "--precision", "f32"], &["--lyrics", "\"la\" \u{1}ⲱ"]] {
        short(&program, more);
        let ran = run(&program, &["generate", "--recipe", "song.json"]);
        assert_eq!(ran.stdout, "song-again.wav\n");
        assert!(ran.stderr.contains("the codes and the samples are the recorded ones"), "{}", ran.stderr);
        assert_eq!(bytes(&program, "song-again.wav"), bytes(&program, "song.wav"), "{more:?}");
        assert_eq!(bytes(&program, "song-again.json"), bytes(&program, "song.json"), "{more:?}");
    }
}

#[test]
fn arguments_override_a_recipe() {
    let program = Program::new();
    short(&program, &["--seed", "3", "--output", "first.wav"]);
    let again =
        |more: &[&str]| run(&program, &[&["generate", "--recipe", "first.json", "--json"], more].concat()).json();
    let report = again(&["--steps", "1"]);
    assert_eq!((&report["steps"], &report["seed"]), (&1.into(), &3.into()));
    assert_eq!(report["again"], serde_json::json!({"codes": true, "samples": false}));
    let report = again(&["--seed", "4", "--output", "second.wav"]);
    assert_eq!((&report["steps"], &report["seed"]), (&2.into(), &4.into()));
    assert_eq!(report["again"], serde_json::json!({"codes": false, "samples": false}));
    assert_eq!(json(&program, "second.json")["request"]["seed"], 4);
    assert_eq!(json(&program, "first.json")["request"]["seed"], 3, "the recipe stays");
    // A song that came out otherwise than recorded is called so.
    let mut recipe = json(&program, "first.json");
    recipe["outcome"]["wav_sha256"] = "0".into();
    program.write("first.json", recipe.to_string());
    let said = run(&program, &["generate", "--recipe", "first.json"]).stderr;
    assert!(said.contains("the codes are the recorded ones, the samples are not"), "{said}");
}

#[test]
fn other_weights_than_the_recipe_s_are_warned_of() {
    let program = Program::new();
    short(&program, &[]);
    let mut recipe = json(&program, "song.json");
    recipe["model"]["fingerprint"] = "0".into();
    program.write("song.json", recipe.to_string());
    let said = run(&program, &["generate", "--recipe", "song.json"]).stderr;
    assert!(said.contains("warning: song.json: the song was made with other weights than these"), "{said}");
}

#[test]
fn codes_render_to_the_same_song_without_the_language_model() {
    let program = Program::new();
    for precision in ["mixed", "f32", "bf16"] {
        let report = short(&program, &["--seed", "5", "--precision", precision, "--save-codes", "a.frames", "--json"]);
        assert_eq!(report.json()["codes"], "a.frames");
        let from = ["generate", "--demo", "random", "--from-codes", "a.frames"];
        let ran = run(&program, &[&from[..], &["--output", "b.wav"]].concat());
        assert_eq!(bytes(&program, "b.wav"), bytes(&program, "song.wav"), "{precision}");
        assert!(ran.stderr.contains("10 frames from a.frames"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("autoregressive") && !ran.stderr.contains("prompt"), "{}", ran.stderr);

        let other = |more: &[&str]| {
            let report = run(&program, &[&from[..], &["--output", "c.wav", "--json"], more].concat()).json();
            assert_eq!(report["frames"], 10);
            assert_ne!(bytes(&program, "c.wav"), bytes(&program, "song.wav"), "{precision}, {more:?}");
        };
        other(&["--steps", "3"]);
        other(&["--seed", "6"]);
        other(&["--rng", "counter"]);
        other(&["--precision", if precision == "f32" { "bf16" } else { "f32" }]);
    }
}

#[test]
fn a_recipe_leads_to_the_codes_a_song_was_rendered_from() {
    let program = Program::new();
    short(&program, &["--save-codes", "a.frames"]);
    run(&program, &["generate", "--demo", "random", "--from-codes", "a.frames", "--steps", "3", "--output", "b.wav"]);
    let ran = run(&program, &["generate", "--recipe", "b.json"]);
    assert!(ran.stderr.contains("the codes and the samples are the recorded ones"), "{}", ran.stderr);
    assert_eq!(bytes(&program, "b-again.wav"), bytes(&program, "b.wav"));

    short(&program, &["--seed", "9", "--save-codes", "a.frames"]);
    assert_refused(&program, &["generate", "--recipe", "b.json"], "a.frames, which holds something else now");
    assert_refused(&program, &["generate", "--recipe", "b.json", "--caption", "folk"], "holds something else now");
    fs::remove_file(program.path("a.frames")).expect("removed");
    assert_refused(&program, &["generate", "--recipe", "b.json"], "a.frames, which cannot be read");
}

#[test]
fn refuses_what_cannot_be_made_again() {
    let program = Program::new();
    short(&program, &["--save-codes", "a.frames"]);
    program.write("other.json", "{\"name\": \"x\"}");
    let newer = String::from_utf8(bytes(&program, "song.json")).expect("UTF-8").replace("recipe\": 1", "recipe\": 9");
    program.write("newer.json", newer);
    let mut elsewhere = json(&program, "song.json");
    elsewhere["model"]["source"] = serde_json::json!({"folder": "missing"});
    program.write("elsewhere.json", elsewhere.to_string());
    elsewhere["backend"] = "tpu".into();
    program.write("tpu.json", elsewhere.to_string());
    for (arguments, said) in [
        (&["--recipe", "missing.json"][..], "--recipe: missing.json: the recipe cannot be read"),
        (&["--recipe", "other.json"], "--recipe: other.json: this is no recipe"),
        (&["--recipe", "newer.json"], "version 9, expected 1"),
        (&["--recipe", "elsewhere.json"], "missing: there is no such folder"),
        (&["--recipe", "tpu.json"], "there is no backend `tpu`"),
        (&["--recipe", "song.json", "--output", "song.wav"], "would replace a file that is read"),
        (&["--recipe", "song.json", "--from-codes", "a.frames"], "cannot be used with"),
        (&["--from-codes", "a.frames"], "--demo [<TUNE>]|--model <DIR>"),
        (&["--demo", "--from-codes", "missing"], "--from-codes: missing: "),
        (&["--demo", "--from-codes", "song.wav"], "not a safetensors file"),
        (&["--demo", "--from-codes", "a.frames", "--lyrics", "la"], "--lyrics does nothing here"),
        (&["--demo", "--from-codes", "a.frames", "--max-seconds", "1"], "--max-seconds does nothing here"),
        (&["--demo", "--from-codes", "a.frames", "--save-codes", "b"], "--save-codes does nothing here"),
        (&["--demo", "--from-codes", "a.frames", "--output", "a.frames"], "would replace a file that is read"),
        (&["--demo", "--save-codes", "./song.wav"], "the song and its codes would be one file"),
        (&["--demo", "--save-codes", "song.json"], "its recipe and its codes would be one file"),
        (&["--demo", "--save-codes", "missing/a"], "the folder missing does not exist"),
        (&["--demo", "--output", "song.json"], "only WAV is written, not json"),
    ] {
        assert_refused(&program, &[&["generate"], arguments].concat(), said);
    }
}

#[test]
fn a_file_that_is_no_recipe_is_not_replaced() {
    let program = Program::new();
    program.write("song.json", "{\"name\": \"my song\"}");
    assert_refused(&program, &SHORT, "song.json: a file of that name is there already and is no recipe");
    short(&program, &["--no-recipe"]);
    assert_eq!(bytes(&program, "song.json"), b"{\"name\": \"my song\"}");
    assert_eq!(program.names(), ["song.json", "song.wav"]);
}

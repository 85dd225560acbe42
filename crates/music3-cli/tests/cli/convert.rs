//! Both layouts from the command line: conversion, inspection, and the same song from either.

use std::{fs, io::Write as _};

use crate::program::{Program, Ran};

fn synth(program: &Program, name: &str, layout: &str) {
    let ran = program.run(&["synth-checkpoint", name, "--dims", "demo", "--seed", "4", "--layout", layout, "--quiet"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

fn song(program: &Program, model: &str) -> Vec<u8> {
    let output = format!("{model}.wav");
    let words = ["--caption", "folk", "--lyrics", "[verse]\nla", "--max-seconds", "1", "--steps", "2"];
    let Ran { code, stderr, .. } =
        program.run(&[&["generate", "--model", model, "--output", &output], &words[..]].concat());
    assert_eq!(code, Some(0), "{stderr}");
    fs::read(program.path(&output)).expect("a song")
}

#[test]
fn the_native_layout_makes_the_same_song_and_converts() {
    let program = Program::new();
    synth(&program, "native", "native");
    synth(&program, "diffusers", "diffusers");
    let ran = program.run(&["convert", "native", "converted"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "converted\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("26.1 MB from the native layout in "), "{}", ran.stderr);
    assert_eq!(program.names(), ["converted", "diffusers", "native"], "nothing but the checkpoints is left");
    let expected = song(&program, "diffusers");
    assert!(song(&program, "native") == expected, "the layout changes the song");
    assert!(song(&program, "converted") == expected, "conversion changes the song");

    let inspected = program.run(&["inspect", "native"]);
    assert_eq!(inspected.code, Some(0), "{}", inspected.stderr);
    assert!(inspected.stdout.starts_with("native: native layout\n"), "{}", inspected.stdout);
    assert!(inspected.stdout.contains("every tensor is in its place"), "{}", inspected.stdout);
    assert_eq!(program.run(&["inspect", "native", "--json"]).json()["checkpoint"]["layout"], "native");
    let converted = program.run(&["inspect", "converted", "--json"]).json();
    let original = program.run(&["inspect", "diffusers", "--json"]).json();
    assert_eq!(converted["tensors"], original["tensors"]);
    assert_eq!(converted["parameters"], original["parameters"]);
    assert_eq!(converted["memory"], original["memory"]);
}

#[test]
fn conversion_overwrites_nothing_and_takes_no_half_checkpoint() {
    let program = Program::new();
    synth(&program, "native", "native");
    let ran = program.run(&["convert", "native", "native"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("exists already"), "{}", ran.stderr);
    let ran = program.run(&["convert", "absent", "out"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    let path = program.path("native/dav.pth");
    let whole = fs::read(&path).expect("a file");
    fs::write(&path, &whole[..whole.len() / 2]).expect("written");
    for arguments in [&["convert", "native", "out"][..], &["inspect", "native"]] {
        let ran = program.run(arguments);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("dav.pth: the zip archive has no end; the file is cut short"), "{}", ran.stderr);
    }
    assert_eq!(program.names(), ["native"]);
}

#[test]
fn a_tokenizer_of_another_model_is_refused_by_the_token() {
    let program = Program::new();
    synth(&program, "model", "diffusers");
    let path = program.path("model/tokenizer/tokenizer.json");
    let text = fs::read_to_string(&path).expect("a tokenizer");
    let mut changed = fs::File::create(&path).expect("a file");
    changed.write_all(text.replace("<|caption_start|>", "<|caption_begin|>").as_bytes()).expect("written");
    let ran = program.run(&["inspect", "model"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stderr.contains("<|caption_start|>") && ran.stderr.contains("151671"), "{}", ran.stderr);
}

//! `verify`, and what Ctrl-C does to it and to `check`.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::program::Program;

fn capture(stem: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../goldens/captures/{stem}.json"));
    assert!(path.is_file(), "{} is missing", path.display());
    path.to_string_lossy().into_owned()
}

/// Returns the folder that the random demo model was unpacked to: the captures are of that one.
fn demo_checkpoint(program: &Program) -> String {
    let report = program.run(&["inspect", "--demo", "random", "--json"]).json();
    report["checkpoint"]["path"].as_str().expect("a path").to_owned()
}

#[test]
fn says_loudly_that_it_did_not_run() {
    let program = Program::untouched();
    let folder = program.path("").to_string_lossy().into_owned();
    let one = capture("one_frame_f32");
    program.write("lonely.json", "{\"component\": \"pipeline\", \"math\": \"twin\"}");
    for (arguments, reason) in [
        (vec!["verify"], "there are no weights; name their folder with --model"),
        (vec!["verify", "--model", "weights", "--capture", &one], "there are no weights: weights is not a folder"),
        (vec!["verify", "--model", &folder], "there is no capture; name one with --capture"),
        (vec!["verify", "--model", &folder, "--capture", "song"], "there is no capture song.json"),
        (vec!["verify", "--model", &one, "--capture", &folder], "--model names the file"),
        (
            vec!["verify", "--model", &folder, "--capture", "lonely"],
            "lonely.json names a MATH twin, but twin.json is not there",
        ),
    ] {
        let ran = program.run(&arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ran.stderr.starts_with(&format!("music3: verify: NOT RUN: {reason}")), "{}", ran.stderr);
        let ran = program.run(&[arguments.as_slice(), &["--json"]].concat());
        let report: Value = serde_json::from_str(&ran.stdout).expect("a JSON report");
        assert_eq!((ran.code, &report["status"], &report["exit_code"]), (Some(2), &"not_run".into(), &2.into()));
    }
}

#[test]
fn says_what_is_wrong_with_a_capture() {
    let program = Program::new();
    let model = demo_checkpoint(&program);
    let named = capture("one_window_mixed");
    let alone = std::fs::read_to_string(&named).expect("a capture");
    let twin: Value = serde_json::from_str(&alone).expect("a JSON object");
    let twin = twin["math"].as_str().expect("a twin");
    for kind in ["json", "safetensors"] {
        program.write(&format!("{twin}.{kind}"), "");
    }
    program.write("alone.json", &alone);
    program.write("twin.json", alone.replacen("\"component\"", "\"replay_of\"", 1));
    program.write("recipe.json", "{\"music3_recipe\": 1}");
    for (file, reason) in [
        ("alone.json", "its tensors are missing; alone.safetensors belongs beside it"),
        ("twin.json", "not a case: it is the MATH twin of pipeline.json"),
        ("recipe.json", "not a case: it is the recipe of a song"),
        (&model, "a folder without capture.json is no capture"),
    ] {
        let ran = program.run(&["verify", "--model", &model, "--backend", "flex", "--capture", file]);
        assert_eq!(ran.code, Some(2), "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains(reason), "{file}: {}", ran.stdout);
    }
    // What was recorded with other weights.
    program.run(&["synth-checkpoint", "other", "--dims", "demo", "--seed", "5"]);
    let ran = program.run(&["verify", "--model", "other", "--backend", "flex", "--capture", &named]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.trim_end().ends_with("was the capture made with these weights?"), "{}", ran.stdout);
    let words: Vec<&str> = ran.stdout.split_whitespace().collect();
    let negative = words.windows(2).find(|pair| pair[0].starts_with('-') && pair[1].starts_with('%'));
    assert_eq!(negative, None, "a share is negative: {}", ran.stdout);
}

#[test]
fn judges_every_stage_of_a_capture() {
    let program = Program::new();
    let model = demo_checkpoint(&program);
    let captures = [capture("one_frame_f32"), capture("one_window_mixed")];
    let arguments = ["verify", "--model", &model, "--backend", "flex", "--report", "report.json", "--capture"];
    let ran = program.run(&[&arguments[..], &[&captures[0], &captures[1]]].concat());
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    for stage in ["language model", "depth decoder", "condition encoder", "transformer", "vocoder"] {
        assert_eq!(ran.stdout.matches(&format!("  {stage} ")).count(), 2, "{}", ran.stdout);
    }
    assert!(ran.stdout.trim_end().ends_with("VERIFIED: every stage of every capture is within its bounds"));
    let written = std::fs::read(program.path("report.json")).expect("the report");
    let report: Value = serde_json::from_slice(&written).expect("a JSON report");
    assert_eq!((&report["status"], &report["backend"]), (&"verified".into(), &"flex".into()));
    let transformer = &report["captures"][1]["stages"][4];
    assert_eq!((&transformer["stage"], &transformer["failed"]), (&"transformer".into(), &0.into()));
    assert!(transformer["control_max"].as_f64().is_some_and(|max| max > 0.0), "{transformer}");
}

#[test]
fn a_capture_that_bounds_nothing_is_not_verified() {
    let program = Program::new();
    let model = demo_checkpoint(&program);
    let original = capture("one_frame_mixed");
    let mut header: Value = serde_json::from_slice(&std::fs::read(&original).expect("a capture")).expect("its JSON");
    header.as_object_mut().expect("an object").remove("math");
    program.write("alone.json", header.to_string());
    let tensors = std::fs::read(original.replace(".json", ".safetensors")).expect("its tensors");
    program.write("alone.safetensors", tensors);
    let ran = program.run(&["verify", "--model", &model, "--backend", "flex", "--capture", "alone"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stdout);
    assert!(ran.stdout.contains("NOT JUDGED: a capture holds nothing that says how far is too far"), "{}", ran.stdout);
}

#[test]
fn ctrl_c_stops_a_check_and_a_verify_within_a_unit() {
    let program = Program::new();
    let model = demo_checkpoint(&program);
    let long = capture("three_windows_f32");
    for (arguments, last) in [
        (vec!["check", &long, "--backend", "ndarray"], "music3: check was stopped after 0 of 1 files"),
        (
            vec!["verify", "--model", &model, "--capture", &long, "--backend", "ndarray", "-v"],
            "music3: verify was stopped after 0 of 1 captures",
        ),
    ] {
        let mut child = program
            .command(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
        // Both say where they compute before they begin; by then Ctrl-C is listened for.
        let mut first = String::new();
        match arguments[0] {
            "check" => said.read_line(&mut first).expect("a line"),
            _ => BufReader::new(stdout).read_line(&mut first).expect("a line"),
        };
        assert!(first.starts_with("backend ndarray"), "{first}");
        std::thread::sleep(Duration::from_millis(300));
        let pressed = Instant::now();
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill").success());
        let status = child.wait().expect("the program ends");
        assert!(pressed.elapsed() < Duration::from_secs(20), "it took {:?} to stop", pressed.elapsed());
        assert_eq!(status.code(), Some(130));
        let rest: Vec<String> = said.lines().map(|line| line.expect("text")).collect();
        assert_eq!(rest.last().map(String::as_str), Some(last));
    }
}

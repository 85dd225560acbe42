//! Help, `inspect` and `check`.

use std::path::{Path, PathBuf};

use crate::program::Program;

fn golden(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/tiny").join(name);
    assert!(path.is_file(), "{} is missing", path.display());
    path
}

#[test]
fn help_shows_commands_that_work() {
    let program = Program::untouched();
    for arguments in [
        &["--help"][..],
        &["generate", "--help"],
        &["check", "--help"],
        &["inspect", "--help"],
        &["verify", "--help"],
        &["synth-checkpoint", "--help"],
        &["bench", "--help"],
        &["bench", "song", "--help"],
    ] {
        let ran = program.run(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        assert!(ran.stdout.contains("Usage: music3"), "{}", ran.stdout);
    }
    assert!(program.run(&["--help"]).stdout.contains("music3 generate --demo"));
    assert_eq!(program.run(&["--version"]).stdout, format!("music3 {}\n", env!("CARGO_PKG_VERSION")));
    let nothing = program.run(&[]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(2), ""));
    assert!(nothing.stderr.contains("Usage: music3"));
}

#[test]
fn inspect_shows_every_component() {
    let program = Program::new();
    let ran = program.run(&["inspect", "--demo"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    for part in ["language_model", "rvq_depth_decoder", "condition_encoder", "transformer", "vocoder", "BF16", "F32"] {
        assert!(ran.stdout.contains(part), "{part} is missing in\n{}", ran.stdout);
    }
    assert!(ran.stdout.contains("every tensor is in its place"), "{}", ran.stdout);

    let report = program.run(&["inspect", "--demo", "--json"]).json();
    assert_eq!(report["checkpoint"]["components"].as_array().map(Vec::len), Some(5));
    assert_eq!(report["configs"]["language_model"]["vocab_size"], 200_000);
    let memory = report["memory"].as_array().expect("a list");
    assert_eq!(memory.len(), 6);
    let peak = |precision, backends: &str| {
        let row = memory.iter().find(|row| row["precision"] == precision && row["backends"] == backends);
        row.expect("a row")["peak_bytes"].as_u64().expect("bytes")
    };
    assert!(peak("bf16", "flex, cuda") < peak("bf16", "ndarray"), "bf16 in f32 takes more");
    assert_eq!(peak("f32", "flex, cuda"), peak("f32", "ndarray"));
}

#[test]
fn inspect_names_what_does_not_fit() {
    let program = Program::new();
    let demo = program.run(&["inspect", "--demo", "--json"]).json();
    let folder = PathBuf::from(demo["checkpoint"]["path"].as_str().expect("a path"));
    copy(&folder, &program.path("copy"));
    let config = program.path("copy/vocoder/config.json");
    let text = std::fs::read_to_string(&config).expect("the config");
    let hidden = demo["configs"]["vocoder"]["decoder_hidden_dim"].as_u64().expect("a dimension");
    let wrong = text.replace(&format!("\"decoder_hidden_dim\": {hidden}"), "\"decoder_hidden_dim\": 16");
    assert_ne!(text, wrong);
    std::fs::write(&config, wrong).expect("the config");
    let ran = program.run(&["inspect", "copy"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stdout.contains("the tensors do not fit"), "{}", ran.stdout);
    assert!(ran.stderr.starts_with("music3: ") && ran.stderr.contains("vocoder"), "{}", ran.stderr);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let (path, target) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).expect("an entry");
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("a file");
        }
    }
}

fn check_passes(backend: &str) {
    let program = Program::untouched();
    let case = golden("vocoder_block.stride3.f32.json");
    let case = case.to_str().expect("a path in UTF-8");
    let ran = program.run(&["check", case, "--backend", backend, "--dump", "computed"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("1 passed, 0 failed, 0 unreadable"), "{}", ran.stdout);
    assert!(program.path("computed/vocoder_block.stride3.f32.safetensors").is_file());
}

#[test]
#[cfg(feature = "flex")]
fn flex_passes_a_case() {
    check_passes("flex");
}

#[test]
#[cfg(feature = "ndarray")]
fn ndarray_passes_a_case() {
    check_passes("ndarray");
}

#[test]
#[cfg(all(feature = "flex", feature = "ndarray"))]
fn check_puts_two_backends_beside_each_other() {
    let program = Program::untouched();
    let case = golden("vocoder_block.stride3.f32.json");
    let case = case.to_str().expect("a path in UTF-8");
    let ran = program.run(&["check", case, "--backend", "flex", "--beside", "ndarray"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("| vocoder_block | f32 | 1 | 0 | "), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("flex and ndarray were judged alike in all 1 cases\n"), "{}", ran.stdout);

    let ran = program.run(&["check", case, "--backend", "flex", "--beside", "ndarray", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let names = [0, 1].map(|index| report["backends"][index]["backend"].clone());
    assert_eq!(names, ["flex", "ndarray"]);
}

#[test]
fn check_tells_failures_from_unreadable_files() {
    let program = Program::untouched();
    let case = golden("vocoder_block.stride3.f32.json");
    let case = case.to_str().expect("a path in UTF-8");
    // bf16 is not within the bounds of an f32 case.
    let ran = program.run(&["check", case, "--precision", "bf16", "--json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), ""), "{}", ran.stdout);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!((&report["exit_code"], &report["cases"][0]["status"]), (&1.into(), &"failed".into()));

    program.write("other.json", r#"{"component": "theremin", "dtype": "f32"}"#);
    let ran = program.run(&["check", "other.json", case]);
    assert_eq!(ran.code, Some(2), "{}", ran.stdout);
    assert!(ran.stdout.contains("unknown component `theremin`"), "{}", ran.stdout);
    assert!(ran.stdout.contains("1 passed, 0 failed, 1 unreadable"), "{}", ran.stdout);
}

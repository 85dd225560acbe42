//! Random checkpoints from the command line.

use std::fs;

use crate::program::Program;

#[test]
fn a_random_checkpoint_makes_a_song() {
    let program = Program::new();
    let ran = program.run(&["synth-checkpoint", "random", "--dims", "demo", "--seed", "3"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "random\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("26.1 MB in ") && ran.stderr.contains("noise"), "{}", ran.stderr);
    assert_eq!(program.names(), ["random"], "nothing but the checkpoint is left");
    let inspected = program.run(&["inspect", "random"]);
    assert!(inspected.stdout.contains("every tensor is in its place"), "{}{}", inspected.stdout, inspected.stderr);
    let song = program.run(&[
        "generate",
        "--model",
        "random",
        "--caption",
        "folk",
        "--lyrics",
        "[verse]\nla",
        "--max-seconds",
        "1",
        "--steps",
        "2",
        "--json",
    ]);
    let report = song.json();
    assert_eq!(report["frames"], 25);
    assert!(report["rms_dbfs"].as_f64() > Some(-40.0), "{report}");
    assert!(report["clipped_samples"].as_u64() < Some(100), "{report}");
}

#[test]
fn the_same_seed_makes_the_same_checkpoint() {
    let program = Program::new();
    for (name, seed) in [("first", "7"), ("again", "7"), ("other", "8")] {
        let ran = program.run(&["synth-checkpoint", name, "--dims", "demo", "--seed", seed, "--quiet"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    }
    for file in ["transformer/diffusion_pytorch_model-00002-of-00002.safetensors", "vocoder/config.json"] {
        let [first, again] =
            ["first", "again"].map(|name| fs::read(program.path(name).join(file)).expect("a file of the checkpoint"));
        assert_eq!(first, again, "{file}");
    }
    let [first, other] = ["first", "other"].map(|name| {
        fs::read(program.path(name).join("vocoder/diffusion_pytorch_model.safetensors")).expect("a weight file")
    });
    assert_ne!(first, other);
}

#[test]
fn nothing_is_overwritten_and_no_folder_is_made_up() {
    let program = Program::new();
    program.write("taken", "text");
    let ran = program.run(&["synth-checkpoint", "taken", "--dims", "demo"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("exists already"), "{}", ran.stderr);
    let ran = program.run(&["synth-checkpoint", "absent/random", "--dims", "demo"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("absent"), "{}", ran.stderr);
    assert_eq!(program.names(), ["taken"]);
}

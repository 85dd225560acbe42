//! `bench`: what is reported, and which arm it says.

use serde_json::Value;

use crate::program::Program;

fn bench(arguments: &[&str]) -> Value {
    let program = Program::new();
    let report = program.run(&[&["bench"], arguments, &["--json"]].concat()).json();
    assert!(program.names().is_empty(), "nothing is written");
    report
}

/// Asserts what every report holds.
fn assert_whole(report: &Value, loops: usize) {
    for pointer in [
        "/load_seconds",
        "/staging/bytes",
        "/staging/seconds",
        "/timings/first_call_seconds",
        "/timings/per_call_seconds/median",
        "/cost/weight_bytes",
        "/cost/flop",
        "/copy_ceiling/bytes_per_second",
        "/product_ceilings/0/flop_per_second",
        "/share_of_bytes",
    ] {
        let value = report.pointer(pointer).and_then(Value::as_f64);
        assert!(value > Some(0.0), "{pointer} is {value:?} in\n{report:#}");
    }
    let calls: Vec<u64> = report["timings"]["loops"]
        .as_array()
        .expect("loops")
        .iter()
        .map(|timed| timed["calls"].as_u64().expect("a count"))
        .collect();
    assert_eq!(calls, (1..=loops as u64).collect::<Vec<_>>());
    assert_eq!(report["timings"]["line"].is_null(), loops <= 1, "one loop has no slope");
    let spread = &report["timings"]["per_call_seconds"];
    assert!(spread["min"].as_f64() <= spread["median"].as_f64() && spread["median"].as_f64() <= spread["max"].as_f64());
    #[cfg(target_os = "linux")]
    assert!(report["peak_host_bytes"].as_u64() > Some(1 << 20));
}

#[test]
#[cfg(feature = "flex")]
fn times_every_component() {
    for (component, sizes) in [
        ("dit", &["--latents", "9", "--rows", "1"][..]),
        ("lm", &["--context", "7"]),
        ("lm", &["--prefill", "5"]),
        ("depth", &[]),
        ("condition", &["--frames", "4"]),
        ("vocoder", &["--latents", "2"]),
    ] {
        let arguments = [&[component, "--demo", "--backend", "flex", "--repeat", "3"], sizes].concat();
        let report = bench(&arguments);
        assert_whole(&report, 3);
        assert_eq!(report["what"]["component"], component);
        for pair in sizes.chunks(2) {
            let key = match pair[0] {
                "--prefill" => "tokens",
                name => name.trim_start_matches("--"),
            };
            assert_eq!(report["what"][key].to_string(), pair[1], "{key}");
        }
        assert_eq!((&report["backend"], &report["path"]), (&"flex".into(), &"kernels".into()));
        assert!(report["song"].is_null());
    }
}

#[test]
#[cfg(feature = "flex")]
fn times_a_song_by_its_stages() {
    let report = bench(&["song", "--demo", "--seconds", "0.2", "--steps", "2", "--backend", "flex"]);
    assert_whole(&report, 0);
    let song = &report["song"];
    assert_eq!((&song["frames"], song["stages"].as_array().map(Vec::len)), (&5.into(), Some(3)));
    // 5 frames are 17 latents of 512 samples.
    let seconds = song["audio_seconds"].as_f64().expect("a length");
    assert!((seconds - 17.0 * 512.0 / 44_100.0).abs() < 1e-9, "{seconds}");
    // Two widths have two ceilings, and no one share.
    assert_eq!(report["product_ceilings"].as_array().map(Vec::len), Some(2));
    assert!(report["share_of_flop"].is_null());
}

#[test]
#[cfg(feature = "flex")]
fn reports_the_first_call_where_no_other_is_asked_for() {
    let report = bench(&["condition", "--demo", "--frames", "3", "--backend", "flex", "--repeat", "0"]);
    assert_whole(&report, 0);
    let timings = &report["timings"];
    assert_eq!(timings["per_call_seconds"]["median"], timings["first_call_seconds"]);
}

#[test]
#[cfg(feature = "flex")]
fn says_what_ran_and_not_what_was_asked_for() {
    let report = bench(&["dit", "--demo", "--latents", "3", "--backend", "flex", "--matmul", "tf32", "--reference"]);
    assert_eq!(report["path"], "plain");
    // A CPU backend has strict products only.
    assert_eq!(report["products"], serde_json::json!([{ "operands": "f32", "matmul": "strict" }]));
    let report = bench(&["condition", "--demo", "--frames", "3", "--backend", "flex"]);
    assert_eq!(report["products"][0]["operands"], "bf16");
}

#[test]
#[cfg(feature = "ndarray")]
fn weights_are_drawn_where_none_are_read() {
    let report = bench(&["depth", "--random", "demo", "--backend", "ndarray", "--repeat", "2"]);
    assert_whole(&report, 2);
    assert_eq!(report["weights"], "drawn on the device, demo dimensions");
    assert_eq!((&report["backend"], &report["path"]), (&"ndarray".into(), &"plain".into()));
    // This backend keeps bf16 values as f32: 54 944 of them, four bytes each.
    assert_eq!(report["products"][0]["operands"], "bf16 kept as f32");
    assert_eq!(report["staging"]["bytes"], 4 * 54_944);
}

#[test]
fn people_read_one_line_per_figure() {
    let program = Program::new();
    let ran = program.run(&["bench", "condition", "--demo", "--frames", "3", "--repeat", "2"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("condition: one forward, frames 3; weights of the demo model\n"), "{}", ran.stdout);
    for figure in ["load", "staging", "first call", "loop", "per call", "line", "reads", "computes"] {
        assert!(ran.stdout.contains(&format!("\n  {figure:<12}")), "{figure} is missing in\n{}", ran.stdout);
    }
}

#[test]
fn refuses_what_does_not_belong_to_a_component() {
    let program = Program::untouched();
    for (arguments, message) in [
        (&["bench", "lm", "--demo", "--latents", "3"][..], "unexpected argument '--latents'"),
        (&["bench", "dit", "--demo", "--repeat", "-1"], "unexpected argument '-1'"),
        (&["bench", "dit"], "--random <DIMS>"),
        (&["bench", "dit", "--demo", "--random", "demo"], "cannot be used with"),
        (&["bench", "lm", "--demo", "--context", "3", "--prefill", "3"], "cannot be used with"),
        (&["bench", "dit", "--model", "absent"], "there is no such folder"),
    ] {
        let ran = program.run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(message), "{arguments:?}: {}", ran.stderr);
    }
    assert!(program.names().is_empty());
}

//! Every capture passes: forced replays against upstream's tensors, free ones against its codes.

use std::path::Path;

use burn::tensor::backend::Backend;
use music3_check::{CasePath, FreeOutcome, Options, Origin, RuleName, Status, Verdict};
use music3_testkit::on_each_backend;
use music3_tests::{Damaged, Stored, goldens_of, report};
use safetensors::Dtype;

on_each_backend!(
    captures_replay,
    songs_give_upstreams_codes_from_their_seeds,
    thinned_audio_is_compared,
    numpy_files_replay_as_the_capture_they_came_from,
    a_capture_without_noise_replays_up_to_the_conditions,
    noise_that_a_tensor_needs_is_not_optional,
    weights_decide_the_bounds,
    an_f32_run_shows_its_twin_and_keeps_its_bounds,
    a_run_that_is_told_to_stop_reports_nothing_of_the_case_in_work,
    a_capture_of_other_tensors_fails,
    a_capture_of_other_codes_fails_free,
    draws_through_mkl_are_not_replayed_free,
);

fn captures_replay<B: Backend>(device: &B::Device) {
    music3_tests::assert_passes::<B>(&goldens_of("captures", ""), device);
}

fn damaged(stem: &str) -> Damaged {
    let mut case = Damaged::copy("captures", stem);
    let checkpoint = music3_tests::goldens("demo/demo-checkpoint.tar.gz");
    case.header["checkpoint"] = checkpoint.to_string_lossy().into();
    case
}

fn a_capture_of_other_tensors_fails<B: Backend>(device: &B::Device) {
    for name in ["lm_last_hidden", "depth_guided", "frame_hiddens", "condition_0", "velocity_0_1", "audios", "sigmas"] {
        let mut case = damaged("one_frame_f32");
        case.tensor(name).change(1, |value| value + 0.01);
        let report = case.run::<B>(device);
        assert_eq!(report.exit_code(), 1, "{name}");
        let failed = report.cases[0].rows.iter().filter(|row| row.verdict == Verdict::Failed);
        assert!(failed.clone().all(|row| row.name.starts_with(name)), "only {name}");
        assert!(failed.count() > 0, "{name}");
    }
}

fn a_capture_of_other_codes_fails_free<B: Backend>(device: &B::Device) {
    let mut case = damaged("one_frame_f32");
    case.header["seed"] = 77.into();
    let report = case.run::<B>(device);
    assert_eq!(report.exit_code(), 1);
    let free = report.cases[0].free.as_ref().expect("it is run free");
    assert_eq!(free.outcome, FreeOutcome::Differs);
    assert!(free.detail.contains("frame 0, codebook c"), "{}", free.detail);
}

fn draws_through_mkl_are_not_replayed_free<B: Backend>(device: &B::Device) {
    let mut case = damaged("one_frame_f32");
    case.tensor("probe_exponential").change(0, |value| value + 1.0);
    case.header["seed"] = 77.into();
    let report = report::<B>(&[case.write()], &Options::default(), device);
    assert_eq!(report.exit_code(), 0);
    let free = report.cases[0].free.as_ref().expect("it says so");
    assert_eq!(free.outcome, FreeOutcome::NotApplicable);
}

fn songs_give_upstreams_codes_from_their_seeds<B: Backend>(device: &B::Device) {
    let report = report::<B>(&goldens_of("songs", ""), &Options::default(), device);
    assert_eq!(report.exit_code(), 0);
    let groups: Vec<_> = report.free.iter().map(|group| (group.runs, group.required)).collect();
    assert_eq!(groups, [(20, 0.95), (20, 0.7)], "20 songs in f32, then 20 in mixed");
    assert!(report.free.iter().all(|group| group.equal as f64 >= group.required * 20.0));
}

fn thinned_audio_is_compared<B: Backend>(device: &B::Device) {
    let mut case = Damaged::copy("songs", "f32_01");
    case.header["checkpoint"] = music3_tests::goldens("demo/demo-checkpoint.tar.gz").to_string_lossy().into();
    case.tensor("audios_every_67").change(3, |value| value + 0.01);
    let report = case.run::<B>(device);
    assert_eq!(report.exit_code(), 1);
    assert_eq!(report.cases[0].rows[0].name, "audios_every_67 (free)");
    let thinned = case.tensors.remove("audios_every_67").expect("it was changed above");
    case.tensors.insert("audios_every_some".to_owned(), thinned);
    assert_eq!(case.run::<B>(device).exit_code(), 2, "a stride that is no number");
}

/// The bytes of a `.npy` file, row by row.
fn npy(stored: &Stored) -> Vec<u8> {
    let (descr, bytes) = match stored.dtype {
        Dtype::I64 => ("<i8", stored.bytes.clone()),
        Dtype::F32 | Dtype::BF16 => ("<f4", stored.floats().into_iter().flat_map(f32::to_le_bytes).collect()),
        dtype => panic!("captures hold no {dtype:?}"),
    };
    let dims: String = stored.shape.iter().map(|dim| format!("{dim}, ")).collect();
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00".as_slice(), &length, header.as_bytes(), &bytes].concat()
}

/// Writes tensors as NumPy files named as other recordings name them.
fn write_numpy(case: &Damaged, folder: &Path) -> CasePath {
    std::fs::write(folder.join("capture.json"), case.header.to_string()).expect("a JSON file");
    for (name, stored) in &case.tensors {
        let name = match name.as_str() {
            "codes" => "rvq_codes".to_owned(),
            "condition_0" => "condition_chunk0".to_owned(),
            name => name.to_owned(),
        };
        std::fs::write(folder.join(format!("{name}.npy")), npy(stored)).expect("an array");
    }
    CasePath { path: folder.to_owned(), origin: Origin::Named }
}

fn numpy_files_replay_as_the_capture_they_came_from<B: Backend>(device: &B::Device) {
    for stem in ["one_frame_f32", "one_frame_bf16_math"] {
        let case = damaged(stem);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let numpy = report::<B>(&[write_numpy(&case, folder.path())], &Options::default(), device);
        let own = case.run::<B>(device);
        assert_eq!((numpy.exit_code(), own.exit_code()), (0, 0), "{stem}");
        let rows = |report: &music3_check::Report| {
            let rows = report.cases[0].rows.iter();
            rows.map(|row| (row.name.clone(), row.dtype, row.figures.map(|figures| figures.values))).collect::<Vec<_>>()
        };
        assert_eq!(rows(&numpy), rows(&own), "{stem}");
    }
}

fn a_capture_without_noise_replays_up_to_the_conditions<B: Backend>(device: &B::Device) {
    let mut case = damaged("one_frame_f32");
    case.tensors.retain(|name, _| ["codes", "condition_0", "frame_hiddens", "audios"].contains(&name.as_str()));
    let report = case.run::<B>(device);
    assert_eq!(report.exit_code(), 0);
    let names: Vec<&str> = report.cases[0].rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["condition_0", "frame_hiddens", "ended_by_end_token", "audios (free)"]);
    case.tensor("condition_0").change(5, |value| value + 0.01);
    assert_eq!(case.run::<B>(device).exit_code(), 1);
}

fn noise_that_a_tensor_needs_is_not_optional<B: Backend>(device: &B::Device) {
    let mut case = damaged("one_frame_f32");
    case.tensors.remove("noise_0");
    let report = case.run::<B>(device);
    assert_eq!(report.exit_code(), 2);
    assert!(report.cases[0].error.as_deref().is_some_and(|error| error.contains("`noise_0` is missing")));
}

fn weights_decide_the_bounds<B: Backend>(device: &B::Device) {
    let mut case = damaged("one_frame_f32");
    let rule = |case: &Damaged| {
        let report = case.run::<B>(device);
        let rows = &report.cases[0].rows;
        let row = rows.iter().find(|row| row.name == "velocity_0_0").expect("it is in the capture");
        row.bound.expect("it is judged").rule
    };
    assert_eq!(rule(&case), RuleName::F32, "where the capture does not say");
    case.header["weights"] = "random".into();
    assert_eq!(rule(&case), RuleName::F32);
    case.header["weights"] = "published".into();
    assert_eq!(rule(&case), RuleName::F32Published);
    case.header["weights"] = "other".into();
    assert_eq!(case.run::<B>(device).exit_code(), 2);
}

fn an_f32_run_shows_its_twin_and_keeps_its_bounds<B: Backend>(device: &B::Device) {
    let mut case = damaged("one_frame_f32");
    let tensors = case.tensors.iter().map(|(name, stored)| (name, stored.clone()));
    let twin = case.folder().join("twin.safetensors");
    safetensors::serialize_to_file(tensors, None, &twin).expect("writing to a temporary folder");
    case.header["math"] = "twin".into();
    let report = case.run::<B>(device);
    assert_eq!(report.exit_code(), 0);
    let row = report.cases[0].rows.iter().find(|row| row.name == "frame_hiddens").expect("it is in the capture");
    assert_eq!(row.bound.expect("it is judged").rule, RuleName::F32);
    assert_eq!(row.control.map(|control| control.max), Some(0.0), "the twin is the same run");
}

fn a_run_that_is_told_to_stop_reports_nothing_of_the_case_in_work<B: Backend>(device: &B::Device) {
    let options = Options::default();
    options.stop.store(true, std::sync::atomic::Ordering::SeqCst);
    let report = report::<B>(&goldens_of("captures", "one_frame_f32"), &options, device);
    assert!(report.interrupted);
    assert_eq!(report.count(Status::Passed) + report.count(Status::Failed), 0);
}

//! Every capture passes: forced replays against upstream's tensors, free ones against its codes.

use burn::tensor::backend::Backend;
use music3_check::{FreeOutcome, Options, Verdict};
use music3_testkit::on_each_backend;
use music3_tests::{Damaged, goldens_of, report};

on_each_backend!(
    captures_replay,
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

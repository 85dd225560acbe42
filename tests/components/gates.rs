//! The gates refuse what is wrong: a check that cannot fail proves nothing.

use burn::tensor::backend::Backend;
use music3_check::{Negative, Options, Status, Verdict};
use music3_testkit::on_each_backend;
use music3_tests::{Damaged, goldens_of, report};

on_each_backend!(
    refuse_one_value_that_is_off,
    refuse_a_nan,
    refuse_a_value_more_in_bf16,
    refuse_f32_arithmetic_rounded_at_the_end,
    refuse_another_precision,
    refuse_a_case_that_proves_nothing,
    refuse_one_integer_that_is_off,
    refuse_one_string_that_is_off,
    have_refused_the_f32_form_of_every_bf16_golden,
);

fn refuse_one_value_that_is_off<B: Backend>(device: &B::Device) {
    let mut case = Damaged::copy("tiny", "rvq_depth_decoder.five_heads.f32");
    let name = case.first("out.");
    case.tensor(&name).change(3, |value| value + 1e-3);
    let report = case.run::<B>(device);
    assert_eq!(report.exit_code(), 1);
    let failed: Vec<_> = report.cases[0].rows.iter().filter(|row| row.verdict == Verdict::Failed).collect();
    assert_eq!(failed.len(), 1, "only the output that is off");
    assert_eq!(failed[0].worst.as_ref().map(|worst| worst.place.as_str()), Some("[0, 0, 3]"));
}

fn refuse_a_nan<B: Backend>(device: &B::Device) {
    for stem in ["vocoder_block.stride3.f32", "vocoder_block.stride3.bf16", "sample_probs.rows.f32"] {
        let mut case = Damaged::copy("tiny", stem);
        let prefix = if stem.ends_with("bf16") { "out_math." } else { "out." };
        let name = case.first(prefix);
        case.tensor(&name).change(0, |_| f32::NAN);
        assert_eq!(case.run::<B>(device).exit_code(), 1, "{stem}");
    }
}

fn refuse_a_value_more_in_bf16<B: Backend>(device: &B::Device) {
    // No attention, so the control is zero: one value in a thousand may be a step away, and not two steps.
    for (index, steps, code) in [(0, 1.0, 0), (0, 4.0, 1)] {
        let mut case = Damaged::copy("tiny", "condition_encoder.rates.bf16");
        let step = |value: f32| f32::from_bits(value.to_bits() & 0x7f80_0000) / 128.0;
        for prefix in ["out", "out_math"] {
            let tensor = case.tensor(&format!("{prefix}.x_b1_f32"));
            let values = tensor.floats();
            let largest = (0..values.len()).max_by(|a, b| values[*a].abs().total_cmp(&values[*b].abs()));
            tensor.change(largest.unwrap_or(index), |value| value - steps * step(value) * value.signum());
        }
        assert_eq!(case.run::<B>(device).exit_code(), code, "{steps} steps");
    }
}

fn refuse_f32_arithmetic_rounded_at_the_end<B: Backend>(device: &B::Device) {
    // As if upstream's answer were f32 arithmetic: ours, which rounds at every op, must not pass.
    for stem in ["language_model.three_heads.bf16", "transformer.three_heads.bf16", "condition_encoder.rates.bf16"] {
        let mut case = Damaged::copy("tiny", stem);
        let names: Vec<String> = case.tensors.keys().filter(|name| name.starts_with("out_f32.")).cloned().collect();
        for name in names {
            let single = case.tensor(&name).clone();
            *case.tensor(&name.replace("out_f32.", "out_math.")) = single;
        }
        assert_eq!(case.run::<B>(device).exit_code(), 1, "{stem}");
    }
}

fn refuse_another_precision<B: Backend>(device: &B::Device) {
    use music3::Precision::{Bf16, F32};
    for (stem, precision) in [("transformer.three_heads.bf16", F32), ("transformer.three_heads.f32", Bf16)] {
        let options = Options { precision: Some(precision), ..Options::default() };
        let report = Damaged::copy("tiny", stem).run_with::<B>(&options, device);
        assert_eq!(report.exit_code(), 1, "{stem} in {precision}");
        assert_eq!(report.cases[0].precision, Some(precision));
    }
}

fn refuse_a_case_that_proves_nothing<B: Backend>(device: &B::Device) {
    let mut case = Damaged::copy("tiny", "transformer.three_heads.bf16");
    // The f32 form is the right answer but for one value: the gate lets it through, so it cannot tell the two apart.
    let mut single = case.tensor("out_math.x_b2_l86").clone();
    single.change(0, |value| value * (1.0 + 1.0 / 128.0));
    *case.tensor("out_f32.x_b2_l86") = single;
    let report = case.run::<B>(device);
    assert_eq!(report.exit_code(), 1);
    assert!(report.cases[0].rows.iter().any(|row| row.negative_control == Some(Negative::Accepted)));
}

fn refuse_one_integer_that_is_off<B: Backend>(device: &B::Device) {
    let mut case = Damaged::copy("tiny", "depth_loop.three_heads.f32");
    let codes = case.tensor("out.frame_codes_1");
    codes.bytes[0] ^= 1;
    assert_eq!(case.run::<B>(device).exit_code(), 1);
}

fn refuse_one_string_that_is_off<B: Backend>(device: &B::Device) {
    let text = std::fs::read_to_string(music3_tests::goldens("text/prompt_strings.json")).expect("the golden");
    let mut header: serde_json::Value = serde_json::from_str(&text).expect("a golden's JSON");
    header["clean_caption"][0]["out"] = "something else".into();
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("strings.json"), header.to_string()).expect("a file");
    let cases = music3_check::collect(&[folder.path()]).expect("a folder");
    let report = report::<B>(&cases, &Options::default(), device);
    assert_eq!(report.exit_code(), 1);
    assert_eq!(report.cases[0].status, Status::Failed);
}

fn have_refused_the_f32_form_of_every_bf16_golden<B: Backend>(device: &B::Device) {
    for component in ["transformer_block.", "rvq_depth_decoder.", "vocoder_block.", "snake.", "depth_loop."] {
        let mut cases = goldens_of("tiny", component);
        cases.retain(|case| case.path.to_string_lossy().ends_with(".bf16.json"));
        let report = report::<B>(&cases, &Options::default(), device);
        let judged = report.cases.iter().flat_map(|case| &case.rows).filter_map(|row| row.negative_control);
        let judged: Vec<Negative> = judged.collect();
        assert!(!judged.is_empty(), "{component} has no bf16 golden");
        assert!(judged.iter().all(|negative| *negative == Negative::Refused), "{component}: {judged:?}");
    }
}

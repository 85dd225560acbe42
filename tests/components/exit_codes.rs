//! What cannot be read is told apart from what fails, and what is no case from both.

use burn::tensor::backend::Backend;
use music3_check::{Options, Report};
use music3_testkit::on_each_backend;
use music3_tests::{Damaged, report};
use serde_json::json;

on_each_backend!(
    nothing_named_is_not_a_pass,
    an_unknown_component_cannot_be_read,
    an_unknown_prefix_cannot_be_read,
    a_missing_input_or_weight_cannot_be_read,
    a_part_is_named_beside_its_component,
    a_weight_that_nothing_uses_cannot_be_read,
    a_broken_file_cannot_be_read,
    an_output_that_is_not_computed_fails,
    an_output_of_another_shape_or_dtype_fails,
    json_without_a_component_is_no_case_in_a_folder,
    unknown_keys_are_ignored,
);

const STEM: &str = "rvq_depth_decoder.five_heads.f32";

fn message(report: &Report) -> &str {
    report.cases[0].error.as_deref().unwrap_or_default()
}

fn nothing_named_is_not_a_pass<B: Backend>(device: &B::Device) {
    assert_eq!(report::<B>(&[], &Options::default(), device).exit_code(), 2);
}

fn an_unknown_component_cannot_be_read<B: Backend>(device: &B::Device) {
    let mut case = Damaged::copy("tiny", STEM);
    case.header["component"] = json!("rvq_decoder");
    let report = case.run::<B>(device);
    assert_eq!(report.exit_code(), 2);
    assert!(message(&report).contains("unknown component `rvq_decoder`; expected one of condition_encoder, "));
}

fn an_unknown_prefix_cannot_be_read<B: Backend>(device: &B::Device) {
    for name in ["outputs.x", "out_bf16.x_b1_t1", "x", "out_math.y"] {
        let mut case = Damaged::copy("tiny", STEM);
        let tensor = case.tensor("out.x_b1_t1").clone();
        case.tensors.insert(name.to_owned(), tensor);
        let report = case.run::<B>(device);
        assert_eq!(report.exit_code(), 2, "{name}");
        assert!(message(&report).contains(&format!("`{name}`")), "{}", message(&report));
    }
}

fn a_missing_input_or_weight_cannot_be_read<B: Backend>(device: &B::Device) {
    let removed = [
        (STEM, "w.norm.weight"),
        (STEM, "in.x_b1_t1"),
        ("transformer.three_heads.f32", "in.timestep_x_b1_l1"),
        ("transformer.three_heads.f32", "in.latents_x_b1_l1"),
        ("language_model.three_heads.f32", "in.ids_x_t2"),
        ("guided_logits.ties.f32", "in.cond_0"),
        ("schedule.published.f32", "in.x_f32"),
        ("schedule.published.f32", "in.cond_bf16"),
    ];
    for (stem, name) in removed {
        let mut case = Damaged::copy("tiny", stem);
        assert!(case.tensors.remove(name).is_some(), "{stem} has {name}");
        let report = case.run::<B>(device);
        assert_eq!(report.exit_code(), 2, "{name}");
        assert!(message(&report).contains(name.trim_start_matches("w.")), "{}", message(&report));
    }
}

fn a_part_is_named_beside_its_component<B: Backend>(device: &B::Device) {
    for (stem, weight, expected) in [
        (
            "transformer_block.full.f32",
            "w.attn.to_k.weight",
            "transformer_block: transformer: tensor `attn.to_k.weight`",
        ),
        ("vocoder_block.stride3.f32", "w.conv_t1.bias", "vocoder_block: vocoder: tensor `conv_t1.bias`"),
    ] {
        let mut case = Damaged::copy("tiny", stem);
        case.tensors.remove(weight);
        let report = case.run::<B>(device);
        assert!(message(&report).contains(expected), "{}", message(&report));
    }
    let mut case = Damaged::copy("tiny", "snake.usual.f32");
    let alpha = case.tensor("w.alpha").clone();
    case.tensors.insert("w.beta".to_owned(), alpha);
    let report = case.run::<B>(device);
    assert!(message(&report).contains("snake: vocoder: tensor `beta` is not used"), "{}", message(&report));
}

fn a_weight_that_nothing_uses_cannot_be_read<B: Backend>(device: &B::Device) {
    for stem in [STEM, "schedule.published.f32", "flow.one_window.f32", "snake.usual.f32"] {
        let mut case = Damaged::copy("tiny", stem);
        let name = case.first("out.");
        let tensor = case.tensor(&name).clone();
        case.tensors.insert("w.extra.weight".to_owned(), tensor);
        let report = case.run::<B>(device);
        assert_eq!(report.exit_code(), 2, "{stem}");
        assert!(message(&report).contains("extra.weight"), "{}", message(&report));
    }
}

fn a_broken_file_cannot_be_read<B: Backend>(device: &B::Device) {
    let case = Damaged::copy("tiny", STEM);
    let path = case.write();
    let beside = path.path.with_extension("safetensors");
    let bytes = std::fs::read(&beside).expect("it was written");
    for broken in [&bytes[..bytes.len() - 1], &bytes[..4], b"{}"] {
        std::fs::write(&beside, broken).expect("a file");
        assert_eq!(report::<B>(std::slice::from_ref(&path), &Options::default(), device).exit_code(), 2);
    }
    std::fs::remove_file(&beside).expect("it is there");
    let missing = report::<B>(std::slice::from_ref(&path), &Options::default(), device);
    assert_eq!(missing.exit_code(), 2);
    assert!(message(&missing).contains("no tensors"), "{}", message(&missing));
    std::fs::write(&path.path, "{\"component\": ").expect("a file");
    assert_eq!(report::<B>(&[path], &Options::default(), device).exit_code(), 2);
}

fn an_output_that_is_not_computed_fails<B: Backend>(device: &B::Device) {
    let mut case = Damaged::copy("tiny", "depth_loop.three_heads.f32");
    let tensor = case.tensor("out.guided_0").clone();
    case.tensors.insert("out.guided_99".to_owned(), tensor);
    let report = case.run::<B>(device);
    assert_eq!(report.exit_code(), 1);
    let row = report.cases[0].rows.iter().find(|row| row.name == "guided_99").expect("a row");
    assert_eq!(row.reasons, ["missing: it was not computed"]);
}

fn an_output_of_another_shape_or_dtype_fails<B: Backend>(device: &B::Device) {
    let mut case = Damaged::copy("tiny", STEM);
    case.tensor("out.x_b1_t1").shape.reverse();
    assert_eq!(case.run::<B>(device).exit_code(), 1);
    // Twice as many bf16 values take as many bytes.
    let mut case = Damaged::copy("tiny", STEM);
    let tensor = case.tensor("out.x_b1_t1");
    tensor.dtype = safetensors::Dtype::BF16;
    tensor.bytes.truncate(tensor.bytes.len() / 2);
    assert_eq!(case.run::<B>(device).exit_code(), 1);
}

fn json_without_a_component_is_no_case_in_a_folder<B: Backend>(device: &B::Device) {
    let case = Damaged::copy("tiny", STEM);
    for (name, text) in [("config.json", "{\"hidden_size\": 3}"), ("list.json", "[1, 2]")] {
        std::fs::write(case.folder().join(name), text).expect("a file");
    }
    let report = case.run_folder::<B>(device);
    assert_eq!((report.exit_code(), report.cases.len(), report.not_cases.len()), (0, 1, 2));
    // Named by itself it was meant to be one.
    let named = music3_check::collect(&[case.folder().join("config.json")]).expect("it is there");
    assert_eq!(music3_tests::report::<B>(&named, &Options::default(), device).exit_code(), 2);
}

fn unknown_keys_are_ignored<B: Backend>(device: &B::Device) {
    let mut case = Damaged::copy("tiny", STEM);
    case.header["remark"] = json!({"anything": [1, 2]});
    assert_eq!(case.run::<B>(device).exit_code(), 0);
}

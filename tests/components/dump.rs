//! What was computed can be written out, and is what was compared.

use burn::tensor::backend::Backend;
use music3_check::Options;
use music3_testkit::on_each_backend;
use music3_tests::{Damaged, goldens_of, report};
use safetensors::{Dtype, SafeTensors};

on_each_backend!(holds_every_output_in_its_dtype, holds_tables_in_the_form_of_the_case);

fn holds_every_output_in_its_dtype<B: Backend>(device: &B::Device) {
    for (stem, dtype) in [("condition_encoder.rates.bf16", Dtype::BF16), ("condition_encoder.rates.f32", Dtype::F32)] {
        let mut case = Damaged::copy("tiny", stem);
        let folder = case.folder().join("dump");
        let options = Options { dump: Some(folder.clone()), ..Options::default() };
        assert_eq!(case.run_with::<B>(&options, device).exit_code(), 0);
        let bytes = std::fs::read(folder.join(format!("{stem}.safetensors"))).expect("the dump");
        let dump = SafeTensors::deserialize(&bytes).expect("a safetensors file");
        for name in ["out.x_b1_f1", "out.x_b1_f32", "out.x_b3_f17"] {
            let view = dump.tensor(name).expect(name);
            let expected = case.tensor(name);
            assert_eq!((view.dtype(), view.shape()), (dtype, expected.shape.as_slice()), "{name}");
            if dtype == Dtype::BF16 {
                assert!(view.data() == expected.bytes, "{name} is equal to the bit");
            }
        }
    }
}

fn holds_tables_in_the_form_of_the_case<B: Backend>(device: &B::Device) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options { dump: Some(folder.path().to_owned()), ..Options::default() };
    for (from, stem, key) in [
        ("text", "prompt_strings", "clean_caption"),
        ("tables", "windows", "table"),
        ("tables", "nearest_index", "table"),
        ("tables", "durations", "frames_for_duration"),
    ] {
        assert_eq!(report::<B>(&goldens_of(from, stem), &options, device).exit_code(), 0);
        let json = |path: std::path::PathBuf| -> serde_json::Value {
            serde_json::from_slice(&std::fs::read(path).expect("the file")).expect("JSON")
        };
        let dump = json(folder.path().join(format!("{stem}.json")));
        let case = json(music3_tests::goldens(&format!("{from}/{stem}.json")));
        assert_eq!(dump[key], case[key], "{stem}");
    }
}

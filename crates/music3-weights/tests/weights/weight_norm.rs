//! Weight norm folded at load, against torch's own: every bit equal.

use std::{ops::ControlFlow, path::PathBuf};

use burn::{
    module::{Module, Param, ParamId},
    tensor::{Shape, Tensor, backend::Backend},
};
use half::bf16;
use music3_nn::Width;
use music3_testkit::on_each_backend;
use music3_weights::{Component, Plan, SafetensorsFile, TensorSource, load_module};

use crate::crafted::{Folder, raw_file};

on_each_backend!(folds_to_torchs_bits_in_f32, folds_to_torchs_bits_in_bf16, rounds_g_and_v_of_an_f32_file_for_bf16);

const CASES: [&str; 7] = ["short", "twelve", "odd", "conv1", "conv7", "transposed", "output"];

/// A module that has only a folded weight.
#[derive(Module, Debug)]
struct Folded<B: Backend> {
    weight: Param<Tensor<B, 3>>,
}

impl<B: Backend> Folded<B> {
    fn new(shape: &[usize], device: &B::Device) -> Self {
        let never = |_: &B::Device, _| panic!("a parameter that is loaded is never initialised");
        Self { weight: Param::uninitialized(ParamId::new(), never, device.clone(), false, Shape::from(shape.to_vec())) }
    }
}

fn answers() -> SafetensorsFile {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/weight_norm.safetensors");
    SafetensorsFile::open(path).expect("the file is in the tree")
}

/// Folds `g` and `v` as the mapping's `conv_in.weight` does, and returns the values.
fn folded<B: Backend>(
    g: (&str, &[u8]),
    v: (&str, &[u8]),
    shape: &[usize],
    width: Width,
    device: &B::Device,
) -> Vec<f32> {
    let (folder, dtype) = (Folder::new(), v.0);
    let header = format!(
        r#"{{"weight_g":{{"dtype":"{}","shape":[{},1,1],"data_offsets":[0,{}]}},
            "weight_v":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{},{}]}}}}"#,
        g.0,
        shape[0],
        g.1.len(),
        g.1.len(),
        g.1.len() + v.1.len()
    );
    let path = folder.write("norm.safetensors", raw_file(&header, &[g.1, v.1].concat()));
    let file = SafetensorsFile::open(path).expect("the file is valid");
    let module = Folded::<B>::new(shape, device);
    // Only the weight of the part is stored; its bias is not part of this module.
    let plan = Plan::for_part::<B, _>(Component::Vocoder, "conv_in", &module, &file).expect("the part is planned");
    let module = load_module::<B, _>(module, &plan, &file, width, &mut |_| ControlFlow::Continue(()))
        .expect("the part is loaded");
    let weight = module.weight.val();
    assert_eq!(weight.dtype(), width.store_dtype::<B>(device));
    weight.into_data().iter::<f32>().collect()
}

fn same_bits(case: &str, found: &[f32], expected: impl Iterator<Item = f32>) {
    let expected: Vec<u32> = expected.map(f32::to_bits).collect();
    let found: Vec<u32> = found.iter().map(|value| value.to_bits()).collect();
    let equal = found.iter().zip(&expected).filter(|(found, expected)| found == expected).count();
    assert!(found == expected, "{case}: {equal} of {} values are torch's", expected.len());
}

fn folds_as_stored<B: Backend>(suffix: &str, width: Width, device: &B::Device) {
    let answers = answers();
    for name in CASES {
        let case = format!("{name}.{suffix}");
        let read = |part| answers.tensor(&format!("{case}.{part}")).expect("the case has g, v and w");
        let (g, v, w) = (read("g"), read("v"), read("w"));
        let (g_dtype, v_dtype) = (g.entry.dtype.to_string(), v.entry.dtype.to_string());
        let found = folded::<B>((&g_dtype, g.data), (&v_dtype, v.data), v.entry.shape, width, device);
        same_bits(&case, &found, w.to_data().expect("w is floats").iter::<f32>());
    }
}

fn folds_to_torchs_bits_in_f32<B: Backend>(device: &B::Device) {
    folds_as_stored::<B>("f32", Width::F32, device);
}

fn folds_to_torchs_bits_in_bf16<B: Backend>(device: &B::Device) {
    folds_as_stored::<B>("bf16", Width::Bf16, device);
}

/// A bf16 module made from an f32 file holds g and v in bf16, so its weights are those of the bf16 file.
fn rounds_g_and_v_of_an_f32_file_for_bf16<B: Backend>(device: &B::Device) {
    let answers = answers();
    for name in CASES {
        let read = |part: &str| answers.tensor(&format!("{name}.{part}")).expect("the case has g, v and w");
        let (g, v, w) = (read("f32.g"), read("f32.v"), read("bf16.w"));
        let found = folded::<B>(("F32", g.data), ("F32", v.data), v.entry.shape, Width::Bf16, device);
        same_bits(name, &found, w.to_data().expect("w is floats").iter::<f32>());
    }
}

#[test]
fn refuses_a_row_without_a_norm() {
    type B = music3_testkit::Flex;
    for (value, norm) in [(0.0f32, "0"), (f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        let folder = Folder::new();
        let header = r#"{"weight_g":{"dtype":"BF16","shape":[2,1,1],"data_offsets":[0,4]},
            "weight_v":{"dtype":"F32","shape":[2,1,2],"data_offsets":[4,20]}}"#;
        let mut data: Vec<u8> = [bf16::ONE, bf16::ONE].iter().flat_map(|value| value.to_le_bytes()).collect();
        data.extend([1.0, 2.0, value, value].iter().flat_map(|value| value.to_le_bytes()));
        let file = SafetensorsFile::open(folder.write("norm.safetensors", raw_file(header, &data))).expect("valid");
        let module = Folded::<B>::new(&[2, 1, 2], &Default::default());
        let plan = Plan::for_part::<B, _>(Component::Vocoder, "conv_in", &module, &file).expect("planned");
        let loaded = load_module::<B, _>(module, &plan, &file, Width::F32, &mut |_| ControlFlow::Continue(()));
        let error = loaded.map(|_| ()).expect_err("the row is refused");
        assert_eq!(
            folder.relative(error),
            format!("vocoder: row 1 of `weight_v` has norm {norm}; weight norm cannot be folded (norm.safetensors)")
        );
    }
}

//! Loading into a module: widths, laziness, order, and everything that stops it.

use std::ops::ControlFlow;

use burn::{
    module::{Module, Param, ParamId},
    tensor::{Shape, Tensor, backend::Backend},
};
use half::bf16;
use music3_nn::Width;
use music3_testkit::{Flex, on_each_backend};
use music3_weights::{Component, Plan, SafetensorsFile, WeightsError, load_module};
use serde_json::{Value, json};

use crate::crafted::{Folder, file, raw_file, typed_file};

on_each_backend!(loads_each_tensor_in_its_place, widens_bf16_exactly, rounds_f32_to_nearest_even);

/// A parameter that must be loaded, never made.
fn unmade<B: Backend, const D: usize>(shape: [usize; D], device: &B::Device) -> Param<Tensor<B, D>> {
    let never = |_: &B::Device, _| panic!("a parameter that is loaded is never initialised");
    Param::uninitialized(ParamId::new(), never, device.clone(), false, Shape::from(shape))
}

#[derive(Module, Debug)]
struct Conv<B: Backend> {
    weight: Param<Tensor<B, 3>>,
    bias: Param<Tensor<B, 1>>,
}

/// A condition encoder's parameters, with the encoder's own names.
#[derive(Module, Debug)]
struct Encoder<B: Backend> {
    layer_weight_logits: Param<Tensor<B, 1>>,
    layer_scale: Param<Tensor<B, 1>>,
    proj: Conv<B>,
}

impl<B: Backend> Encoder<B> {
    fn new(device: &B::Device) -> Self {
        let proj = Conv { weight: unmade([3, 2, 3], device), bias: unmade([3], device) };
        Self { layer_weight_logits: unmade([4], device), layer_scale: unmade([1], device), proj }
    }
}

fn config() -> Value {
    json!({"condition_hidden_dim": 2, "num_condition_layers": 4, "out_dim": 3})
}

const TENSORS: [(&str, &[usize]); 4] =
    [("proj.bias", &[3]), ("layer_scale", &[1]), ("proj.weight", &[3, 2, 3]), ("layer_weight_logits", &[4])];

fn opened(folder: &Folder, bytes: &[u8]) -> SafetensorsFile {
    SafetensorsFile::open(folder.write("encoder.safetensors", bytes)).expect("the file is valid")
}

fn values<B: Backend, const D: usize>(param: &Param<Tensor<B, D>>) -> Vec<f32> {
    param.val().into_data().iter::<f32>().collect()
}

fn loads_each_tensor_in_its_place<B: Backend>(device: &B::Device) {
    let folder = Folder::new();
    let source = opened(&folder, &file(&TENSORS));
    let plan = Plan::new(Component::ConditionEncoder, &config(), &source).expect("the plan fits");
    let mut seen = Vec::new();
    let mut progress = |progress: music3_weights::Progress<'_>| {
        seen.push((
            progress.path.to_owned(),
            progress.loaded,
            progress.total,
            progress.loaded_bytes,
            progress.total_bytes,
        ));
        ControlFlow::Continue(())
    };
    let encoder =
        load_module::<B, _>(Encoder::new(device), &plan, &source, Width::F32, &mut progress).expect("it loads");
    assert_eq!(values(&encoder.proj.bias), [1.0; 3]);
    assert_eq!(values(&encoder.layer_scale), [2.0; 1]);
    assert_eq!(values(&encoder.proj.weight), [3.0; 18]);
    assert_eq!(values(&encoder.layer_weight_logits), [4.0; 4]);
    let expected =
        [("layer_weight_logits", 1, 16), ("layer_scale", 2, 20), ("proj.weight", 3, 92), ("proj.bias", 4, 104)];
    assert_eq!(seen, expected.map(|(path, loaded, bytes)| (path.to_owned(), loaded, 4, bytes, 104)));
}

/// Loads `layer_scale` alone from its bytes.
fn scale<B: Backend>(dtype: &str, bytes: &[u8], width: Width, device: &B::Device) -> f32 {
    #[derive(Module, Debug)]
    struct Scale<B: Backend> {
        layer_scale: Param<Tensor<B, 1>>,
    }
    let (folder, length) = (Folder::new(), bytes.len());
    let header = format!(r#"{{"w.layer_scale":{{"dtype":"{dtype}","shape":[1],"data_offsets":[0,{length}]}}}}"#);
    let file = opened(&folder, &raw_file(&header, bytes));
    let source = file.with_prefix("w.");
    let module = Scale { layer_scale: unmade([1], device) };
    let plan = Plan::for_part::<B, _>(Component::ConditionEncoder, "", &module, &source).expect("the plan fits");
    let module =
        load_module::<B, _>(module, &plan, &source, width, &mut |_| ControlFlow::Continue(())).expect("it loads");
    assert_eq!(module.layer_scale.val().dtype(), width.store_dtype::<B>(device));
    values(&module.layer_scale)[0]
}

fn widens_bf16_exactly<B: Backend>(device: &B::Device) {
    for bits in [0x3f81u16, 0x0001, 0x8000, 0x7f7f, 0xff80] {
        let stored = bits.to_le_bytes();
        for width in [Width::F32, Width::Bf16] {
            let found = scale::<B>("BF16", &stored, width, device);
            assert_eq!(found.to_bits(), u32::from(bits) << 16, "{bits:#x} {width}");
        }
    }
}

fn rounds_f32_to_nearest_even<B: Backend>(device: &B::Device) {
    for (bits, rounded) in
        [(0x3f80_8001u32, 0x3f81u16), (0x3f80_8000, 0x3f80), (0x3f81_8000, 0x3f82), (0x3f80_7fff, 0x3f80)]
    {
        let stored = bits.to_le_bytes();
        assert_eq!(scale::<B>("F32", &stored, Width::F32, device).to_bits(), bits);
        assert_eq!(scale::<B>("F32", &stored, Width::Bf16, device), bf16::from_bits(rounded).to_f32(), "{bits:#x}");
    }
}

#[test]
fn stops_when_progress_says_so() {
    let folder = Folder::new();
    let source = opened(&folder, &file(&TENSORS));
    let plan = Plan::new(Component::ConditionEncoder, &config(), &source).expect("the plan fits");
    let mut calls = 0;
    let mut progress = |progress: music3_weights::Progress<'_>| {
        calls += 1;
        if progress.loaded == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let encoder = Encoder::<Flex>::new(&Default::default());
    let loaded = load_module::<Flex, _>(encoder, &plan, &source, Width::F32, &mut progress);
    let error = loaded.map(|_| ()).expect_err("the load stops");
    assert!(matches!(error, WeightsError::Cancelled { loaded: 2, total: 4, .. }));
    assert_eq!(error.to_string(), "condition_encoder: loading stopped after 2 of 4 parameters");
    assert_eq!(calls, 2);
}

#[test]
fn refuses_a_module_that_is_not_the_plans() {
    #[derive(Module, Debug)]
    struct Other<B: Backend> {
        layer_weight_logits: Param<Tensor<B, 1>>,
        layer_bias: Param<Tensor<B, 1>>,
        proj: Conv<B>,
    }
    let (folder, device) = (Folder::new(), Default::default());
    let source = opened(&folder, &file(&TENSORS));
    let plan = Plan::new(Component::ConditionEncoder, &config(), &source).expect("the plan fits");
    let other = Other::<Flex> {
        layer_weight_logits: unmade([4], &device),
        layer_bias: unmade([1], &device),
        proj: Conv { weight: unmade([3, 3, 2], &device), bias: unmade([3], &device) },
    };
    let mut progress = |_: music3_weights::Progress<'_>| panic!("nothing is read before the module is compared");
    let loaded = load_module::<Flex, _>(other, &plan, &source, Width::F32, &mut progress);
    assert_eq!(
        loaded.map(|_| ()).expect_err("the module is refused").to_string(),
        "3 problems
  condition_encoder: parameter `layer_bias` has no row in the mapping; this is a bug
  condition_encoder: parameter `proj.weight` was built with shape [3, 3, 2], the config gives [3, 2, 3]; this is a bug
  condition_encoder: the module has no parameter `layer_scale`; it was built from another config, or this is a bug"
    );
}

#[test]
fn plans_a_part_by_its_own_names() {
    let (folder, device) = (Folder::new(), Default::default());
    let bytes = typed_file(&[
        ("x.a", "F32", &[1]),
        ("w.weight", "BF16", &[3, 2, 3]),
        ("w.bias", "F16", &[4]),
        ("w.extra", "F32", &[1]),
        ("w.left_out", "I64", &[1]),
    ]);
    let file = opened(&folder, &bytes);
    let source = file.with_prefix("w.").without("left_out");
    assert_eq!(source.names().collect::<Vec<_>>(), ["bias", "extra", "weight"]);
    let part = Conv::<Flex> { weight: unmade([3, 2, 3], &device), bias: unmade([3], &device) };
    let error =
        Plan::for_part::<Flex, _>(Component::ConditionEncoder, "proj", &part, &source).expect_err("it is wrong");
    assert_eq!(
        folder.relative(error),
        "2 problems
  condition_encoder: tensor `bias` has shape [4], expected [3] (encoder.safetensors)
  condition_encoder: tensor `extra` is not used (encoder.safetensors)"
    );
    let error = Plan::for_part::<Flex, _>(Component::Vocoder, "snake_out", &part, &source).expect_err("no such part");
    assert_eq!(
        error.to_string(),
        "2 problems
  vocoder: parameter `weight` has no row in the mapping; this is a bug
  vocoder: parameter `bias` has no row in the mapping; this is a bug"
    );
}

#[test]
fn reads_case_tensors_in_their_own_dtype() {
    use burn::tensor::DType;
    use music3_weights::{Dtype, TensorSource};
    let folder = Folder::new();
    let bytes = typed_file(&[
        ("a", "I64", &[2]),
        ("b", "BOOL", &[3]),
        ("c", "F16", &[1]),
        ("d", "BF16", &[0, 4]),
        ("e", "F64", &[]),
        ("f", "F8_E4M3", &[2]),
    ]);
    let file = opened(&folder, &bytes);
    let dtypes: Vec<_> =
        file.names().filter_map(|name| file.tensor(name).ok()?.to_data().ok()).map(|data| data.dtype).collect();
    assert_eq!(dtypes.len(), 5);
    assert_eq!((dtypes[0], dtypes[2], dtypes[3], dtypes[4]), (DType::I64, DType::F16, DType::BF16, DType::F64));
    assert!(matches!(dtypes[1], DType::Bool(_)));
    let view = file.tensor("f").expect("the tensor is there");
    assert_eq!(view.entry.dtype, Dtype::F8_E4M3);
    let error = view.to_data().map(|_| ()).expect_err("the dtype is refused");
    assert_eq!(folder.relative(error), "encoder.safetensors: tensor `f` has dtype F8_E4M3, which cannot be read");
}

//! The published checkpoint's tensors, from `weights-mapping/contract.json`: each is planned once, without any weights.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use music3_weights::{
    Component, Dtype, Layout, Operation, Plan, Problem, TensorEntry, TensorSource, TensorView, WeightsError,
};
use serde_json::Value;

/// Headers without data.
pub(crate) struct Headers(pub(crate) Vec<(String, Dtype, Vec<usize>)>);

impl TensorSource for Headers {
    fn entries(&self) -> Vec<TensorEntry<'_>> {
        let entries = self.0.iter().map(|(name, dtype, shape)| {
            let bytes = (shape.iter().product::<usize>() * dtype.bitsize() / 8) as u64;
            TensorEntry { name, dtype: *dtype, shape, bytes, file: Path::new("contract.json") }
        });
        entries.collect()
    }

    fn tensor(&self, name: &str) -> Result<TensorView<'_>, WeightsError> {
        panic!("a plan reads no tensor, not even {name}")
    }
}

/// The published checkpoint's configs and tensors.
pub(crate) struct Contract {
    pub(crate) configs: Value,
    pub(crate) headers: BTreeMap<Component, Headers>,
    /// Where the native layout keeps each of them.
    native: BTreeMap<(Component, String), NativeRow>,
    native_headers: BTreeMap<Component, Headers>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct NativeRow {
    file: String,
    name: String,
    /// Which part of a fused tensor.
    third: Option<usize>,
}

/// Component, name, shape, dtype; native file, native name, third of the native tensor.
type Row = (String, String, Vec<usize>, Dtype, String, String, Option<usize>);

pub(crate) fn contract() -> Contract {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../weights-mapping/contract.json");
    let mut contract: Value =
        serde_json::from_slice(&fs::read(path).expect("the contract is in the tree")).expect("the contract is JSON");
    let rows: Vec<Row> =
        serde_json::from_value(contract["tensors"].take()).expect("a row has the columns that the file names");
    let (mut headers, mut native, mut native_headers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (component, name, shape, dtype, file, native_name, third) in rows {
        let component =
            Component::ALL.into_iter().find(|known| known.folder() == component).expect("a known component");
        let mut native_shape = shape.clone();
        native_shape[0] *= if third.is_some() { 3 } else { 1 };
        let tensors: &mut Headers = native_headers.entry(component).or_insert_with(|| Headers(Vec::new()));
        if third.is_none_or(|third| third == 0) {
            tensors.0.push((native_name.clone(), dtype, native_shape));
        }
        native.insert((component, name.clone()), NativeRow { file, name: native_name, third });
        headers.entry(component).or_insert_with(|| Headers(Vec::new())).0.push((name, dtype, shape));
    }
    Contract { configs: contract["configs"].take(), headers, native, native_headers }
}

/// Tensors of each component, in the order of [`Component::ALL`].
const COUNTS: [usize; 5] = [399, 47, 4, 441, 121];

#[test]
fn plans_399_and_47_and_4_and_441_and_121_native_tensors_exactly_once() {
    let contract = contract();
    assert_eq!(contract.native.len(), 1012);
    let mut planned = [0; 5];
    for component in Component::ALL {
        let config = &contract.configs[component.folder()];
        let plan = |layout, headers| {
            Plan::of_layout(component, layout, config, headers).unwrap_or_else(|error| panic!("{error}"))
        };
        let diffusers = plan(Layout::Diffusers, &contract.headers[&component]);
        let native = plan(Layout::Native, &contract.native_headers[&component]);
        assert_eq!(diffusers.rows().len(), native.rows().len(), "{component}");
        let mut seen = BTreeSet::new();
        for row in diffusers.rows() {
            let packed = native.row(&row.path).unwrap_or_else(|| panic!("{}", row.path));
            assert_eq!((&packed.shape, packed.bytes), (&row.shape, row.bytes), "{}", row.path);
            let third = match packed.operation {
                Operation::Split { part, parts: 3 } => Some(part),
                operation => {
                    assert_eq!(operation, row.operation, "{}", row.path);
                    None
                }
            };
            assert_eq!(packed.stored.len(), row.stored.len(), "{}", row.path);
            for (name, native_name) in row.stored.iter().zip(&packed.stored) {
                let expected = &contract.native[&(component, name.clone())];
                assert_eq!((native_name, third), (&expected.name, expected.third), "{}", row.path);
                assert!(seen.insert(expected), "{name} is planned twice");
            }
        }
        planned[component as usize] = seen.len();
        let all = contract.native.iter().filter(|((of, _), _)| *of == component);
        assert!(all.map(|(_, row)| row).all(|row| seen.contains(row)), "{component}");
    }
    assert_eq!(planned, COUNTS);
    let files: BTreeSet<&str> = contract.native.values().map(|row| row.file.as_str()).collect();
    assert_eq!(
        files.into_iter().collect::<Vec<_>>(),
        ["dav.pth", "flowmatching_vae.pth", "qwen_7B/qwen_7B/model.safetensors"]
    );
}

#[test]
fn a_fused_tensor_is_named_once_when_it_is_wrong() {
    let contract = contract();
    let config = &contract.configs["transformer"];
    let fused = "diffusion_transformer.transformer.layers.3.self_attn.to_qkv.weight";
    let mut headers = Headers(contract.native_headers[&Component::Transformer].0.clone());
    let place = headers.0.iter().position(|(name, _, _)| name == fused).expect("it is there");
    headers.0[place].2[0] -= 1;
    let error = Plan::of_layout(Component::Transformer, Layout::Native, config, &headers).expect_err("it is wrong");
    assert_eq!(
        error.to_string(),
        format!(
            "transformer: tensor `{fused}` has shape [6143, 2048], expected [6144, 2048] = [3 * inner_dim, inner_dim] \
             (contract.json)"
        )
    );
    headers.0.remove(place);
    let error = Plan::of_layout(Component::Transformer, Layout::Native, config, &headers).expect_err("it is missing");
    assert_eq!(error.to_string(), format!("transformer: tensor `{fused}` is missing (contract.json)"));
}

#[test]
fn plans_399_and_47_and_4_and_441_and_121_diffusers_tensors_exactly_once() {
    let contract = contract();
    let (mut parameters, mut bytes) = (0, 0);
    for (component, tensors, folded) in [
        (Component::LanguageModel, 399, 0),
        (Component::RvqDepthDecoder, 47, 0),
        (Component::ConditionEncoder, 4, 0),
        (Component::Transformer, 441, 0),
        (Component::Vocoder, 121, 30),
    ] {
        let headers = &contract.headers[&component];
        assert_eq!(headers.0.len(), tensors, "{component}");
        let plan = Plan::new(component, &contract.configs[component.folder()], headers)
            .unwrap_or_else(|error| panic!("{error}"));
        let mut read: Vec<&str> = plan.rows().flat_map(|row| &row.stored).map(String::as_str).collect();
        read.sort_unstable();
        let mut stored: Vec<&str> = headers.0.iter().map(|(name, _, _)| name.as_str()).collect();
        stored.sort_unstable();
        assert_eq!(read, stored, "{component}");
        assert_eq!(plan.rows().filter(|row| row.operation == Operation::FoldWeightNorm).count(), folded, "{component}");
        parameters += plan.rows().len();
        bytes += plan.rows().map(|row| row.bytes).sum::<u64>();
    }
    assert_eq!(parameters, 982);
    // The published files take 28 517 617 303 bytes; the rest are headers, configs and the tokenizer.
    assert_eq!(bytes, 28_505_979_820);
}

#[test]
fn misses_every_tensor_that_is_taken_away() {
    let contract = contract();
    let (config, headers) = (&contract.configs["vocoder"], &contract.headers[&Component::Vocoder]);
    for absent in 0..headers.0.len() {
        let mut rest = Headers(headers.0.clone());
        let (name, _, _) = rest.0.remove(absent);
        let error = Plan::new(Component::Vocoder, config, &rest).expect_err("a tensor is missing");
        assert!(
            matches!(error.problems(), [Problem::Missing { name: missing, .. }] if *missing == name),
            "{name}: {error}"
        );
    }
}

#[test]
fn refuses_every_tensor_of_another_shape_or_dtype() {
    let contract = contract();
    for component in [Component::Vocoder, Component::ConditionEncoder] {
        let (config, headers) = (&contract.configs[component.folder()], &contract.headers[&component]);
        for place in 0..headers.0.len() {
            let mut longer = Headers(headers.0.clone());
            longer.0[place].2[0] += 1;
            let error = Plan::new(component, config, &longer).expect_err("a shape is wrong");
            assert!(matches!(error.problems(), [Problem::Shape { .. }]), "{error}");
            let mut half = Headers(headers.0.clone());
            half.0[place].1 = Dtype::F16;
            let error = Plan::new(component, config, &half).expect_err("a dtype is wrong");
            assert!(matches!(error.problems(), [Problem::Dtype { found: Dtype::F16, .. }]), "{error}");
        }
    }
}

#[test]
fn says_all_that_is_wrong_at_once() {
    let contract = contract();
    let mut headers = Headers(contract.headers[&Component::Transformer].0.clone());
    for (name, dtype, shape) in &mut headers.0 {
        match name.as_str() {
            "proj_out.weight" => shape.reverse(),
            "transformer_blocks.3.ff_in.weight" => shape[0] /= 2,
            "transformer_blocks.7.attn.to_out.0.weight" => *name = "transformer_blocks.7.attn.to_out.weight".to_owned(),
            "time_proj.weight" => *dtype = Dtype::F64,
            _ => {}
        }
    }
    headers.0.push(("encoder.conv_in.bias".to_owned(), Dtype::F32, vec![4]));
    let twice = headers.0[0].clone();
    headers.0.push(twice);
    let error = Plan::new(Component::Transformer, &contract.configs["transformer"], &headers).expect_err("it is wrong");
    assert_eq!(
        error.to_string(),
        "7 problems
  contract.json: `postprocess_conv.weight` occurs twice, also in contract.json
  transformer: tensor `time_proj.weight` has dtype F64, expected F32 or BF16 (contract.json)
  transformer: tensor `proj_out.weight` has shape [2048, 128], expected [128, 2048] = [in_channels, inner_dim] (contract.json)
  transformer: tensor `transformer_blocks.3.ff_in.weight` has shape [8192, 2048], expected [16384, 2048] = [2 * ff_inner_dim, inner_dim] (contract.json)
  transformer: tensor `transformer_blocks.7.attn.to_out.0.weight` is missing (contract.json); the nearest unused name is `transformer_blocks.7.attn.to_out.weight`
  transformer: tensor `encoder.conv_in.bias` is not used (contract.json)
  transformer: tensor `transformer_blocks.7.attn.to_out.weight` is not used (contract.json)"
    );
}

#[test]
fn shares_the_head_of_a_tied_language_model() {
    let contract = contract();
    let mut config = contract.configs["language_model"].clone();
    config["tie_word_embeddings"] = true.into();
    let both = &contract.headers[&Component::LanguageModel];
    let tied = Headers(both.0.iter().filter(|(name, _, _)| name != "lm_head.weight").cloned().collect());
    for headers in [both, &tied] {
        let plan = Plan::new(Component::LanguageModel, &config, headers).unwrap_or_else(|error| panic!("{error}"));
        let head = plan.row("lm_head.weight").expect("the module has a head");
        assert_eq!(head.stored, ["model.embed_tokens.weight"]);
        assert_eq!(plan.rows().len(), 399);
    }
    config["tie_word_embeddings"] = false.into();
    let error = Plan::new(Component::LanguageModel, &config, &tied).expect_err("the head is missing");
    assert_eq!(error.to_string(), "language_model: tensor `lm_head.weight` is missing (contract.json)");
}

#[test]
fn a_config_of_absurd_numbers_is_refused_before_it_costs_anything() {
    let contract = contract();
    let headers = &contract.headers[&Component::Transformer];
    for (key, value, message) in [
        (
            "num_layers",
            4_000_000_000u64,
            "transformer: config.json gives `transformer_blocks.{i}.norm1.weight` no shape: \
            `num_layers` is too large, negative, or a division by zero",
        ),
        (
            "fourier_embedding_dim",
            1,
            "transformer: config.json gives `time_proj.weight` no shape: \
            `fourier_embedding_dim / 2` is too large, negative, or a division by zero",
        ),
    ] {
        let mut config = contract.configs["transformer"].clone();
        config[key] = value.into();
        let error = Plan::new(Component::Transformer, &config, headers).expect_err("the config is refused");
        assert_eq!(error.problems().first().map(Problem::to_string).as_deref(), Some(message));
    }
}

#[test]
fn a_long_list_of_problems_is_cut_in_the_message_only() {
    let contract = contract();
    let error = Plan::new(Component::Transformer, &contract.configs["transformer"], &Headers(Vec::new()))
        .expect_err("everything is missing");
    assert_eq!(error.problems().len(), 441);
    let message = error.to_string();
    assert!(message.starts_with("441 problems\n  transformer: tensor `time_proj.weight` is missing\n"), "{message}");
    assert!(message.ends_with("\n  and 401 more"), "{message}");
}

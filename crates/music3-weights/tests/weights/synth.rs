//! Random checkpoints: the published size without its 28.5 GB, and a small one on the disk.

use std::{
    collections::BTreeSet,
    fs,
    io::{Seek, SeekFrom, Write},
    ops::ControlFlow,
    path::Path,
    time::{Duration, Instant},
};

use music3_weights::{Checkpoint, Component, Layout, SynthCheckpoint, SynthComponent, TensorSource, WriteError};
use serde_json::{Value, json};

use crate::contract::contract;

/// Upstream's libraries start a new file after so many bytes.
const MAX_SHARD_BYTES: u64 = 5_000_000_000;

fn planned(config: impl Fn(Component) -> Value, max_shard_bytes: u64, seed: u64) -> SynthCheckpoint {
    SynthCheckpoint::plan(&components(config, max_shard_bytes), seed).unwrap_or_else(|error| panic!("{error}"))
}

fn components(config: impl Fn(Component) -> Value, max_shard_bytes: u64) -> [SynthComponent; 5] {
    Component::ALL.map(|component| SynthComponent { component, config: config(component), max_shard_bytes })
}

fn published() -> SynthCheckpoint {
    let configs = contract().configs;
    planned(|component| configs[component.folder()].clone(), MAX_SHARD_BYTES, 0)
}

fn tiny(component: Component) -> Value {
    match component {
        Component::LanguageModel => json!({
            "architectures": ["Qwen3ForCausalLM"], "vocab_size": 23, "hidden_size": 6, "intermediate_size": 7,
            "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
        }),
        Component::RvqDepthDecoder => json!({
            "_class_name": "MiniMaxMusic3RVQDepthDecoder", "hidden_size": 6, "num_layers": 1,
            "num_attention_heads": 2, "intermediate_size": 5, "audio_vocab_size": 3, "num_codebooks": 3,
            "max_position_embeddings": 16,
        }),
        Component::ConditionEncoder => json!({
            "_class_name": "MiniMaxMusic3ConditionEncoder", "condition_hidden_dim": 6, "num_condition_layers": 3,
            "out_dim": 5,
        }),
        Component::Transformer => json!({
            "_class_name": "MiniMaxMusic3Transformer1DModel", "in_channels": 4, "condition_dim": 5, "num_layers": 2,
            "num_attention_heads": 2, "attention_head_dim": 4, "ff_inner_dim": 9, "rotary_dim": 2,
            "fourier_embedding_dim": 6,
        }),
        Component::Vocoder => json!({
            "_class_name": "MiniMaxMusic3Vocoder", "latent_channels": 4, "decoder_input_dim": 5,
            "decoder_hidden_dim": 8, "upsampling_ratios": [2, 3],
        }),
    }
}

fn write(plan: &SynthCheckpoint, folder: &Path) {
    plan.write(folder, &|_| ControlFlow::Continue(())).unwrap_or_else(|error| panic!("{error}"));
    fs::create_dir(folder.join("tokenizer")).expect("a folder");
    fs::write(folder.join("tokenizer/tokenizer.json"), "{}").expect("a file");
}

#[test]
fn the_published_size_has_the_published_tensors() {
    let (plan, contract) = (published(), contract());
    let row = |component: &str, name: &str, shape: &[usize], dtype: &dyn ToString| {
        (component.to_owned(), name.to_owned(), shape.to_vec(), dtype.to_string())
    };
    let expected: BTreeSet<_> = contract
        .headers
        .iter()
        .flat_map(|(component, headers)| {
            headers.0.iter().map(|(name, dtype, shape)| row(component.folder(), name, shape, dtype))
        })
        .collect();
    let found: Vec<_> = plan
        .files()
        .iter()
        .flat_map(|file| {
            let folder = file.path().parent().and_then(Path::to_str).expect("a component's folder");
            file.tensors().map(move |(_, tensor)| row(folder, tensor.name(), tensor.shape(), &tensor.dtype()))
        })
        .collect();
    assert_eq!(found.len(), 1012);
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
    let count = |folder: &str| plan.files().iter().filter(|file| file.path().starts_with(folder)).count();
    assert_eq!(Component::ALL.map(|component| count(component.folder())), [4, 1, 1, 2, 1]);
    let data: u64 = plan.files().iter().flat_map(|file| file.tensors()).map(|(_, tensor)| tensor.bytes()).sum();
    assert_eq!(data, 28_505_979_820);
}

/// Writes all but the values, which are a hole that nothing reads.
fn write_headers(plan: &SynthCheckpoint, folder: &Path, tokenizer: &str) {
    for (path, text) in plan.texts() {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a component's folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    for file in plan.files() {
        let mut written = fs::File::create_new(folder.join(file.path())).expect("a file");
        written.set_len(file.bytes()).expect("a length");
        for (offset, bytes) in file.fixed() {
            written.seek(SeekFrom::Start(*offset)).expect("a place");
            written.write_all(bytes).expect("a header");
        }
    }
    fs::create_dir_all(folder.join(tokenizer)).expect("a folder");
    fs::write(folder.join(tokenizer).join("tokenizer.json"), "{}").expect("a file");
}

#[test]
fn the_published_size_opens_from_its_headers_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_headers(&published(), folder.path(), "tokenizer");
    let checkpoint = Checkpoint::open(folder.path()).unwrap_or_else(|error| panic!("{error}"));
    let plans = checkpoint.plans().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plans.iter().map(|plan| plan.rows().len()).sum::<usize>(), 982);
    assert_eq!(checkpoint.summary().bytes(), 28_505_979_820);
    let index = fs::read(folder.path().join("language_model/model.safetensors.index.json")).expect("an index");
    let index: Value = serde_json::from_slice(&index).expect("JSON");
    assert_eq!(index["metadata"]["total_size"], 17_168_951_296_u64);
    assert_eq!(index["weight_map"].as_object().map(serde_json::Map::len), Some(399));
}

#[test]
fn the_published_size_opens_in_the_native_layout_within_a_second() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let configs = contract().configs;
    let config = |component: Component| configs[component.folder()].clone();
    let plan = SynthCheckpoint::plan_native(&components(config, MAX_SHARD_BYTES), 0);
    write_headers(&plan.unwrap_or_else(|error| panic!("{error}")), folder.path(), "qwen_7B/qwen3-8B-tokenizer-music");
    let start = Instant::now();
    let checkpoint = Checkpoint::open(folder.path()).unwrap_or_else(|error| panic!("{error}"));
    let plans = checkpoint.plans().unwrap_or_else(|error| panic!("{error}"));
    let summary = checkpoint.summary();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(checkpoint.layout(), Layout::Native);
    assert_eq!(plans.iter().map(|plan| plan.rows().len()).sum::<usize>(), 982);
    assert_eq!((summary.bytes(), summary.tensors()), (28_505_979_820, 1012 - 2 * 36));
    assert!(!folder.path().join("transformer.json").exists(), "the published config is nowhere");
    // Every value is where a fused tensor's part is looked for.
    let plan = checkpoint.component(Component::Transformer).plan().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan.row("transformer_blocks.35.attn.to_v.weight").map(|row| row.bytes), Some(2048 * 2048 * 4));
}

#[test]
fn the_same_seed_has_the_same_values_in_both_layouts() {
    let [diffusers, native] = [(); 2].map(|()| tempfile::tempdir().expect("a temporary folder"));
    write(&planned(tiny, 380, 5), diffusers.path());
    let plan = SynthCheckpoint::plan_native(&components(tiny, 380), 5).unwrap_or_else(|error| panic!("{error}"));
    plan.write(native.path(), &|_| ControlFlow::Continue(())).unwrap_or_else(|error| panic!("{error}"));
    let tokenizer = native.path().join("qwen_7B/qwen3-8B-tokenizer-music");
    fs::create_dir_all(&tokenizer).expect("a folder");
    fs::write(tokenizer.join("tokenizer.json"), "{}").expect("a file");
    let [diffusers, native] = [&diffusers, &native].map(|folder| {
        let checkpoint = Checkpoint::open(folder.path()).unwrap_or_else(|error| panic!("{error}"));
        let plans = checkpoint.plans().unwrap_or_else(|error| panic!("{error}"));
        (checkpoint, plans)
    });
    let mut compared = 0;
    for component in Component::ALL {
        for row in diffusers.1[component as usize].rows() {
            let other = native.1[component as usize].row(&row.path).expect("both have the same parameters");
            let left = row.views(diffusers.0.component(component)).unwrap_or_else(|error| panic!("{error}"));
            let right = other.views(native.0.component(component)).unwrap_or_else(|error| panic!("{error}"));
            let bytes = |views: &[music3_weights::TensorView<'_>]| -> Vec<Vec<u8>> {
                views.iter().map(|view| view.data.to_vec()).collect()
            };
            assert_eq!(bytes(&left), bytes(&right), "{component} {}", row.path);
            compared += 1;
        }
    }
    assert_eq!(compared, 25 + 15 + 4 + 33 + 49);
}

#[test]
fn a_small_one_is_whole_finite_and_repeatable() {
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a temporary folder"));
    for (folder, seed) in folders.iter().zip([5, 5, 6]) {
        write(&planned(tiny, 380, seed), folder.path());
    }
    let [first, second, third] = folders.each_ref().map(|folder| {
        let checkpoint = Checkpoint::open(folder.path()).unwrap_or_else(|error| panic!("{error}"));
        checkpoint.plans().unwrap_or_else(|error| panic!("{error}"));
        checkpoint
    });
    let mut differing = 0;
    for component in Component::ALL {
        let source = |checkpoint: &'_ Checkpoint, name: &str| {
            let view = checkpoint.component(component).tensor(name).unwrap_or_else(|error| panic!("{error}"));
            view.to_data().unwrap_or_else(|error| panic!("{error}"))
        };
        assert!(first.component(component).files().len() > 1, "{component} is in shards");
        for entry in first.component(component).entries() {
            let values = source(&first, entry.name);
            assert!(values.iter::<f32>().all(f32::is_finite), "{component} {}", entry.name);
            assert!(values.iter::<f32>().any(|value| value != 0.0), "{component} {}", entry.name);
            assert_eq!(values.as_bytes(), source(&second, entry.name).as_bytes(), "{component} {}", entry.name);
            differing += usize::from(values.as_bytes() != source(&third, entry.name).as_bytes());
        }
    }
    // All but the norms and the layer scale.
    assert_eq!(differing, 125);
}

#[test]
fn stops_when_asked_to() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let error = planned(tiny, 400, 0).write(folder.path(), &|_| ControlFlow::Break(())).expect_err("it was stopped");
    assert!(matches!(error, WriteError::Stopped { written, total } if written < total), "{error}");
}

#[test]
fn says_all_that_configs_ask_in_vain() {
    let components = [Component::Transformer, Component::Vocoder].map(|component| {
        let mut config = tiny(component);
        config["quantization_config"] = json!({ "bits": 4 });
        SynthComponent { component, config, max_shard_bytes: 400 }
    });
    let error = SynthCheckpoint::plan(&components, 0).expect_err("quantised weights are not made");
    assert_eq!(error.problems().len(), 2, "{error}");
}

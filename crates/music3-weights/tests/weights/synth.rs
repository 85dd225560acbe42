//! Random checkpoints: the published size without its 28.5 GB, and a small one on the disk.

use std::{collections::BTreeSet, fs, io::Write, ops::ControlFlow, path::Path};

use music3_weights::{Checkpoint, Component, SynthCheckpoint, SynthComponent, TensorSource, WriteError};
use serde_json::{Value, json};

use crate::contract::contract;

/// Upstream's libraries start a new file after so many bytes.
const MAX_SHARD_BYTES: u64 = 5_000_000_000;

fn planned(config: impl Fn(Component) -> Value, max_shard_bytes: u64, seed: u64) -> SynthCheckpoint {
    let components =
        Component::ALL.map(|component| SynthComponent { component, config: config(component), max_shard_bytes });
    SynthCheckpoint::plan(&components, seed).unwrap_or_else(|error| panic!("{error}"))
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
            "max_position_embeddings": 4,
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
            file.tensors().iter().map(|tensor| row(folder, tensor.name(), tensor.shape(), &tensor.dtype()))
        })
        .collect();
    assert_eq!(found.len(), 1012);
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
    let count = |folder: &str| plan.files().iter().filter(|file| file.path().starts_with(folder)).count();
    assert_eq!(Component::ALL.map(|component| count(component.folder())), [4, 1, 1, 2, 1]);
    let data: u64 = plan.files().iter().map(|file| file.bytes() - file.header().len() as u64).sum();
    assert_eq!(data, 28_505_979_820);
}

#[test]
fn the_published_size_opens_from_its_headers_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plan = published();
    for (path, text) in plan.texts() {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a component's folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    for file in plan.files() {
        let mut written = fs::File::create_new(folder.path().join(file.path())).expect("a file");
        written.write_all(file.header()).expect("a header");
        // The tensors are a hole: nothing reads them.
        written.set_len(file.bytes()).expect("a length");
    }
    fs::create_dir(folder.path().join("tokenizer")).expect("a folder");
    fs::write(folder.path().join("tokenizer/tokenizer.json"), "{}").expect("a file");
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

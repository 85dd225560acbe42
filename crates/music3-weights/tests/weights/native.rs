//! The native layout: the demo checkpoint as torch packed it, beside the same in the diffusers layout.

use std::{fs, path::PathBuf};

use music3_weights::{Checkpoint, Component, Layout, PthFile, SafetensorsFile, TensorSource};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{checkpoint::demo, crafted::Folder};

const LANGUAGE_MODEL: &str = "qwen_7B/qwen_7B";

fn goldens(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../goldens/native").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The native name of a tensor of the depth decoder or the language model, and where the demo checkpoint has it.
fn origin<'a>(name: &'a str, names: &'a Value) -> (Component, &'a str) {
    let renamed =
        names["tensors"].as_array().into_iter().flatten().find(|row| row[0] == "rvq_depth_decoder" && row[5] == name);
    match renamed.and_then(|row| row[1].as_str()) {
        Some(other) => (Component::RvqDepthDecoder, other),
        None => (Component::LanguageModel, name),
    }
}

/// A weight file of the language model: the header that safetensors wrote, and the tensors of the demo checkpoint in its
/// order. Its hash is that of the file that torch and safetensors wrote.
fn shard(stem: &str, demo: &Checkpoint) -> Vec<u8> {
    let contract = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../weights-mapping/contract.json");
    let contract: Value = serde_json::from_slice(&fs::read(contract).expect("the contract")).expect("JSON");
    let header = goldens(&format!("{stem}.header.json"));
    let parsed: Value = serde_json::from_slice(&header).expect("a header");
    let mut tensors: Vec<_> =
        parsed.as_object().into_iter().flatten().filter(|(name, _)| *name != "__metadata__").collect();
    tensors.sort_by_key(|(_, info)| info["data_offsets"][0].as_u64());
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(&header);
    for (name, _) in tensors {
        let (component, other) = origin(name, &contract);
        let view = demo.component(component).tensor(other).unwrap_or_else(|error| panic!("{error}"));
        bytes.extend(view.data);
    }
    let hashes: Value = serde_json::from_slice(&goldens("sha256.json")).expect("hashes");
    let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hashes[format!("{stem}.safetensors")], hash, "{stem}");
    bytes
}

/// The demo checkpoint in both layouts: diffusers, native.
pub(crate) fn both() -> (Folder, Folder) {
    let (diffusers, native) = (demo(), Folder::new());
    let opened = Checkpoint::open(diffusers.path()).unwrap_or_else(|error| panic!("{error}"));
    for stem in ["model-00001-of-00002", "model-00002-of-00002"] {
        native.write(&format!("{LANGUAGE_MODEL}/{stem}.safetensors"), shard(stem, &opened));
    }
    for name in ["config.json", "model.safetensors.index.json"] {
        native.write(&format!("{LANGUAGE_MODEL}/{name}"), goldens(name));
    }
    for name in ["flowmatching_vae.pth", "dav.pth"] {
        native.write(name, goldens(name));
    }
    for component in [Component::ConditionEncoder, Component::Transformer, Component::Vocoder] {
        let config = diffusers.path().join(component.folder()).join("config.json");
        native.write(&format!("{component}.json"), fs::read(config).expect("a config"));
    }
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        let tokenizer = fs::read(diffusers.path().join("tokenizer").join(name)).expect("a tokenizer");
        native.write(&format!("qwen_7B/qwen3-8B-tokenizer-music/{name}"), tokenizer);
    }
    (diffusers, native)
}

pub(crate) fn open(folder: &Folder) -> Checkpoint {
    Checkpoint::open(folder.path()).unwrap_or_else(|error| panic!("{error}"))
}

fn messages(folder: &Folder) -> Vec<String> {
    let outcome = Checkpoint::open(folder.path()).and_then(|checkpoint| checkpoint.plans());
    let error = outcome.map(|_| ()).expect_err("the folder is refused");
    error.problems().iter().map(|problem| folder.relative(problem)).collect()
}

#[test]
fn both_layouts_hold_the_same_parameters_to_the_bit() {
    let (diffusers, native) = both();
    let (diffusers, native) = (open(&diffusers), open(&native));
    assert_eq!((diffusers.layout(), native.layout()), (Layout::Diffusers, Layout::Native));
    let plans = [&diffusers, &native].map(|checkpoint| checkpoint.plans().unwrap_or_else(|error| panic!("{error}")));
    let mut compared = 0;
    for component in Component::ALL {
        let [left, right] = plans.each_ref().map(|plans| &plans[component as usize]);
        assert_eq!(left.rows().len(), right.rows().len());
        for row in left.rows() {
            let other = right.row(&row.path).expect("both have the same parameters");
            let values = |checkpoint: &Checkpoint, row: &music3_weights::PlanRow| {
                let views = row.views(checkpoint.component(component)).unwrap_or_else(|error| panic!("{error}"));
                let stored = views.iter().map(|view| (view.entry.dtype, view.entry.shape.to_vec(), view.data.to_vec()));
                stored.collect::<Vec<_>>()
            };
            assert_eq!(values(&diffusers, row), values(&native, other), "{component} {}", row.path);
            compared += 1;
        }
    }
    assert_eq!(compared, 25 + 29 + 4 + 33 + 91);
}

#[test]
fn tells_what_the_native_layout_holds_and_what_is_left_out() {
    let (_, native) = both();
    let summary = open(&native).summary();
    let tensors: Vec<usize> = summary.components.iter().map(|component| component.tensors).collect();
    // Queries, keys and values of two blocks are one tensor each.
    assert_eq!(tensors, [25, 29, 4, 29, 121]);
    let left_out: Vec<&str> = summary.left_out.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(
        left_out,
        [
            "enc_logs_proj.weight",
            "enc_mean_proj.weight",
            "encoder.block.0.bias",
            "encoder.block.0.weight_g",
            "encoder.block.0.weight_v"
        ]
    );
    let shown = native.relative(&summary);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], ".: native layout");
    assert!(lines[7].starts_with("all                    4     208 "), "{}", lines[7]);
    assert_eq!(
        lines[8],
        "left out, an encoder's: 5 tensors of 576 bytes in dav.pth, from enc_logs_proj.weight to encoder.block.0.weight_v"
    );
}

#[test]
fn names_everything_that_is_missing_from_the_native_layout() {
    let (_, native) = both();
    for gone in ["dav.pth", "qwen_7B/qwen_7B/config.json", "qwen_7B/qwen_7B/model-00002-of-00002.safetensors"] {
        fs::remove_file(native.path().join(gone)).expect("it can be removed");
    }
    fs::remove_dir_all(native.path().join("qwen_7B/qwen3-8B-tokenizer-music")).expect("it can be removed");
    assert_eq!(
        messages(&native),
        [
            "qwen_7B/qwen_7B: config.json is missing",
            "qwen_7B/qwen_7B: model-00002-of-00002.safetensors is missing",
            ".: dav.pth is missing",
            ".: the folder qwen_7B/qwen3-8B-tokenizer-music is missing",
        ]
    );
    fs::remove_dir_all(native.path().join("qwen_7B")).expect("it can be removed");
    assert_eq!(
        messages(&native),
        [
            ".: the folder qwen_7B/qwen_7B is missing",
            ".: dav.pth is missing",
            ".: the folder qwen_7B/qwen3-8B-tokenizer-music is missing",
        ]
    );
}

#[test]
fn refuses_native_configs_by_the_files_own_keys() {
    let (_, native) = both();
    let path = native.path().join("qwen_7B/qwen_7B/config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).expect("a config")).expect("JSON");
    config["sliding_window"] = json!(4096);
    config["num_local_experts"] = json!(8);
    config["rope_scaling"] = json!({"type": "yarn"});
    config["hidden_act"] = json!("gelu");
    config["vocab_size"] = json!("many");
    config["rms_norm_eps"] = json!(-1);
    config["decoder_num_layers"] = json!(0);
    config.as_object_mut().expect("an object").remove("audio_num_codebooks");
    fs::write(&path, config.to_string()).expect("written");
    let number = "expected a whole number from 1 to 4294967295";
    assert_eq!(
        messages(&native),
        [
            "language_model: config.json has num_local_experts 8, expected 1".to_owned(),
            "language_model: config.json has hidden_act \"gelu\", expected \"silu\"".to_owned(),
            "language_model: config.json has sliding_window 4096, expected null".to_owned(),
            "language_model: config.json has rope_scaling.type \"yarn\", expected \"default\"".to_owned(),
            format!("language_model: config.json has vocab_size \"many\", {number}"),
            "language_model: config.json has rms_norm_eps -1, expected a number".to_owned(),
            format!("rvq_depth_decoder: config.json has decoder_num_layers 0, {number}"),
            format!("rvq_depth_decoder: config.json has audio_num_codebooks nothing, {number}"),
        ]
    );
    config = json!({"architectures": ["MixtralForCausalLM"]});
    fs::write(&path, config.to_string()).expect("written");
    assert_eq!(
        messages(&native),
        ["language_model: config.json has architectures \"MixtralForCausalLM\", expected \"AbabForCausalLM\""]
    );
}

#[test]
fn an_unknown_tensor_is_left_out_of_dav_pth_and_refused_elsewhere() {
    let (_, native) = both();
    let folder = native.path().join(LANGUAGE_MODEL);
    let path = folder.join("model-00002-of-00002.safetensors");
    let file = SafetensorsFile::open(&path).unwrap_or_else(|error| panic!("{error}"));
    let entries: Vec<_> = file
        .entries()
        .into_iter()
        .map(|entry| (entry.name.to_owned(), entry.dtype.to_string(), entry.shape.to_vec()))
        .chain([("model.visual.weight".to_owned(), "BF16".to_owned(), vec![2])])
        .collect();
    let typed: Vec<_> =
        entries.iter().map(|(name, dtype, shape)| (name.as_str(), dtype.as_str(), shape.as_slice())).collect();
    let bytes = crate::crafted::typed_file(&typed);
    drop(file);
    fs::write(&path, bytes).expect("written");
    let index = folder.join("model.safetensors.index.json");
    let mut map: Value = serde_json::from_slice(&fs::read(&index).expect("an index")).expect("JSON");
    map["weight_map"]["model.visual.weight"] = json!("model-00002-of-00002.safetensors");
    fs::write(&index, map.to_string()).expect("written");
    assert_eq!(
        messages(&native),
        ["language_model: tensor `model.visual.weight` is not used (qwen_7B/qwen_7B/model-00002-of-00002.safetensors)"]
    );
}

#[test]
fn says_where_the_sizes_come_from_when_there_is_no_config() {
    let (_, native) = both();
    fs::remove_file(native.path().join("condition_encoder.json")).expect("it can be removed");
    assert_eq!(
        messages(&native),
        [
            "condition_encoder: tensor `latent_conditioners.0.weight` has shape [40, 32, 3], expected [2048, 4096, 3] = \
             [out_dim, condition_hidden_dim, 3] (flowmatching_vae.pth)",
            "condition_encoder: tensor `latent_conditioners.0.bias` has shape [40], expected [2048] = [out_dim] \
             (flowmatching_vae.pth)",
            "condition_encoder: the native layout has no config for it, so the published size is expected; a checkpoint of \
             another size has condition_encoder.json, as upstream's class writes it, beside its .pth files",
            "language_model: config.json has hidden_size 32, expected condition_encoder's condition_hidden_dim 4096",
            "condition_encoder: config.json has out_dim 2048, expected transformer's condition_dim 40",
        ]
    );
}

#[test]
fn a_renamed_tensor_of_a_pth_file_is_named_with_its_nearest() {
    let (_, native) = both();
    let path = native.path().join("flowmatching_vae.pth");
    let mut bytes = fs::read(&path).expect("a file");
    let name = b"cond_layer_scale";
    let place = bytes.windows(name.len()).position(|window| window == name).expect("the pickle names it");
    bytes[place + name.len() - 1] = b'r';
    fs::write(&path, bytes).expect("written");
    assert_eq!(
        messages(&native),
        [
            "condition_encoder: tensor `cond_layer_scale` is missing (flowmatching_vae.pth); \
             the nearest unused name is `cond_layer_scalr`",
            "condition_encoder: tensor `cond_layer_scalr` is not used (flowmatching_vae.pth)",
        ]
    );
}

/// What torch wrote, and nothing of this project: the fuzzers start from the same files.
#[test]
fn reads_what_torch_saves_in_each_of_its_forms() {
    let seeds = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/archive");
    let all = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
    let whole: (&str, &[usize], &[f32]) = ("a", &[2, 3], &all);
    for (name, expected) in [
        ("plain", vec![whole]),
        // A row of the same storage.
        ("state", vec![whole, ("b", &[3], &all[..3])]),
        ("nested", vec![whole, ("n.b", &[1, 3], &all[3..])]),
        ("parameter", vec![whole]),
    ] {
        let file = PthFile::open(seeds.join(name)).unwrap_or_else(|error| panic!("{error}"));
        let names: Vec<&str> = expected.iter().map(|(name, ..)| *name).collect();
        assert_eq!(file.names().collect::<Vec<_>>(), names, "{name}");
        for (tensor, shape, values) in expected {
            let view = file.tensor(tensor).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(view.entry.shape, shape, "{name}");
            let data = view.to_data().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(data.to_vec::<f32>().expect("f32"), values, "{name}");
        }
    }
}

/// Makes the folder that the hub's client makes: a revision's files are links to blobs.
#[cfg(unix)]
fn cached(folder: &Folder) -> Folder {
    let cache = Folder::new();
    let snapshot = cache.path().join("snapshots/0a1b2c");
    fs::create_dir_all(cache.path().join("blobs")).expect("a folder");
    let (mut folders, mut count) = (vec![folder.path().to_owned()], 0);
    while let Some(source) = folders.pop() {
        for entry in fs::read_dir(source).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let below = path.strip_prefix(folder.path()).expect("below the folder");
            let (blob, link) = (format!("{count:040x}"), snapshot.join(below));
            fs::copy(&path, cache.path().join("blobs").join(&blob)).expect("a copy");
            fs::create_dir_all(link.parent().expect("a folder")).expect("a folder");
            let up = "../".repeat(below.components().count() + 1);
            std::os::unix::fs::symlink(format!("{up}blobs/{blob}"), link).expect("a link");
            count += 1;
        }
    }
    cache
}

#[cfg(unix)]
#[test]
fn both_layouts_load_from_the_hubs_cache() {
    let (diffusers, native) = both();
    for (folder, layout) in [(diffusers, Layout::Diffusers), (native, Layout::Native)] {
        let cache = cached(&folder);
        let snapshot = cache.path().join("snapshots/0a1b2c");
        let checkpoint = Checkpoint::open(&snapshot).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(checkpoint.layout(), layout);
        checkpoint.plans().unwrap_or_else(|error| panic!("{error}"));
        // A link that leads anywhere else is no link of the hub's.
        let config = snapshot.join(if layout == Layout::Native { "vocoder.json" } else { "vocoder/config.json" });
        fs::remove_file(&config).expect("it can be removed");
        let elsewhere = cache.write("other.json", "{}");
        std::os::unix::fs::symlink(&elsewhere, &config).expect("a link");
        let error = Checkpoint::open(&snapshot).map(|_| ()).expect_err("the link is refused");
        assert!(error.to_string().contains("leads out of the checkpoint folder"), "{error}");
    }
}

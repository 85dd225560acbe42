//! Checkpoint folders: the demo one, what is missing of a broken one, and what is no checkpoint at all.

use std::{fs, fs::File, ops::ControlFlow, path::PathBuf};

use flate2::read::GzDecoder;
use music3_weights::{Checkpoint, Component, Problem};
use serde_json::{Value, json};
use tar::Archive;

use crate::crafted::{Folder, file};

/// The demo checkpoint, unpacked.
pub(crate) fn demo() -> Folder {
    let folder = Folder::new();
    let archive = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../goldens/demo/demo-checkpoint.tar.gz");
    let archive = File::open(archive).expect("the demo checkpoint is in the tree");
    Archive::new(GzDecoder::new(archive)).unpack(folder.path()).expect("the archive unpacks");
    folder
}

fn messages(folder: &Folder) -> Vec<String> {
    let error = Checkpoint::open(folder.path()).map(|_| ()).expect_err("the folder is refused");
    error.problems().iter().map(|problem| folder.relative(problem)).collect()
}

/// Changes one config of a checkpoint.
fn set(folder: &Folder, component: Component, key: &str, value: Value) {
    let path = folder.path().join(component.folder()).join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).expect("it is there")).expect("it is JSON");
    config[key] = value;
    fs::write(path, config.to_string()).expect("it can be written");
}

#[test]
fn opens_and_plans_the_demo_checkpoint() {
    let folder = demo();
    let checkpoint = Checkpoint::open(folder.path()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(checkpoint.tokenizer(), folder.path().join("tokenizer"));
    let plans = checkpoint.plans().unwrap_or_else(|error| panic!("{error}"));
    let summary = checkpoint.summary();
    let tensors: Vec<usize> = summary.components.iter().map(|component| component.tensors).collect();
    assert_eq!(tensors, [25, 29, 4, 33, 121]);
    assert_eq!(plans.map(|plan| plan.rows().len()), [25, 29, 4, 33, 91]);
    assert_eq!(summary.components[0].files, 2);
    assert_eq!(summary.components[0].bytes_by_dtype.keys().collect::<Vec<_>>(), ["BF16"]);
    assert_eq!(summary.components[4].bytes_by_dtype.keys().collect::<Vec<_>>(), ["F32"]);
    let shown = folder.relative(&summary);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], ".: diffusers layout");
    assert_eq!(lines[1], "component          files tensors     parameters           bytes  dtype");
    assert!(lines[2].starts_with("language_model         2      25 "), "{}", lines[2]);
    assert!(lines[7].starts_with("all                    7     212 "), "{}", lines[7]);
    assert_eq!(lines.len(), 8);
    assert_eq!(summary.bytes(), summary.components.iter().map(|component| component.bytes()).sum::<u64>());
}

#[test]
fn loads_a_component_of_the_demo_checkpoint() {
    use burn::{
        module::{Module, Param, ParamId},
        tensor::{Shape, Tensor, backend::Backend},
    };
    use music3_testkit::Flex;

    #[derive(Module, Debug)]
    struct Proj<B: Backend> {
        weight: Param<Tensor<B, 3>>,
        bias: Param<Tensor<B, 1>>,
    }
    #[derive(Module, Debug)]
    struct Encoder<B: Backend> {
        layer_weight_logits: Param<Tensor<B, 1>>,
        layer_scale: Param<Tensor<B, 1>>,
        proj: Proj<B>,
    }
    fn unmade<const D: usize>(shape: [usize; D]) -> Param<Tensor<Flex, D>> {
        let never = |_: &_, _| panic!("a parameter that is loaded is never initialised");
        Param::uninitialized(ParamId::new(), never, Default::default(), false, Shape::from(shape))
    }
    let folder = demo();
    let checkpoint = Checkpoint::open(folder.path()).unwrap_or_else(|error| panic!("{error}"));
    let encoder = Encoder::<Flex> {
        layer_weight_logits: unmade([8]),
        layer_scale: unmade([1]),
        proj: Proj { weight: unmade([40, 32, 3]), bias: unmade([40]) },
    };
    let component = checkpoint.component(Component::ConditionEncoder);
    let encoder = component
        .load::<Flex, _>(encoder, music3_nn::Width::F32, &mut |_| ControlFlow::Continue(()))
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(encoder.proj.weight.val().into_data().iter::<f32>().any(|value| value != 0.0));
}

#[test]
fn names_everything_that_is_missing_at_once() {
    let folder = demo();
    for gone in ["vocoder", "tokenizer"] {
        fs::remove_dir_all(folder.path().join(gone)).expect("it can be removed");
    }
    for gone in [
        "transformer/config.json",
        "condition_encoder/diffusion_pytorch_model.safetensors",
        "language_model/model-00002-of-00002.safetensors",
    ] {
        fs::remove_file(folder.path().join(gone)).expect("it can be removed");
    }
    fs::remove_dir_all(folder.path().join("rvq_depth_decoder")).expect("it can be removed");
    folder.write("rvq_depth_decoder", b"");
    let found = messages(&folder);
    assert_eq!(
        found,
        [
            "language_model: model-00002-of-00002.safetensors is missing",
            ".: the folder rvq_depth_decoder is missing",
            "condition_encoder: diffusion_pytorch_model.safetensors (or diffusion_pytorch_model.safetensors.index.json) \
             is missing",
            "transformer: config.json is missing",
            ".: the folder vocoder is missing",
            ".: the folder tokenizer is missing",
        ]
    );
}

#[test]
fn plans_say_what_configs_and_tensors_disagree_on() {
    let folder = demo();
    set(&folder, Component::LanguageModel, "hidden_act", json!("gelu"));
    set(&folder, Component::Transformer, "condition_dim", json!(41));
    set(&folder, Component::Vocoder, "upsampling_ratios", json!([8, 8, 4]));
    let checkpoint = Checkpoint::open(folder.path()).unwrap_or_else(|error| panic!("{error}"));
    let error = checkpoint.plans().map(|_| ()).expect_err("the plans fail");
    let found: Vec<String> = error.problems().iter().map(|problem| folder.relative(problem)).collect();
    let expect = |message: &str| assert!(found.iter().any(|found| found == message), "{message}\n{found:#?}");
    expect("language_model: config.json has hidden_act \"gelu\", expected \"silu\"");
    expect(
        "transformer: tensor `proj_in.weight` has shape [48, 72], expected [48, 73] = [inner_dim, concat_channels] \
         (transformer/diffusion_pytorch_model-00001-of-00002.safetensors)",
    );
    expect(
        "vocoder: tensor `snake_out.alpha` has shape [1, 2, 1], expected [1, 4, 1] = [1, last_dim, 1] \
         (vocoder/diffusion_pytorch_model.safetensors)",
    );
    expect("vocoder: tensor `blocks.3.conv_t1.bias` is not used (vocoder/diffusion_pytorch_model.safetensors)");
    expect("condition_encoder: config.json has out_dim 40, expected transformer's condition_dim 41");
}

#[test]
fn refuses_a_folder_of_another_class() {
    let folder = demo();
    set(&folder, Component::Vocoder, "_class_name", json!("AutoencoderOobleck"));
    set(&folder, Component::LanguageModel, "architectures", json!(["AbabForCausalLM"]));
    assert_eq!(
        messages(&folder),
        [
            "language_model: config.json has architectures \"AbabForCausalLM\", expected \"Qwen3ForCausalLM\"",
            "vocoder: config.json has _class_name \"AutoencoderOobleck\", expected \"MiniMaxMusic3Vocoder\"",
        ]
    );
}

#[test]
fn reads_a_config_no_further_than_it_is_json() {
    let folder = demo();
    for (text, message) in [
        ("", "expected a JSON text, found an empty file"),
        ("<html></html>", "expected a JSON text, found a web page; the download failed, repeat it"),
        ("{\"hidden_size\": }", "expected value at line 1 column 17"),
    ] {
        folder.write("vocoder/config.json", text);
        assert_eq!(messages(&folder), [format!("vocoder/config.json: {message}")]);
    }
    folder.write("vocoder/config.json", " ".repeat((16 << 20) + 1));
    assert_eq!(messages(&folder), ["vocoder/config.json: the JSON text takes 16777217 bytes; the maximum is 16777216"]);
}

#[cfg(unix)]
#[test]
fn refuses_a_component_folder_that_leads_elsewhere() {
    let (folder, outside) = (demo(), demo());
    let vocoder = folder.path().join("vocoder");
    fs::remove_dir_all(&vocoder).expect("it can be removed");
    std::os::unix::fs::symlink(outside.path().join("vocoder"), &vocoder).expect("a link can be made");
    let found = messages(&folder);
    assert!(found.len() == 1 && found[0].starts_with("vocoder: leads out of the checkpoint folder, to "), "{found:?}");
}

#[test]
fn says_what_is_no_checkpoint() {
    const PASS: &str = "pass the folder that holds language_model, rvq_depth_decoder, condition_encoder, transformer, \
                        vocoder and tokenizer";
    let open = |names: &[&str], given: &str| {
        let folder = Folder::new();
        names.iter().for_each(|name| _ = folder.write(name, file(&[("a", &[1])])));
        let error = Checkpoint::open(folder.path().join(given)).map(|_| ()).expect_err("it is no checkpoint");
        assert!(matches!(error.problems(), [Problem::Layout { .. }]), "{error}");
        folder.relative(error)
    };
    for (names, given, found) in [
        (&["a.gguf"][..], "a.gguf", "a.gguf: a GGUF file; quantised and converted weights are not read"),
        (&["a.safetensors"], "a.safetensors", "a.safetensors: a single weight file; packages of one file are not read"),
        (&["a.tar.gz"], "a.tar.gz", "a.tar.gz: an archive; unpack it first"),
        (&["a.txt"], "a.txt", "a.txt: a file"),
        (&[], "nowhere", "nowhere: there is no such folder"),
        (&["m/a.gguf"], "m", "m: a folder of GGUF files; quantised and converted weights are not read"),
        (&["m/a.safetensors"], "m", "m: a folder of loose weight files; packages of one file are not read"),
        (&["m/readme.md"], "m", "m: none of the model's folders is in it"),
    ] {
        assert_eq!(open(names, given), format!("{found}; {PASS}"));
    }
    assert_eq!(
        open(&["qwen_7B/qwen_7B/config.json"], "qwen_7B"),
        "qwen_7B: the language model's folder of the native layout; \
         pass the folder above it, with flowmatching_vae.pth and dav.pth"
    );
    assert_eq!(
        open(&["m/dav.pth", "m/vocoder/config.json"], "m"),
        "m: files of both the diffusers layout and the native one; keep the files of one of them in a folder of their own"
    );
    assert_eq!(
        open(&["m/snapshots/0a/model_index.json"], "m"),
        "m: the hub's cache folder of a model; pass the folder of a revision in its snapshots"
    );
    let folder = demo();
    let error = Checkpoint::open(folder.path().join("vocoder")).map(|_| ()).expect_err("it is a part of one");
    assert_eq!(folder.relative(error), "vocoder: the vocoder folder of a checkpoint; pass the folder above it");
}

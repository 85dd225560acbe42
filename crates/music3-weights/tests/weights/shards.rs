//! Indices and the shards they name.

use std::fs;

use music3_weights::{Shards, TensorSource, WeightsError};
use serde_json::json;

use crate::crafted::{Folder, file};

fn open(folder: &Folder) -> Result<Shards, WeightsError> {
    Shards::open(folder.path(), "model.safetensors.index.json", "model.safetensors")
}

fn index(folder: &Folder, map: serde_json::Value) {
    folder.write("model.safetensors.index.json", json!({"metadata": {}, "weight_map": map}).to_string());
}

fn messages(folder: &Folder) -> Vec<String> {
    let error = open(folder).expect_err("the folder is refused");
    error.problems().iter().map(|problem| folder.relative(problem)).collect()
}

#[test]
fn opens_shards_and_finds_each_tensor_in_its_own() {
    let folder = Folder::new();
    folder.write("1.safetensors", file(&[("c", &[2]), ("a", &[1])]));
    folder.write("2.safetensors", file(&[("b", &[3])]));
    index(&folder, json!({"a": "1.safetensors", "b": "2.safetensors", "c": "1.safetensors"}));
    let shards = open(&folder).expect("valid shards open");
    let names: Vec<&str> = shards.entries().iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let read = |name| shards.tensor(name).and_then(|view| view.to_data()).expect("the tensor is there");
    assert_eq!(read("a").to_vec::<f32>().expect("f32"), [2.0]);
    assert_eq!(read("b").to_vec::<f32>().expect("f32"), [1.0; 3]);
    let error = shards.tensor("d").map(|_| ()).expect_err("there is no such tensor");
    assert_eq!(folder.relative(error), ".: there is no tensor `d`");
}

#[test]
fn refuses_names_that_are_not_plain() {
    let folder = Folder::new();
    folder.write("model.bin", b"");
    let names = [
        "../x.safetensors",
        "/etc/x.safetensors",
        "a/x.safetensors",
        "..",
        "",
        "model.bin",
        "a\\x.safetensors",
        "C:x.safetensors",
        "x\0.safetensors",
        "./x.safetensors",
    ];
    for name in names {
        index(&folder, json!({"a": name}));
        assert_eq!(
            messages(&folder),
            [format!(
                "model.safetensors.index.json: tensor `a` is said to be in `{name}`; \
                 expected the plain name of a .safetensors file beside the index"
            )]
        );
    }
}

#[cfg(unix)]
#[test]
fn refuses_a_link_out_of_the_folder() {
    let (folder, outside) = (Folder::new(), Folder::new());
    let target = outside.write("secret.safetensors", file(&[("a", &[1])]));
    std::os::unix::fs::symlink(&target, folder.path().join("1.safetensors")).expect("a link can be made");
    index(&folder, json!({"a": "1.safetensors"}));
    let target = target.canonicalize().expect("the target exists");
    assert_eq!(
        messages(&folder),
        [format!(
            "1.safetensors: leads out of the checkpoint folder, to {}; copy the file into the folder",
            target.display()
        )]
    );
}

#[cfg(unix)]
#[test]
fn follows_the_links_of_the_hubs_cache_and_no_others_there() {
    use std::os::unix::fs::symlink;
    let cache = Folder::new();
    cache.write("blobs/0a1b", file(&[("a", &[1])]));
    cache.write("other/0a1b", file(&[("a", &[1])]));
    let folder = cache.path().join("snapshots/main/vocoder");
    fs::create_dir_all(&folder).expect("a folder can be made");
    let link = folder.join("model.safetensors");
    symlink("../../../blobs/0a1b", &link).expect("a link can be made");
    assert!(Shards::open(&folder, "index.json", "model.safetensors").is_ok());
    fs::remove_file(&link).expect("the link can be removed");
    symlink("../../../other/0a1b", &link).expect("a link can be made");
    let error = Shards::open(&folder, "index.json", "model.safetensors").expect_err("the link is refused");
    assert_eq!(
        cache.relative(error),
        "snapshots/main/vocoder/model.safetensors: leads out of the checkpoint folder, to other/0a1b; \
         copy the file into the folder"
    );
}

#[test]
fn reports_all_that_is_wrong_with_all_shards() {
    let folder = Folder::new();
    folder.write("1.safetensors", file(&[("a", &[1]), ("twice", &[1]), ("unlisted", &[1])]));
    folder.write("2.safetensors", file(&[("twice", &[1]), ("moved", &[1])]));
    folder.write("3.safetensors", &file(&[("c", &[4])])[..60]);
    index(
        &folder,
        json!({"a": "1.safetensors", "twice": "1.safetensors", "moved": "1.safetensors", "gone": "2.safetensors",
            "c": "3.safetensors", "d": "4.safetensors"}),
    );
    let found = messages(&folder);
    assert!(found[0].starts_with("3.safetensors: the header takes "), "{}", found[0]);
    assert_eq!(
        found[1..],
        [
            ".: 4.safetensors is missing",
            "model.safetensors.index.json: tensor `gone` is said to be in 2.safetensors, which does not hold it",
            "model.safetensors.index.json: tensor `moved` is said to be in 1.safetensors, which does not hold it; \
             2.safetensors does",
            "1.safetensors: `twice` occurs twice, also in 2.safetensors",
            "model.safetensors.index.json: tensor `unlisted` is in 1.safetensors, but not in the index",
        ]
    );
}

#[test]
fn refuses_an_index_that_names_a_tensor_twice() {
    let folder = Folder::new();
    folder.write("model.safetensors.index.json", r#"{"weight_map": {"a": "1.safetensors", "a": "2.safetensors"}}"#);
    assert_eq!(messages(&folder), ["model.safetensors.index.json: `a` occurs twice"]);
}

#[test]
fn refuses_an_index_that_is_none() {
    let folder = Folder::new();
    for (text, message) in [
        ("", "expected a JSON text, found an empty file"),
        ("<html>", "expected a JSON text, found a web page; the download failed, repeat it"),
        ("{}", "missing field `weight_map` at line 1 column 2"),
        (r#"{"weight_map": 3}"#, "invalid type: integer `3`, expected a JSON object at line 1 column 16"),
        (r#"{"weight_map": {"a": 3}}"#, "invalid type: integer `3`, expected a string at line 1 column 22"),
    ] {
        folder.write("model.safetensors.index.json", text);
        assert_eq!(messages(&folder), [format!("model.safetensors.index.json: {message}")]);
    }
}

#[test]
fn refuses_a_folder_of_two_sets_and_one_of_none() {
    let folder = Folder::new();
    assert_eq!(messages(&folder), [".: model.safetensors (or model.safetensors.index.json) is missing"]);
    folder.write("model.safetensors", file(&[("a", &[1])]));
    index(&folder, json!({}));
    assert_eq!(
        messages(&folder),
        [".: holds both model.safetensors and model.safetensors.index.json; keep the one whose tensors you want"]
    );
}

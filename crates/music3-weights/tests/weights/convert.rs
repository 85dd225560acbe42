//! Conversion into the diffusers layout: what comes out, and what is left when it fails.

use std::{collections::BTreeMap, fs, ops::ControlFlow, path::Path};

use music3_weights::{Checkpoint, Component, Conversion, ConvertError, Layout, NewFolderError, TensorSource};
use serde_json::Value;

use crate::{
    crafted::Folder,
    native::{both, open},
};

fn convert(checkpoint: &Checkpoint, out: &Path) -> Result<(), ConvertError> {
    let conversion = Conversion::plan(checkpoint)?;
    let mut last = 0;
    conversion.write(out, &mut |written| {
        last = written;
        ControlFlow::Continue(())
    })?;
    assert_eq!(last, conversion.bytes(), "all bytes are counted");
    Ok(())
}

/// Every file below a folder, by its path.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
                found.insert(name, fs::read(path).expect("a file"));
            }
        }
    }
    found
}

#[test]
fn native_becomes_upstreams_files_tensor_for_tensor() {
    let (diffusers, native) = both();
    let out = Folder::new();
    convert(&open(&native), &out.path().join("out")).unwrap_or_else(|error| panic!("{error}"));
    let converted = Checkpoint::open(out.path().join("out")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(converted.layout(), Layout::Diffusers);
    let original = open(&diffusers);
    let mut compared = 0;
    for component in Component::ALL {
        let [left, right] = [&original, &converted].map(|checkpoint| checkpoint.component(component));
        let names = |source: &dyn TensorSource| -> Vec<String> {
            source.entries().iter().map(|entry| entry.name.to_owned()).collect()
        };
        assert_eq!(names(left), names(right), "{component}");
        for name in names(left) {
            let [left, right] =
                [left, right].map(|source| source.tensor(&name).unwrap_or_else(|error| panic!("{error}")));
            assert_eq!((left.entry.dtype, left.entry.shape), (right.entry.dtype, right.entry.shape), "{name}");
            assert_eq!(left.data, right.data, "{component} {name}");
            compared += 1;
        }
        for (key, value) in right.config().as_object().expect("a config") {
            assert_eq!(left.config()[key], *value, "{component} {key}");
        }
    }
    assert_eq!(compared, 25 + 29 + 4 + 33 + 121);
    let (source, out) = (files(diffusers.path()), files(&out.path().join("out")));
    for name in ["tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json", "scheduler/scheduler_config.json"] {
        assert_eq!(out[name], source[name], "{name}");
    }
    // The index by which upstream finds its components names the folder, and is otherwise upstream's own.
    let index = |files: &BTreeMap<String, Vec<u8>>| -> Value {
        serde_json::from_slice(&files["modular_model_index.json"]).expect("JSON")
    };
    let renamed = index(&source).to_string().replace("music3-demo-checkpoint", "out");
    assert_eq!(index(&out).to_string(), renamed);
    assert!(out.keys().all(|name| source.contains_key(name) || name.contains("model.safetensors")), "{:?}", out.keys());
}

#[test]
fn diffusers_stays_what_it_is_byte_for_byte() {
    let (diffusers, _) = both();
    let out = Folder::new();
    convert(&open(&diffusers), &out.path().join("out")).unwrap_or_else(|error| panic!("{error}"));
    let (source, out) = (files(diffusers.path()), files(&out.path().join("out")));
    assert_eq!(out.keys().collect::<Vec<_>>(), source.keys().collect::<Vec<_>>());
    assert!(out == source);
    assert_eq!(out.len(), 19);
}

#[test]
fn nothing_is_overwritten_and_nothing_is_left_when_it_is_stopped() {
    let (_, native) = both();
    let (checkpoint, out) = (open(&native), Folder::new());
    out.write("taken", "text");
    let error = convert(&checkpoint, &out.path().join("taken")).expect_err("it is there");
    assert!(matches!(error, ConvertError::Folder(NewFolderError::Exists { .. })), "{error}");
    let conversion = Conversion::plan(&checkpoint).unwrap_or_else(|error| panic!("{error}"));
    let error = conversion.write(&out.path().join("new"), &mut |written| match written > 1_000_000 {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    assert!(matches!(error, Err(ConvertError::Stopped { written, total }) if written < total));
    let error = conversion.write(&out.path().join("no/folder"), &mut |_| ControlFlow::Continue(()));
    assert!(matches!(error, Err(ConvertError::Folder(NewFolderError::Io { .. }))));
    assert_eq!(files(out.path()).keys().collect::<Vec<_>>(), ["taken"]);
}

#[test]
fn a_checkpoint_that_is_not_whole_is_not_converted() {
    let (_, native) = both();
    let mut config: Value =
        serde_json::from_slice(&fs::read(native.path().join("transformer.json")).expect("a config")).expect("JSON");
    config["ff_inner_dim"] = 65.into();
    native.write("transformer.json", config.to_string());
    let error = Conversion::plan(&open(&native)).map(|_| ()).expect_err("shapes differ");
    assert_eq!(error.problems().len(), 6, "{error}");
}

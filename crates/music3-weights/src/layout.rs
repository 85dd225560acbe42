//! What a path given as a checkpoint is, when it is none of the layouts that are read.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{component::Component, config::component_of, json::read_json, problem::Problem};

const WANTED: &str = "pass the folder that holds language_model, rvq_depth_decoder, condition_encoder, transformer, vocoder and tokenizer";

/// Returns when `path` is a folder with at least one component in it; otherwise says what it is instead.
pub(crate) fn expect_diffusers(path: &Path) -> Result<(), Problem> {
    let refused = |found: &str, remedy| Problem::Layout { path: path.to_owned(), found: found.to_owned(), remedy };
    if path.is_file() {
        return Err(refused(single_file(path), WANTED));
    }
    if !path.is_dir() {
        return Err(refused("there is no such folder", WANTED));
    }
    if Component::ALL.iter().any(|component| path.join(component.folder()).symlink_metadata().is_ok()) {
        return Ok(());
    }
    if ["qwen_7B", "flowmatching_vae.pth", "dav.pth"].iter().any(|name| path.join(name).exists()) {
        let remedy = "pass the folder of the same weights in the diffusers layout";
        return Err(refused("the native layout (qwen_7B, flowmatching_vae.pth, dav.pth), which is not read", remedy));
    }
    if path.join("snapshots").is_dir() {
        return Err(refused("the hub's cache folder of a model", "pass the folder of a revision in its snapshots"));
    }
    if let Some(component) = own_component(path) {
        let found = format!("the {component} folder of a checkpoint");
        return Err(Problem::Layout { path: path.to_owned(), found, remedy: "pass the folder above it" });
    }
    Err(refused(loose_files(path), WANTED))
}

/// The component whose own folder this is.
fn own_component(path: &Path) -> Option<Component> {
    let config = read_json::<Value>(path, &path.join("config.json")).ok()?;
    component_of(&config)
}

fn single_file(path: &Path) -> &'static str {
    match extension(path) {
        "gguf" => "a GGUF file; quantised and converted weights are not read",
        "safetensors" | "ckpt" | "pt" | "pth" | "bin" => "a single weight file; packages of one file are not read",
        "zip" | "gz" | "tar" | "tgz" => "an archive; unpack it first",
        _ => "a file",
    }
}

fn loose_files(path: &Path) -> &'static str {
    let files: Vec<PathBuf> =
        fs::read_dir(path).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default();
    let holds = |wanted: &str| files.iter().any(|file| extension(file) == wanted);
    match () {
        () if files.is_empty() => "an empty folder",
        () if holds("gguf") => "a folder of GGUF files; quantised and converted weights are not read",
        () if holds("safetensors") => "a folder of loose weight files; packages of one file are not read",
        () => "none of the model's folders is in it",
    }
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(OsStr::to_str).unwrap_or_default()
}

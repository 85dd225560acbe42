//! What a path given as a checkpoint is: one of the two layouts that are read, or something else.

use std::{
    ffi::OsStr,
    fmt, fs,
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::Value;

use crate::{component::Component, config::component_of, json::read_json, problem::Problem};

const WANTED: &str = "pass the folder that holds language_model, rvq_depth_decoder, condition_encoder, transformer, vocoder and tokenizer";

/// What the native layout consists of.
const NATIVE: [&str; 3] = ["qwen_7B", "flowmatching_vae.pth", "dav.pth"];

/// How the same weights are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// A folder for each component, with its config.json and safetensors files.
    Diffusers,
    /// As the model's authors packed them: one language model with the depth decoder inside, and two `.pth` files.
    Native,
}

impl Layout {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Diffusers, Self::Native];
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Diffusers => "diffusers",
            Self::Native => "native",
        })
    }
}

/// The layout of a folder with at least a part of a checkpoint in it; of anything else, says what it is instead.
pub(crate) fn detect(path: &Path) -> Result<Layout, Problem> {
    let refused = |found: &str, remedy| Problem::Layout { path: path.to_owned(), found: found.to_owned(), remedy };
    if path.is_file() {
        return Err(refused(single_file(path), WANTED));
    }
    if !path.is_dir() {
        return Err(refused("there is no such folder", WANTED));
    }
    let holds = |name: &str| path.join(name).symlink_metadata().is_ok();
    let [folder, flow, vocoder] = NATIVE;
    if path.file_name().is_some_and(|name| name == folder) && !holds(flow) && !holds(vocoder) {
        let remedy = "pass the folder above it, with flowmatching_vae.pth and dav.pth";
        return Err(refused("the language model's folder of the native layout", remedy));
    }
    let components = Component::ALL.iter().filter(|component| holds(component.folder())).count();
    match (components, NATIVE.iter().filter(|name| holds(name)).count()) {
        (0, 0) => {}
        (_, 0) => return Ok(Layout::Diffusers),
        (0, _) => return Ok(Layout::Native),
        (_, _) => {
            let remedy = "keep the files of one of them in a folder of their own";
            return Err(refused("files of both the diffusers layout and the native one", remedy));
        }
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

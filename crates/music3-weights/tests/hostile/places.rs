//! What lies in a file's place, what an index may name, and where links may lead.

use std::process::Command;

use serde_json::json;

use crate::{
    crafted::{Folder, file},
    table::Case,
};

const INDEX: &str = "model.safetensors.index.json";

/// A folder with an index of this text.
fn index(what: &'static str, text: impl Into<Vec<u8>>) -> Case {
    let text = text.into();
    Case::folder(what, INDEX, move |folder| _ = folder.write(INDEX, &text))
}

fn naming(what: &'static str, shard: &str) -> Case {
    index(what, json!({"weight_map": {"a": shard}}).to_string())
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        naming("an index that names ../x.safetensors", "../x.safetensors"),
        naming("an index that names an absolute path", "/etc/x.safetensors"),
        naming("an index that names a file of another kind", "model.bin"),
        naming("an index that names a drive", "C:x.safetensors"),
        naming("an index that names a shard that is not there", "1.safetensors"),
        index("an index with a name twice", r#"{"weight_map": {"a": "1.safetensors", "a": "2.safetensors"}}"#),
        index("an index of a million brackets", format!("{{\"weight_map\":{}", "[".repeat(1_000_000))),
        index("an index of 17 MiB", " ".repeat(17 << 20)),
        index("a web page as index", "<html>"),
        index("an index without names", "{}"),
        Case::folder("an index that names the wrong shard", INDEX, |folder| {
            folder.write("1.safetensors", file(&[("b", &[1])]));
            let map = json!({"weight_map": {"a": "1.safetensors", "b": "1.safetensors"}});
            folder.write(INDEX, map.to_string());
        }),
        Case::folder("a folder in a file's place", "model.safetensors", |folder| {
            folder.write("model.safetensors/readme", "");
        }),
    ];
    if cfg!(unix) {
        cases.extend(links());
    }
    cases
}

/// What only a system with pipes and links has.
fn links() -> [Case; 4] {
    [
        Case::folder("a pipe in a file's place", "model.safetensors", |folder| {
            let made = Command::new("mkfifo").arg(folder.path().join("model.safetensors")).status();
            assert!(made.is_ok_and(|status| status.success()), "a pipe can be made");
        }),
        Case::folder("a link to a device", "model.safetensors", |folder| link(folder, "/dev/zero")),
        Case::folder("a link to /etc/passwd", "model.safetensors", |folder| link(folder, "/etc/passwd")),
        Case::folder("a link to itself", "model.safetensors", |folder| link(folder, "model.safetensors")),
    ]
}

#[cfg(unix)]
fn link(folder: &Folder, target: &str) {
    std::os::unix::fs::symlink(target, folder.path().join("model.safetensors")).expect("a link can be made");
}

#[cfg(not(unix))]
fn link(folder: &Folder, target: &str) {
    std::fs::copy(target, folder.path().join("model.safetensors")).expect("a copy can be made");
}

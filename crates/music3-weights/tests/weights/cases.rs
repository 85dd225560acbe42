//! Upstream's own cases: each weight file fits the plan of its config.

use std::{fs, path::PathBuf};

use music3_weights::{Component, Plan, SafetensorsFile};
use serde_json::Value;

#[test]
fn plans_the_weights_of_every_case() {
    let tiny = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../goldens/tiny");
    let mut planned = [0; 5];
    for entry in fs::read_dir(tiny).expect("the cases are in the tree") {
        let path = entry.expect("the folder can be listed").path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let case: Value = serde_json::from_slice(&fs::read(&path).expect("it can be read")).expect("it is JSON");
        let component = case["component"].as_str().unwrap_or_default();
        let parts: Vec<(Component, String, &Value)> = Component::ALL
            .into_iter()
            .filter_map(|known| match component {
                "flow" => Some((known, format!("w.{known}."), case["config"].get(known.folder())?)),
                name if name == known.folder() => Some((known, "w.".to_owned(), &case["config"])),
                _ => None,
            })
            .collect();
        if parts.is_empty() {
            continue;
        }
        let file = SafetensorsFile::open(path.with_extension("safetensors")).unwrap_or_else(|error| panic!("{error}"));
        for (component, prefix, config) in parts {
            Plan::new(component, config, &file.with_prefix(prefix))
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            planned[component as usize] += 1;
        }
    }
    assert!(planned.into_iter().all(|count| count >= 4), "{planned:?}");
}

//! The native layout: three sets of weight files that hold five components, and one config.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    checkpoint::ComponentFolder,
    component::Component,
    config::{checked, lookup, shown, unsupported, wrong_class},
    error::WeightsError,
    expression::WordValue,
    json::{check_inside, read_json},
    layout::Layout,
    mapping::{Mapping, Renamed, Requirement},
    problem::Problem,
    pth::PthFile,
    shards::Shards,
    weight_files::WeightFiles,
};

/// The language model's folder.
pub(crate) const LANGUAGE_MODEL: &str = "qwen_7B/qwen_7B";

/// The tokenizer's folder.
pub(crate) const TOKENIZER: &str = "qwen_7B/qwen3-8B-tokenizer-music";

/// Opens the components, in the order of [`Component::ALL`]; `None` for those that left a problem.
pub(crate) fn open(path: &Path, problems: &mut Vec<Problem>) -> [Option<ComponentFolder>; 5] {
    let folder = path.join(LANGUAGE_MODEL);
    let written = if folder.is_dir() {
        open_config(path, &folder).map_err(|error| problems.extend(error.into_problems())).ok()
    } else {
        let what = format!("the folder {LANGUAGE_MODEL}");
        problems.push(Problem::Absent { path: path.to_owned(), what });
        None
    };
    let mut opened = BTreeMap::<&str, Option<Arc<WeightFiles>>>::new();
    Component::ALL.map(|component| {
        let name = Mapping::of(component, Layout::Native).file.as_deref()?;
        let files = opened.entry(name).or_insert_with(|| {
            if name.starts_with(LANGUAGE_MODEL) && !folder.is_dir() {
                return None;
            }
            open_files(path, name).map_err(|error| problems.extend(error.into_problems())).ok().map(Arc::new)
        });
        let files = files.clone();
        let beside = path.join(format!("{component}.json"));
        let (config, config_path) = match name.starts_with(LANGUAGE_MODEL) {
            true => (written.as_ref().map(|written| translated(component, written)), Some(folder.join("config.json"))),
            false if beside.symlink_metadata().is_ok() => (Some(read_beside(component, path, &beside)), Some(beside)),
            false => (Some(translated(component, &Value::Null)), None),
        };
        let config = config?.map_err(|found| problems.extend(found)).ok()?;
        Some(ComponentFolder::new(component, Layout::Native, config, config_path, files?))
    })
}

/// The config.json of the language model and the depth decoder.
fn open_config(checkpoint: &Path, folder: &Path) -> Result<Value, WeightsError> {
    let path = folder.join("config.json");
    if path.symlink_metadata().is_err() {
        return Err(Problem::Absent { path: folder.to_owned(), what: "config.json".to_owned() }.into());
    }
    let config = read_json(checkpoint, &path)?;
    match wrong_class(Component::LanguageModel, Layout::Native, &config) {
        Some(problem) => Err(problem.into()),
        None => Ok(config),
    }
}

/// The published checkpoint has its acoustic half at one size and no config for it. One of another size has them beside
/// the weights, as upstream's classes write them.
fn read_beside(component: Component, checkpoint: &Path, path: &Path) -> Result<Value, Vec<Problem>> {
    let config = read_json(checkpoint, path).map_err(|error| vec![Problem::from(error)])?;
    match wrong_class(component, Layout::Native, &config) {
        Some(problem) => Err(vec![problem]),
        None => Ok(config),
    }
}

fn open_files(checkpoint: &Path, name: &str) -> Result<WeightFiles, WeightsError> {
    let path = checkpoint.join(name);
    if name.ends_with(".pth") {
        if path.symlink_metadata().is_err() {
            return Err(Problem::Absent { path: checkpoint.to_owned(), what: name.to_owned() }.into());
        }
        check_inside(checkpoint, &path)?;
        return PthFile::open(path).map(WeightFiles::Pth);
    }
    let (folder, single) = name.rsplit_once('/').unwrap_or((".", name));
    let folder = checkpoint.join(folder);
    check_inside(checkpoint, &folder)?;
    Shards::open(&folder, &format!("{single}.index.json"), single).map(WeightFiles::Safetensors)
}

/// The config that upstream's class has for what the native one says.
pub(crate) fn translated(component: Component, written: &Value) -> Result<Value, Vec<Problem>> {
    let mapping = Mapping::of(component, Layout::Native);
    let mut problems = unsupported(component, Layout::Native, written);
    let mut config = Map::new();
    for Requirement { key, value } in &mapping.constants {
        put(&mut config, key, value.clone());
    }
    for Renamed { key, found_as, default } in &mapping.config {
        let found = found_as.iter().find_map(|key| Some((key, lookup(written, key).into_iter().next()?)));
        let found = found.filter(|(_, value)| !value.is_null());
        let word = mapping.words.iter().find(|(word, _)| word == key).map(|(_, default)| default);
        match (found, default) {
            (None, Some(default)) => put(&mut config, key, default.clone()),
            (Some((_, value)), _) if fits(value, word) => put(&mut config, key, value.clone()),
            (found, _) => problems.push(Problem::ConfigValue {
                component,
                key: found_as.join(" or "),
                found: found.map_or_else(|| "nothing".to_owned(), |(_, value)| shown(value)),
                expected: word.map_or("a number", WordValue::kind).to_owned(),
            }),
        }
    }
    match problems.is_empty() {
        true => Ok(Value::Object(config)),
        false => Err(problems),
    }
}

/// Whether a value is what the word stands for; what is no word is a number.
fn fits(value: &Value, word: Option<&WordValue>) -> bool {
    match word {
        Some(word) => checked(value, word).is_some(),
        None => value.as_f64().is_some_and(|number| number > 0.0),
    }
}

/// Sets `a.b` of a config.
fn put(config: &mut Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        None => _ = config.insert(key.to_owned(), value),
        Some((outer, inner)) => {
            let object = config.entry(outer).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(object) = object {
                put(object, inner, value);
            }
        }
    }
}

/// Where a native checkpoint has a component's config.
pub(crate) enum Written {
    /// In the one config.json, under these keys.
    In(Map<String, Value>),
    /// In a file of its own, beside the weights.
    Beside,
    /// Nowhere: it is the published one.
    Nowhere,
}

/// The native form of a config of upstream's class.
pub(crate) fn untranslated(component: Component, config: &Value) -> Written {
    let mapping = Mapping::of(component, Layout::Native);
    if mapping.config.is_empty() {
        let published = mapping.constants.iter().all(|Requirement { key, value }| config.get(key) == Some(value));
        return if published { Written::Nowhere } else { Written::Beside };
    }
    let mut written = Map::new();
    let Requirement { key, value } = &mapping.class;
    written.insert(key.trim_end_matches("[*]").to_owned(), Value::Array(vec![value.clone()]));
    for Requirement { key, value } in mapping.requires.iter().filter(|required| !required.value.is_null()) {
        if !key.contains(['.', '[']) {
            written.insert(key.clone(), value.clone());
        }
    }
    for Renamed { key, found_as, .. } in &mapping.config {
        if let (Some(name), Some(value)) = (found_as.first(), lookup(config, key).first()) {
            written.insert(name.clone(), (*value).clone());
        }
    }
    Written::In(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    static CONTRACT: &str = include_str!("../../../weights-mapping/contract.json");

    #[test]
    fn the_published_native_config_means_the_published_configs() {
        let contract: Value = serde_json::from_str(CONTRACT).expect("a file of the tree");
        for component in Component::ALL {
            let config = translated(component, &contract["native_config"]).expect("the published values are supported");
            for (key, value) in contract["configs"][component.folder()].as_object().expect("a config") {
                assert_eq!(&config[key], value, "{component} {key}");
            }
        }
    }

    #[test]
    fn what_is_absent_has_the_defaults_of_the_authors() {
        let contract: Value = serde_json::from_str(CONTRACT).expect("a file of the tree");
        let mut written = contract["native_config"].clone();
        let keys = written.as_object_mut().expect("a config");
        for absent in ["max_position_embeddings", "rope_theta", "rms_norm_eps", "tie_word_embeddings"] {
            keys.remove(absent).expect("the published config has it");
        }
        let config = translated(Component::LanguageModel, &written).expect("they have defaults");
        assert_eq!(config["max_position_embeddings"], 10240);
        assert_eq!(config["rope_parameters"]["rope_theta"], 1e6);
        assert_eq!(config["rms_norm_eps"], 1e-6);
        assert_eq!(config["tie_word_embeddings"], false);
        written["rope_parameters"] = serde_json::json!({"rope_type": "default", "rope_theta": 5e5});
        let config = translated(Component::LanguageModel, &written).expect("newer files have it there");
        assert_eq!(config["rope_parameters"]["rope_theta"], 5e5);
    }

    #[test]
    fn a_config_survives_the_way_there_and_back() {
        let contract: Value = serde_json::from_str(CONTRACT).expect("a file of the tree");
        let mut written = Map::new();
        for component in Component::ALL {
            match untranslated(component, &contract["configs"][component.folder()]) {
                Written::In(part) => written.extend(part),
                Written::Nowhere => {}
                Written::Beside => panic!("{component} has the published config"),
            }
        }
        let written = Value::Object(written);
        for (key, value) in contract["native_config"].as_object().expect("a config") {
            assert_eq!(&written[key], value, "{key}");
        }
        assert!(matches!(untranslated(Component::Vocoder, &Value::Null), Written::Beside));
    }
}

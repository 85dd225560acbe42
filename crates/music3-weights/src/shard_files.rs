//! Safetensors files as upstream's libraries write them: shards, their names, headers and the index.

use std::collections::BTreeMap;

use safetensors::Dtype;
use serde_json::{Map, Value, json};

/// Readers map files, and want tensors at addresses that suit their type.
const HEADER_ALIGNMENT: usize = 8;

/// Fills one shard after the other, as the libraries do that upstream saves with: a tensor that no longer fits starts
/// the next.
pub(crate) fn into_shards<T>(
    tensors: impl IntoIterator<Item = T>,
    bytes_of: impl Fn(&T) -> u64,
    max_shard_bytes: u64,
) -> Vec<Vec<T>> {
    let mut shards = vec![Vec::new()];
    let mut bytes = 0;
    for tensor in tensors {
        if bytes > 0 && bytes + bytes_of(&tensor) > max_shard_bytes {
            shards.push(Vec::new());
            bytes = 0;
        }
        bytes += bytes_of(&tensor);
        shards.last_mut().expect("there is one from the start").push(tensor);
    }
    shards
}

/// The names of so many files.
pub(crate) fn shard_names(stem: &str, count: usize) -> Vec<String> {
    match count {
        1 => vec![format!("{stem}.safetensors")],
        count => (1..=count).map(|number| format!("{stem}-{number:05}-of-{count:05}.safetensors")).collect(),
    }
}

/// What stands before the tensors: the length of the header and the header. The tensors lie in the order given.
pub(crate) fn safetensors_header<'a>(tensors: impl Iterator<Item = (&'a str, Dtype, &'a [usize], u64)>) -> Vec<u8> {
    let mut entries = Map::new();
    // transformers reads no file without it.
    entries.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
    let mut start = 0;
    for (name, dtype, shape, bytes) in tensors {
        let end = start + bytes;
        entries.insert(
            name.to_owned(),
            json!({ "dtype": dtype.to_string(), "shape": shape, "data_offsets": [start, end] }),
        );
        start = end;
    }
    let mut text = Value::Object(entries).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(HEADER_ALIGNMENT), b' ');
    [&(text.len() as u64).to_le_bytes(), text.as_slice()].concat()
}

/// The index of shards, from the names of the files and of the tensors in each.
pub(crate) fn index(files: &[String], tensors: &[Vec<&str>], total_bytes: u64) -> String {
    let map: BTreeMap<&str, &str> =
        files.iter().zip(tensors).flat_map(|(file, names)| names.iter().map(|name| (*name, file.as_str()))).collect();
    pretty(&json!({ "metadata": { "total_size": total_bytes }, "weight_map": map }))
}

/// A JSON text for people.
pub(crate) fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

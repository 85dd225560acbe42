//! The index of shards, in a folder with two of them.

#![no_main]

use std::{env, fs, path::PathBuf, process, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use music3_weights::{Shards, TensorSource};

/// One tensor of one f32 value.
fn shard(name: char) -> Vec<u8> {
    let header = format!(r#"{{"{name}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}}"#);
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 4]].concat()
}

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = env::temp_dir().join(format!("music3-fuzz-index-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("1.safetensors"), shard('a')).expect("a shard");
    fs::write(folder.join("2.safetensors"), shard('b')).expect("a shard");
    folder
});

fuzz_target!(|bytes: &[u8]| {
    fs::write(FOLDER.join("index.json"), bytes).expect("the index can be written");
    if let Ok(shards) = Shards::open(&FOLDER, "index.json", "none.safetensors") {
        for entry in shards.entries() {
            assert!(entry.file.starts_with(&*FOLDER), "{}", entry.file.display());
            assert!(shards.tensor(entry.name).is_ok());
        }
    }
});

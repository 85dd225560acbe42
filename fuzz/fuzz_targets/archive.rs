//! A whole `.pth` file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use music3_weights::{PthFile, TensorSource};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(file) = PthFile::from_bytes("a.pth", bytes) {
        for entry in file.entries() {
            let view = file.tensor(entry.name).expect("a tensor that is listed is there");
            assert_eq!(view.data.len() as u64, entry.bytes);
            let _ = view.to_data();
        }
    }
});

//! A pickle, in an archive that has the storage `0` of 24 bytes.

#![no_main]

#[allow(dead_code, reason = "the tests that share this file use more of it")]
#[path = "../../crates/music3-weights/tests/weights/crafted_pth.rs"]
mod crafted_pth;

use libfuzzer_sys::fuzz_target;
use music3_weights::{PthFile, TensorSource};

fuzz_target!(|bytes: &[u8]| {
    let file = crafted_pth::pth(crafted_pth::Pickle(bytes.to_vec()), &[0; 24]);
    if let Ok(file) = PthFile::from_bytes("a.pth", &file) {
        for entry in file.entries() {
            let view = file.tensor(entry.name).expect("a tensor that is listed is there");
            assert!(view.data.len() <= 24);
            let _ = view.to_data();
        }
    }
});

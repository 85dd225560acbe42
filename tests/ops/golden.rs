//! What torch answered: the files of `goldens/ops`.

use std::{collections::BTreeMap, path::Path};

use half::bf16;
use safetensors::{Dtype, SafeTensors};

/// One answer, widened to f32.
pub(crate) struct Answer {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

/// Returns the bytes of a file of `goldens/ops`.
pub(crate) fn bytes(stem: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../goldens/ops").join(format!("{stem}.safetensors"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run goldens/generate/ops.py", path.display()))
}

/// Returns the answers of a file by name, without their prefix `out.`.
pub(crate) fn answers(stem: &str) -> BTreeMap<String, Answer> {
    let bytes = bytes(stem);
    let file = SafeTensors::deserialize(&bytes).unwrap_or_else(|error| panic!("{stem}: {error}"));
    let answer = |(key, view): (String, safetensors::tensor::TensorView<'_>)| {
        let name = key.strip_prefix("out.").unwrap_or_else(|| panic!("{stem}: {key} is no answer"));
        let values = match view.dtype() {
            Dtype::BF16 => {
                let halves = view.data().as_chunks().0.iter();
                halves.map(|&bytes| bf16::from_le_bytes(bytes).to_f32()).collect()
            }
            Dtype::F32 => view.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect(),
            dtype => panic!("{stem}: {key} is {dtype:?}"),
        };
        (name.to_owned(), Answer { shape: view.shape().to_vec(), values })
    };
    file.tensors().into_iter().map(answer).collect()
}

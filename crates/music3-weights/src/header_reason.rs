//! Why a safetensors header is refused, with the tensor and its numbers, which the format's own crate does not say.

use safetensors::{Dtype, SafeTensorError};
use serde::Deserialize;

use crate::json::Pairs;

/// A tensor of a header; `__metadata__` is none.
#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Tensor {
        dtype: Dtype,
        shape: Vec<u64>,
        data_offsets: (u64, u64),
    },
    #[allow(dead_code, reason = "only told apart from a tensor")]
    Other(serde::de::IgnoredAny),
}

/// The reason in words, if the header can be read that far.
pub(crate) fn reason(header: &[u8], error: &SafeTensorError) -> Option<String> {
    let Pairs(entries) = serde_json::from_slice::<Pairs<Entry>>(header).ok()?;
    let mut tensors: Vec<_> = entries
        .iter()
        .filter_map(|(name, entry)| match entry {
            Entry::Tensor { dtype, shape, data_offsets: (begin, end) } => Some((*begin, *end, name, *dtype, shape)),
            Entry::Other(_) => None,
        })
        .collect();
    tensors.sort();
    if !matches!(error, SafeTensorError::InvalidOffset(_)) {
        return tensors.iter().find_map(|(begin, end, name, dtype, shape)| {
            let values = shape.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim));
            let bits = values.and_then(|values| values.checked_mul(dtype.bitsize() as u64));
            let found = end.saturating_sub(*begin);
            match bits {
                None => Some(format!("tensor `{name}` has shape {shape:?}, whose product is too large")),
                Some(bits) if bits.div_ceil(8) != found => Some(format!(
                    "tensor `{name}` has shape {shape:?} of {dtype}, which takes {} bytes, and its offsets give it {found}",
                    bits.div_ceil(8)
                )),
                Some(_) => None,
            }
        });
    }
    let mut last = 0;
    for (begin, end, name, ..) in tensors {
        match () {
            () if end < begin => {
                return Some(format!("tensor `{name}` ends at byte {end}, before it begins at {begin}"));
            }
            () if begin < last => {
                return Some(format!("tensor `{name}` begins at byte {begin}, inside another that ends at {last}"));
            }
            () if begin > last => {
                return Some(format!("tensor `{name}` begins at byte {begin}, after a hole from {last}"));
            }
            () => last = end,
        }
    }
    None
}

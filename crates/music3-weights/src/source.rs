//! Where stored tensors come from, and how their bytes become tensor data.

use std::path::Path;

use burn::tensor::TensorData;
use half::{bf16, f16};
use music3_nn::Width;
use safetensors::Dtype;

use crate::{error::WeightsError, file_error::FileError};

/// What a header says about a tensor.
#[derive(Debug, Clone, Copy)]
pub struct TensorEntry<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its dtype.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: &'a [usize],
    /// The bytes it takes in the file.
    pub bytes: u64,
    /// The file that holds it.
    pub file: &'a Path,
}

/// A stored tensor and its bytes, little-endian and in row-major order.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
    /// What the header says.
    pub entry: TensorEntry<'a>,
    /// The bytes, as many as the entry says.
    pub data: &'a [u8],
}

/// A set of named stored tensors.
pub trait TensorSource {
    /// All tensors, in the order of their names.
    fn entries(&self) -> Vec<TensorEntry<'_>>;

    /// One tensor.
    ///
    /// # Errors
    /// When there is none of that name.
    fn tensor(&self, name: &str) -> Result<TensorView<'_>, WeightsError>;

    /// Says that this tensor is read next, so that a disk can start early.
    fn prefetch(&self, _name: &str) {}

    /// Says that this tensor is not read again, so that its pages need not stay in this process.
    fn release(&self, _name: &str) {}
}

/// Reads little-endian values of a type that `from_le_bytes` makes.
macro_rules! values {
    ($type:ty, $bytes:expr) => {
        $bytes
            .chunks_exact(size_of::<$type>())
            .map(|chunk| <$type>::from_le_bytes(chunk.try_into().expect("chunks_exact gives chunks of that size")))
    };
}

impl TensorView<'_> {
    /// The values in their own dtype.
    ///
    /// # Errors
    /// For dtypes below 16 bits that are neither integers nor booleans, and for complex numbers.
    pub fn to_data(self) -> Result<TensorData, WeightsError> {
        let shape = self.entry.shape.to_vec();
        macro_rules! data {
            ($type:ty) => {
                TensorData::new(values!($type, self.data).collect::<Vec<_>>(), shape)
            };
        }
        Ok(match self.entry.dtype {
            Dtype::F64 => data!(f64),
            Dtype::F32 => data!(f32),
            Dtype::F16 => data!(f16),
            Dtype::BF16 => data!(bf16),
            Dtype::I64 => data!(i64),
            Dtype::I32 => data!(i32),
            Dtype::I16 => data!(i16),
            Dtype::I8 => data!(i8),
            Dtype::U64 => data!(u64),
            Dtype::U32 => data!(u32),
            Dtype::U16 => data!(u16),
            Dtype::U8 => TensorData::new(self.data.to_vec(), shape),
            Dtype::BOOL => TensorData::new(self.data.iter().map(|byte| *byte != 0).collect::<Vec<_>>(), shape),
            _ => return Err(self.unreadable()),
        })
    }

    /// The values of an f32 or bf16 tensor in the given width: bf16 widened exactly, f32 rounded to nearest, ties to even.
    ///
    /// # Errors
    /// For every other dtype.
    pub fn to_width(self, width: Width) -> Result<TensorData, WeightsError> {
        let shape = self.entry.shape.to_vec();
        match (self.entry.dtype, width) {
            (Dtype::F32, Width::F32) | (Dtype::BF16, Width::Bf16) => self.to_data(),
            (Dtype::F32, Width::Bf16) => {
                Ok(TensorData::new(values!(f32, self.data).map(bf16::from_f32).collect::<Vec<_>>(), shape))
            }
            (Dtype::BF16, Width::F32) => {
                Ok(TensorData::new(values!(bf16, self.data).map(bf16::to_f32).collect::<Vec<_>>(), shape))
            }
            _ => Err(self.unreadable()),
        }
    }

    /// The bytes, if they are stored in the given width already.
    pub(crate) fn bytes_in(&self, width: Width) -> Option<&[u8]> {
        matches!((self.entry.dtype, width), (Dtype::F32, Width::F32) | (Dtype::BF16, Width::Bf16)).then_some(self.data)
    }

    /// The values as f32 after storage in `width`.
    pub(crate) fn to_f32_through(self, width: Width) -> Result<Vec<f32>, WeightsError> {
        let rounded = |value: f32| bf16::from_f32(value).to_f32();
        match (self.entry.dtype, width) {
            (Dtype::F32, Width::F32) => Ok(values!(f32, self.data).collect()),
            (Dtype::F32, Width::Bf16) => Ok(values!(f32, self.data).map(rounded).collect()),
            (Dtype::BF16, _) => Ok(values!(bf16, self.data).map(bf16::to_f32).collect()),
            _ => Err(self.unreadable()),
        }
    }

    fn unreadable(self) -> WeightsError {
        let TensorEntry { name, dtype, file, .. } = self.entry;
        FileError::UnreadableDtype { path: file.to_owned(), name: name.to_owned(), dtype }.into()
    }
}

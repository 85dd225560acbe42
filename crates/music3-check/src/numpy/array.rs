//! One `.npy` file.
//!
//! The reader is strict and small. It takes what NumPy's `save` writes, with a header of the usual size, and believes
//! neither lengths nor shapes before they fit the file: such files come from elsewhere. The crate `npyz` parses the
//! header as a Python expression of any depth, allocates what its length field asks for and multiplies the shape unchecked.

use std::path::Path;

use super::{NumpyError, header::Header};
use crate::values::Values;

/// How arrays may be stored that are to be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ArrayOrder {
    /// Row by row, as C does. Read as such, a column-major array has the right count and is the wrong tensor, so it is
    /// refused.
    #[default]
    RowMajor,
    /// Column by column as well, as Fortran does: such arrays are transposed.
    EitherMajor,
}

/// Reads a file.
pub(super) fn read(path: &Path, order: ArrayOrder) -> Result<Values, NumpyError> {
    let bytes = std::fs::read(path).map_err(|source| NumpyError::Read { path: path.to_owned(), source })?;
    let at = || path.to_owned();
    let header = Header::parse(&bytes).map_err(|problem| NumpyError::Header { path: at(), problem })?;
    let Some(kind) = Kind::of(&header.descr) else {
        return Err(NumpyError::Dtype { path: at(), found: header.descr });
    };
    let data = &bytes[header.data_start..];
    let count = header.shape.iter().try_fold(1usize, |count, dim| count.checked_mul(*dim));
    let Some(count) = count.filter(|count| count.checked_mul(kind.size()) == Some(data.len())) else {
        let (shape, found) = (header.shape, data.len());
        return Err(NumpyError::Length { path: at(), shape, dtype: header.descr, found });
    };
    let values = kind.decode(data).ok_or_else(|| NumpyError::TooLargeInteger { path: at() })?;
    let values = values.reshaped([count]);
    if !header.column_major {
        return Ok(values.reshaped(header.shape));
    }
    match order {
        ArrayOrder::RowMajor => Err(NumpyError::ColumnMajor { path: at() }),
        ArrayOrder::EitherMajor => Ok(values.picked(&row_major_indices(&header.shape)).reshaped(header.shape)),
    }
}

/// Returns, for each value in row-major order, where it lies in column-major order.
fn row_major_indices(shape: &[usize]) -> Vec<usize> {
    let count = shape.iter().product();
    let mut indices = Vec::with_capacity(count);
    let mut places = vec![0; shape.len()];
    for mut row_major in 0..count {
        for (place, dim) in places.iter_mut().zip(shape).rev() {
            *place = row_major % dim;
            row_major /= dim;
        }
        indices.push(places.iter().zip(shape).rev().fold(0, |index, (place, dim)| index * dim + place));
    }
    indices
}

/// The dtypes that are read.
#[derive(Debug, Clone, Copy)]
enum Kind {
    F32,
    Int { bytes: usize, signed: bool },
    Bool,
}

impl Kind {
    fn of(descr: &str) -> Option<Self> {
        Some(match descr {
            "<f4" => Self::F32,
            "|b1" => Self::Bool,
            "|i1" => Self::Int { bytes: 1, signed: true },
            "|u1" => Self::Int { bytes: 1, signed: false },
            "<i2" => Self::Int { bytes: 2, signed: true },
            "<u2" => Self::Int { bytes: 2, signed: false },
            "<i4" => Self::Int { bytes: 4, signed: true },
            "<u4" => Self::Int { bytes: 4, signed: false },
            "<i8" => Self::Int { bytes: 8, signed: true },
            "<u8" => Self::Int { bytes: 8, signed: false },
            _ => return None,
        })
    }

    fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bool => 1,
            Self::Int { bytes, .. } => bytes,
        }
    }

    /// Returns the values as one row; nothing where an integer is too large.
    fn decode(self, data: &[u8]) -> Option<Values> {
        let rows = data.chunks_exact(self.size());
        Some(match self {
            Self::F32 => {
                let floats = rows.map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
                let floats: Vec<f32> = floats.collect();
                let shape = [floats.len()];
                Values::f32(floats, shape)
            }
            Self::Bool | Self::Int { .. } => {
                let signed = matches!(self, Self::Int { signed: true, .. });
                let ints: Option<Vec<i64>> = rows.map(|bytes| integer(bytes, signed)).collect();
                let ints = ints?;
                let shape = [ints.len()];
                Values::int(ints, shape)
            }
        })
    }
}

/// Returns a little-endian integer of up to 8 bytes.
fn integer(bytes: &[u8], signed: bool) -> Option<i64> {
    let negative = signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut wide = [if negative { 0xff } else { 0 }; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let value = i64::from_le_bytes(wide);
    (signed || value >= 0).then_some(value)
}

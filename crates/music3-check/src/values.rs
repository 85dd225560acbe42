//! Stored or computed values with their shape and dtype, on the host.

use std::path::Path;

use burn::tensor::{DType, Tensor, TensorData, backend::Backend};
use half::bf16;
use music3_nn::Width;
use music3_weights::TensorView;

use crate::{CheckError, case::wrap};

/// Values of one tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Values {
    shape: Vec<usize>,
    data: Data,
}

/// The values in the dtype they were computed in.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// bfloat16.
    Bf16(Vec<bf16>),
    /// Integers of any width.
    Int(Vec<i64>),
}

impl Values {
    /// Returns f32 values.
    pub fn f32(values: Vec<f32>, shape: impl Into<Vec<usize>>) -> Self {
        Self { shape: shape.into(), data: Data::F32(values) }
    }

    /// Returns integers.
    pub fn int(values: Vec<i64>, shape: impl Into<Vec<usize>>) -> Self {
        Self { shape: shape.into(), data: Data::Int(values) }
    }

    /// Returns the values of a tensor that a module of the given width computed.
    ///
    /// A backend that cannot store bf16 holds a bf16 module's values in f32: these are given their own dtype again, if
    /// every one is a bf16 value. If one is not, something was not rounded, and the dtype f32 shows it.
    pub fn of<B: Backend, const D: usize>(tensor: Tensor<B, D>, width: Width) -> Self {
        let shape = tensor.dims().to_vec();
        let data = tensor.into_data();
        let data = match (data.dtype, width) {
            (DType::BF16, _) => Data::Bf16(read(&data)),
            (_, Width::F32) => Data::F32(read(&data.convert_dtype(DType::F32))),
            (_, Width::Bf16) => narrowed(read(&data.convert_dtype(DType::F32))),
        };
        Self { shape, data }
    }

    /// Returns what a file holds.
    pub(crate) fn of_stored(view: &TensorView<'_>, case: &Path) -> Result<Self, CheckError> {
        let shape = view.entry.shape.to_vec();
        let data = view.to_data().map_err(|source| wrap(case, source))?;
        let data = match data.dtype {
            DType::F32 => Data::F32(read(&data)),
            DType::BF16 => Data::Bf16(read(&data)),
            dtype if dtype.is_int() || dtype.is_uint() || dtype.is_bool() => Data::Int(data.iter::<i64>().collect()),
            dtype => {
                return Err(CheckError::Dtype {
                    path: view.entry.file.to_owned(),
                    name: view.entry.name.to_owned(),
                    found: format!("{dtype:?}"),
                    expected: "F32, BF16 or integers",
                });
            }
        };
        Ok(Self { shape, data })
    }

    /// Returns the shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the values.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// Returns the dtype's name.
    pub fn dtype(&self) -> &'static str {
        match self.data {
            Data::F32(_) => "f32",
            Data::Bf16(_) => "bf16",
            Data::Int(_) => "int",
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match &self.data {
            Data::F32(values) => values.len(),
            Data::Bf16(values) => values.len(),
            Data::Int(values) => values.len(),
        }
    }

    /// Returns whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the integers, or nothing where these are floats.
    pub fn ints(&self) -> Option<&[i64]> {
        match &self.data {
            Data::Int(values) => Some(values),
            _ => None,
        }
    }

    /// Returns floats as f32, exactly, or nothing where these are integers.
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        match &self.data {
            Data::F32(values) => Some(values.clone()),
            Data::Bf16(values) => Some(values.iter().map(|value| value.to_f32()).collect()),
            Data::Int(_) => None,
        }
    }

    /// Returns the values in the dtype of `other`: widened exactly, or rounded once.
    pub fn in_dtype_of(self, other: &Self) -> Self {
        let data = match (self.data, &other.data) {
            (Data::F32(values), Data::Bf16(_)) => Data::Bf16(values.into_iter().map(bf16::from_f32).collect()),
            (Data::Bf16(values), Data::F32(_)) => Data::F32(values.into_iter().map(bf16::to_f32).collect()),
            (data, _) => data,
        };
        Self { shape: self.shape, data }
    }

    /// Returns f32 values as bf16 where every one of them is a bf16 value, else as they are.
    pub fn narrowed(self) -> Self {
        let data = match self.data {
            Data::F32(values) => narrowed(values),
            data => data,
        };
        Self { shape: self.shape, data }
    }

    /// Returns the same values under another shape.
    ///
    /// # Panics
    /// If the shape has another number of values.
    pub fn reshaped(self, shape: impl Into<Vec<usize>>) -> Self {
        let shape = shape.into();
        assert_eq!(shape.iter().product::<usize>(), self.len(), "a reshape keeps the number of values");
        Self { shape, data: self.data }
    }

    /// Returns the values at given places, as one row.
    ///
    /// # Panics
    /// If a place is past the end.
    pub(crate) fn picked(&self, places: &[usize]) -> Self {
        let data = match &self.data {
            Data::F32(values) => Data::F32(places.iter().map(|&place| values[place]).collect()),
            Data::Bf16(values) => Data::Bf16(places.iter().map(|&place| values[place]).collect()),
            Data::Int(values) => Data::Int(places.iter().map(|&place| values[place]).collect()),
        };
        Self { shape: vec![places.len()], data }
    }

    /// Returns values stacked along a new first dimension, or nothing where there are none or they differ in shape or
    /// dtype.
    pub fn stacked(parts: Vec<Self>) -> Option<Self> {
        let count = parts.len();
        let mut parts = parts.into_iter();
        let mut all = parts.next()?;
        let part_shape = all.shape.clone();
        for part in parts {
            if part.shape != part_shape {
                return None;
            }
            match (&mut all.data, part.data) {
                (Data::F32(all), Data::F32(part)) => all.extend(part),
                (Data::Bf16(all), Data::Bf16(part)) => all.extend(part),
                (Data::Int(all), Data::Int(part)) => all.extend(part),
                _ => return None,
            }
        }
        all.shape.insert(0, count);
        Some(all)
    }
}

fn narrowed(values: Vec<f32>) -> Data {
    let exact = |value: &f32| bf16::from_f32(*value).to_f32().to_bits() == value.to_bits() || value.is_nan();
    match values.iter().all(exact) {
        true => Data::Bf16(values.into_iter().map(bf16::from_f32).collect()),
        false => Data::F32(values),
    }
}

fn read<E: burn::tensor::Element>(data: &TensorData) -> Vec<E> {
    data.to_vec().expect("the dtype was matched")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_that_a_bf16_module_forgot_to_round() {
        type B = burn_ndarray::NdArray;
        let device = Default::default();
        let rounded = Tensor::<B, 1>::from_data([1.0, 0.5, -3.0], &device);
        assert_eq!(Values::of(rounded, Width::Bf16).dtype(), "bf16");
        let unrounded = Tensor::<B, 1>::from_data([1.0, 0.3, -3.0], &device);
        assert_eq!(Values::of(unrounded, Width::Bf16).dtype(), "f32");
    }

    #[test]
    fn stacks_only_what_is_alike() {
        let part = |value: f32| Values::f32(vec![value; 2], [2]);
        let stacked = Values::stacked(vec![part(1.0), part(2.0)]).expect("both are alike");
        assert_eq!(stacked, Values::f32(vec![1.0, 1.0, 2.0, 2.0], [2, 2]));
        assert_eq!(Values::stacked(vec![part(1.0), Values::f32(vec![1.0], [1])]), None);
        assert_eq!(Values::stacked(vec![part(1.0), Values::int(vec![1, 2], [2])]), None);
        assert_eq!(Values::stacked(Vec::new()), None);
    }
}

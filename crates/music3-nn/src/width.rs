//! The store width of a module, and how each backend realises it.

use std::{
    any::TypeId,
    collections::HashMap,
    sync::{LazyLock, Mutex},
};

use burn::tensor::{DType, Tensor, TensorData, backend::Backend};
use half::bf16;

/// The width that a module's weights and activations are stored in.
///
/// It is a property of a module, set when the module is built. Arithmetic is always f32; a `Bf16` module rounds each
/// op's result to bf16 (to nearest, ties to even), as torch does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Width {
    /// 32-bit floats: nothing is rounded beyond f32 itself.
    #[default]
    F32,
    /// bfloat16: every op's result is rounded once.
    Bf16,
}

impl Width {
    /// Returns the bytes one stored value takes in a checkpoint and on a backend that can store it.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// Returns the dtype that `B` stores values of this width in: bf16 where it can, else f32 values that are
    /// representable in bf16.
    pub fn store_dtype<B: Backend>(self, device: &B::Device) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => match Rounding::of::<B>(device) {
                Rounding::Cast | Rounding::Host => DType::BF16,
                Rounding::Emulated => DType::F32,
            },
        }
    }
}

impl std::fmt::Display for Width {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        })
    }
}

/// How a backend gets from f32 to bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Its own cast rounds to nearest, ties to even.
    Cast,
    /// It stores bf16, but its own cast is wrong somewhere: values are rounded on the host.
    Host,
    /// It cannot store bf16: values are rounded on the host and kept in f32.
    Emulated,
}

/// What each backend type turned out to do, so that it is probed once.
static KNOWN: LazyLock<Mutex<HashMap<TypeId, Rounding>>> = LazyLock::new(Mutex::default);

impl Rounding {
    /// Finds out, once per backend type, which way is right.
    ///
    /// Backends differ: burn-ndarray panics on the cast, burn-flex casts through f64 and misrounds values just above a
    /// tie, CUDA is right. Probing covers whatever backend an application brings.
    pub(crate) fn of<B: Backend>(device: &B::Device) -> Self {
        let id = TypeId::of::<B>();
        let known = |map: &HashMap<TypeId, Self>| map.get(&id).copied();
        // A poisoned map still holds only finished probes.
        if let Some(found) = known(&KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())) {
            return found;
        }
        let found = Self::probe::<B>(device);
        KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(id, found);
        found
    }

    fn probe<B: Backend>(device: &B::Device) -> Self {
        if !B::supports_dtype(device, DType::BF16) {
            return Self::Emulated;
        }
        // Just below, at and just above ties of both parities, a subnormal, the overflow threshold, and the signs.
        const PROBES: [u32; 12] = [
            0x3f80_7fff,
            0x3f80_8000,
            0x3f80_8001,
            0x3f81_8000,
            0x3f81_8001,
            0xbf80_8001,
            0x0000_8001,
            0x0001_8000,
            0x0040_8001,
            0x7f7f_7fff,
            0x7f7f_8000,
            0x8000_0000,
        ];
        let values: Vec<f32> = PROBES.iter().map(|&bits| f32::from_bits(bits)).collect();
        let expected: Vec<u16> = values.iter().map(|&value| bf16::from_f32(value).to_bits()).collect();
        let data = Tensor::<B, 1>::from_data(TensorData::from(values.as_slice()), (device, DType::F32))
            .cast(DType::BF16)
            .into_data();
        let right = data.as_slice::<bf16>().is_ok_and(|found| found.iter().map(|value| value.to_bits()).eq(expected));
        if right { Self::Cast } else { Self::Host }
    }
}

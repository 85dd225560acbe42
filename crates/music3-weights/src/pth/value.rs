//! What a pickle of tensors is made of.

use safetensors::Dtype;

/// A value on the pickle's stack. What has parts lies in the [`Store`], so that a value is small and cannot nest in
/// itself.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    None,
    Flag,
    Number(i64),
    Text(&'a str),
    Global(Global),
    Tuple(usize),
    List(usize),
    Dict(usize),
    Storage(usize),
    Tensor(usize),
}

/// Python names that a pickle of tensors may mention, and no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Global {
    OrderedDict,
    RebuildTensor,
    RebuildParameter,
    StorageType(Dtype),
}

impl Global {
    pub(super) fn find(module: &str, name: &str) -> Option<Self> {
        Some(match (module, name) {
            ("collections", "OrderedDict") => Self::OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2") => Self::RebuildTensor,
            ("torch._utils", "_rebuild_parameter") => Self::RebuildParameter,
            ("torch", "FloatStorage") => Self::StorageType(Dtype::F32),
            ("torch", "BFloat16Storage") => Self::StorageType(Dtype::BF16),
            ("torch", "HalfStorage") => Self::StorageType(Dtype::F16),
            ("torch", "DoubleStorage") => Self::StorageType(Dtype::F64),
            ("torch", "LongStorage") => Self::StorageType(Dtype::I64),
            ("torch", "IntStorage") => Self::StorageType(Dtype::I32),
            ("torch", "ShortStorage") => Self::StorageType(Dtype::I16),
            ("torch", "CharStorage") => Self::StorageType(Dtype::I8),
            ("torch", "ByteStorage") => Self::StorageType(Dtype::U8),
            ("torch", "BoolStorage") => Self::StorageType(Dtype::BOOL),
            _ => return None,
        })
    }
}

/// An entry of the archive that tensors are views of.
#[derive(Debug, Clone)]
pub(super) struct Storage {
    /// Its name under `data/`.
    pub(super) key: String,
    pub(super) dtype: Dtype,
    pub(super) values: u64,
}

/// A view of a storage, as the pickle gives it; nothing of it is checked yet.
#[derive(Debug, Clone)]
pub(super) struct PickledTensor {
    pub(super) storage: usize,
    pub(super) offset: u64,
    pub(super) shape: Vec<u64>,
    pub(super) strides: Vec<u64>,
}

/// The parts of values.
#[derive(Debug, Default)]
pub(super) struct Store<'a> {
    pub(super) lists: Vec<Vec<Value<'a>>>,
    pub(super) dicts: Vec<Vec<(Value<'a>, Value<'a>)>>,
    pub(super) storages: Vec<Storage>,
    pub(super) tensors: Vec<PickledTensor>,
}

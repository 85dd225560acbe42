//! Which form of the model's ops a run takes.

use std::{any::TypeId, cell::Cell};

use burn::tensor::backend::Backend;

use crate::scoped::scoped;

/// Which form of the model's ops a run takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ComputePath {
    /// The kernels of this crate, where there is one for the backend, and plain tensors elsewhere.
    #[default]
    Kernels,
    /// Plain tensor ops only, products apart: they stay exact on every path.
    Plain,
}

thread_local! {
    static CURRENT: Cell<ComputePath> = const { Cell::new(ComputePath::Kernels) };
}

/// Returns whether this thread's work may use kernels where there are some.
pub(crate) fn kernels_are_on() -> bool {
    CURRENT.get() == ComputePath::Kernels
}

impl ComputePath {
    /// Returns the path that work on this thread takes on `B`: what was chosen, and `Plain` on a backend that this build
    /// has no kernels for.
    pub fn of<B: Backend>() -> Self {
        if has_kernels::<B>() { CURRENT.get() } else { Self::Plain }
    }

    /// Runs `work` with this choice on the current thread; what was chosen before comes back afterwards.
    pub fn scope<T>(self, work: impl FnOnce() -> T) -> T {
        scoped(&CURRENT, self, work)
    }
}

impl std::fmt::Display for ComputePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Kernels => "kernels",
            Self::Plain => "plain",
        })
    }
}

/// Returns whether kernels of this crate recognise the backend's tensors.
fn has_kernels<B: Backend>() -> bool {
    let primitive = TypeId::of::<B::FloatTensorPrimitive>();
    #[cfg(feature = "cuda")]
    if primitive == TypeId::of::<crate::cuda::CudaTensor>() {
        return true;
    }
    #[cfg(feature = "flex")]
    if primitive == TypeId::of::<burn_flex::FlexTensor>() {
        return true;
    }
    let _ = primitive;
    false
}

#[cfg(test)]
mod tests {
    use super::ComputePath;

    #[test]
    #[cfg(feature = "flex")]
    fn flex_has_kernels_unless_they_are_switched_off() {
        assert_eq!(ComputePath::of::<burn_flex::Flex>(), ComputePath::Kernels);
        ComputePath::Plain.scope(|| assert_eq!(ComputePath::of::<burn_flex::Flex>(), ComputePath::Plain));
        assert_eq!(ComputePath::of::<burn_flex::Flex>(), ComputePath::Kernels);
    }

    #[test]
    #[cfg(feature = "ndarray")]
    fn ndarray_has_none() {
        assert_eq!(ComputePath::of::<burn_ndarray::NdArray>(), ComputePath::Plain);
    }
}

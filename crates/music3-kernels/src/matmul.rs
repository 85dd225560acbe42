//! How products of f32 operands are computed.

use std::{any::TypeId, cell::Cell};

use burn::tensor::backend::Backend;

use crate::scoped::scoped;

/// How a product of two f32 operands is computed on a device that has faster units for less exact operands.
///
/// It is chosen for a stretch of work on one thread, with [`scope`](Self::scope). CPU backends compute f32 products
/// in f32 whatever is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Matmul {
    /// f32 operands, products and sums: f32 means f32. The transformer's attention multiplies three bf16 parts of each
    /// operand, which is at least as exact.
    #[default]
    Strict,
    /// Each operand is split into two f16 parts, whose products run on the tensor cores; partial sums over the inner
    /// dimension are added in f32.
    Split,
    /// Operands are rounded to TF32, with 10 bits after the leading one.
    Tf32,
}

thread_local! {
    static CURRENT: Cell<Matmul> = const { Cell::new(Matmul::Strict) };
}

impl Matmul {
    /// Returns what this thread computes f32 products with.
    pub fn current() -> Self {
        CURRENT.get()
    }

    /// Returns what f32 products of this thread are computed with on `B`: what was chosen where the backend has such
    /// products, and `Strict` on every other backend.
    pub fn of<B: Backend>() -> Self {
        if has_other_products::<B>() { Self::current() } else { Self::Strict }
    }

    /// Runs `work` with this choice on the current thread; what was chosen before comes back afterwards, whether or not
    /// the work panics.
    pub fn scope<T>(self, work: impl FnOnce() -> T) -> T {
        scoped(&CURRENT, self, work)
    }
}

impl std::fmt::Display for Matmul {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Strict => "strict",
            Self::Split => "split",
            Self::Tf32 => "tf32",
        })
    }
}

/// Returns whether anything but strict products can run on the backend in this process.
fn has_other_products<B: Backend>() -> bool {
    let primitive = TypeId::of::<B::FloatTensorPrimitive>();
    #[cfg(feature = "cuda")]
    if primitive == TypeId::of::<crate::cuda::CudaTensor>() {
        return crate::cuda::has_product_library();
    }
    let _ = primitive;
    false
}

#[cfg(test)]
mod tests {
    use super::Matmul;

    #[test]
    #[cfg(feature = "flex")]
    fn a_cpu_backend_computes_strict_products_whatever_is_chosen() {
        assert_eq!(Matmul::Tf32.scope(Matmul::of::<burn_flex::Flex>), Matmul::Strict);
    }

    #[test]
    fn a_choice_ends_with_its_scope_even_when_the_work_panics() {
        assert_eq!(Matmul::current(), Matmul::Strict);
        Matmul::Tf32.scope(|| {
            assert_eq!(Matmul::current(), Matmul::Tf32);
            Matmul::Split.scope(|| assert_eq!(Matmul::current(), Matmul::Split));
            assert_eq!(Matmul::current(), Matmul::Tf32);
        });
        let panicked = std::panic::catch_unwind(|| Matmul::Split.scope(|| panic!("work that fails")));
        assert!(panicked.is_err());
        assert_eq!(Matmul::current(), Matmul::Strict);
    }
}

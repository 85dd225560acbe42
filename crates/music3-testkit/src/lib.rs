//! Development only: one generic test body, one named test per backend.
//!
//! ```text
//! on_each_backend!(matches_upstream, refuses_a_wrong_shape);
//!
//! fn matches_upstream<B: Backend>(device: &B::Device) { … }
//! ```
//!
//! makes `flex::matches_upstream`, `ndarray::matches_upstream` and, with the feature `cuda`, `cuda::matches_upstream`, so
//! that `cargo test flex::` runs everything on one backend. The crate that uses the macro declares the three features and
//! passes them on to this one. A test on CUDA fails where there is no such device; it is never skipped.

/// Fast and portable; stores bf16.
#[cfg(feature = "flex")]
pub type Flex = burn_flex::Flex;

/// Simple and exact; cannot store bf16, so it holds bf16 values in f32.
#[cfg(feature = "ndarray")]
pub type NdArray = burn_ndarray::NdArray<f32>;

/// The GPU, without fusion: fusion may merge roundings.
#[cfg(feature = "cuda")]
pub type Cuda = burn_cuda::Cuda<f32, i32>;

/// Makes a test of each name on each backend; a body is generic over `B: Backend` and takes the device.
#[macro_export]
macro_rules! on_each_backend {
    ($($body:ident),+ $(,)?) => {
        $crate::on_each_backend!(@module flex, Flex, "flex", $($body),+);
        $crate::on_each_backend!(@module ndarray, NdArray, "ndarray", $($body),+);
        $crate::on_each_backend!(@module cuda, Cuda, "cuda", $($body),+);
    };
    (@module $module:ident, $backend:ident, $feature:literal, $($body:ident),+) => {
        #[cfg(feature = $feature)]
        mod $module {
            $(
                #[test]
                fn $body() {
                    super::$body::<$crate::$backend>(&Default::default());
                }
            )+
        }
    };
}

//! Each fast path against its plain-tensor twin, on every backend: the same call on the same values, once with kernels
//! and once without.
//!
//! A kernel sums in another order, so a sum may round to the other neighbour: at most one in a hundred bf16 values may
//! differ, by at most two units in the last place or 2⁻⁷ of the root mean square; f32 values keep to 1e-5 of themselves and
//! of the root mean square. On flex and on CUDA every kernel must also be the one that ran.

#![expect(clippy::print_stdout, reason = "what a kernel measured is shown beside its bound")]

mod acoustic;
mod attention;
mod compare;
mod decoder;
#[cfg(feature = "cuda")]
mod draws;
#[cfg(feature = "cuda")]
mod memory;
mod products;

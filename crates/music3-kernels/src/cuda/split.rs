//! f32 products from bf16 parts.
//!
//! An f32 value is the sum of three bf16 values to within 2⁻²⁴ of itself. Of the nine products of two such sums, the six
//! largest are kept, which is as exact as f32 itself. The tensor cores' own sums lose low bits as they grow, so the
//! largest product is taken over short stretches of the inner dimension, whose sums are added in f32.
#![allow(unsafe_code, reason = "kernels are launched on raw buffers")]

use burn::tensor::DType;
use burn_cubecl::cubecl::{self, prelude::*};
use cubecl::cuda::CudaRuntime;
use half::bf16;

use super::{
    CudaTensor,
    layout::Batched,
    lt::{Operands, Product, Step},
};

/// Inner dimension that the tensor cores may sum over by themselves in the largest product.
const STRETCH: usize = 512;

/// Threads of a cube.
const THREADS: u32 = 256;

/// Which parts are multiplied, smallest products first, so that they are not lost in a large sum. The last is the
/// largest.
const PAIRS: [(usize, usize); 6] = [(2, 0), (0, 2), (1, 1), (1, 0), (0, 1), (0, 0)];

#[cube(launch)]
fn three_parts(x: &Array<f32>, high: &mut Array<bf16>, middle: &mut Array<bf16>, low: &mut Array<bf16>) {
    if ABSOLUTE_POS < x.len() {
        let value = x[ABSOLUTE_POS];
        let first = bf16::cast_from(value);
        let rest = value - f32::cast_from(first);
        let second = bf16::cast_from(rest);
        high[ABSOLUTE_POS] = first;
        middle[ABSOLUTE_POS] = second;
        low[ABSOLUTE_POS] = bf16::cast_from(rest - f32::cast_from(second));
    }
}

/// Returns the three parts of a tensor, with its shape and strides.
pub(super) fn parts(tensor: &CudaTensor, elements: usize) -> [CudaTensor; 3] {
    let client = tensor.client.clone();
    let parts = [(); 3].map(|()| {
        let mut part = tensor.clone();
        part.handle = client.empty(elements * size_of::<bf16>());
        part.dtype = DType::BF16;
        part
    });
    let count = cubecl::calculate_cube_count_elemwise(&client, elements, CubeDim::new_1d(THREADS));
    // SAFETY: all four buffers hold `elements` values.
    let array = |tensor: &CudaTensor| unsafe { ArrayArg::from_raw_parts(tensor.handle.clone(), elements) };
    three_parts::launch::<CudaRuntime>(
        &client,
        count,
        CubeDim::new_1d(THREADS),
        array(tensor),
        array(&parts[0]),
        array(&parts[1]),
        array(&parts[2]),
    );
    parts
}

/// Returns the products to run, where handles 0 to 2 are the parts of the first operand and 3 to 5 those of the second.
pub(super) fn steps(a: &Batched, b: &Batched) -> Vec<Step> {
    let inner = a.columns;
    let mut steps = Vec::new();
    for (left, right) in PAIRS {
        let stretch = if (left, right) == (0, 0) { STRETCH } else { inner };
        for start in (0..inner).step_by(stretch.max(1)) {
            let len = stretch.min(inner - start);
            let ((a, a_offset), (b, b_offset)) = (a.columns_from(start, len), b.rows_from(start, len));
            let bytes = |elements: usize| (elements * size_of::<bf16>()) as u64;
            let product = Product { a, b, operands: Operands::Bf16, accumulate: !steps.is_empty(), rounded: false };
            steps.push(Step { product, a: (left, bytes(a_offset)), b: (3 + right, bytes(b_offset)) });
        }
    }
    steps
}

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
    decode::{FOUR, Four},
    layout::Batched,
    lt::{Operands, Place, Product, Step},
};

/// Inner dimension that the tensor cores may sum over by themselves in the largest product.
const STRETCH: usize = 2048;

/// Threads of a cube.
const THREADS: u32 = 256;

/// Products of parts for one of values.
pub(super) const PRODUCTS: usize = 6;

/// Which parts are multiplied, smallest products first, so that they are not lost in a large sum. The last is the
/// largest.
const PAIRS: [(usize, usize); PRODUCTS] = [(2, 0), (0, 2), (1, 1), (1, 0), (0, 1), (0, 0)];

#[cube(launch)]
fn three_parts(
    x: &Array<Four<f32>>,
    high: &mut Array<Four<bf16>>,
    middle: &mut Array<Four<bf16>>,
    low: &mut Array<Four<bf16>>,
) {
    if ABSOLUTE_POS < x.len() {
        let value = x[ABSOLUTE_POS];
        let first = Four::<bf16>::cast_from(value);
        let rest = value - Four::<f32>::cast_from(first);
        let second = Four::<bf16>::cast_from(rest);
        high[ABSOLUTE_POS] = first;
        middle[ABSOLUTE_POS] = second;
        low[ABSOLUTE_POS] = Four::<bf16>::cast_from(rest - Four::<f32>::cast_from(second));
    }
}

/// The same for values that are no multiple of four.
#[cube(launch)]
fn three_parts_one_by_one(x: &Array<f32>, high: &mut Array<bf16>, middle: &mut Array<bf16>, low: &mut Array<bf16>) {
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
    let in_fours = elements.is_multiple_of(FOUR);
    let units = if in_fours { elements / FOUR } else { elements };
    let count = cubecl::calculate_cube_count_elemwise(&client, units, CubeDim::new_1d(THREADS));
    // SAFETY: all four buffers hold `elements` values.
    let array = |tensor: &CudaTensor| unsafe { ArrayArg::from_raw_parts(tensor.handle.clone(), elements) };
    let launch =
        if in_fours { three_parts::launch::<CudaRuntime> } else { three_parts_one_by_one::launch::<CudaRuntime> };
    launch(
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

/// Operands of a product in three parts each, and where the result goes.
pub(super) struct Parted<'a> {
    pub(super) a: (&'a Batched, usize),
    pub(super) b: (&'a Batched, usize),
    pub(super) out: (&'a Batched, Place),
    /// What is added, as rows of the output, and the bias.
    pub(super) added: Option<Place>,
    pub(super) bias: Option<Place>,
}

/// Returns the products to run, where handles 0 to 2 are the parts of the first operand and 3 to 5 those of the second.
pub(super) fn steps(parted: &Parted<'_>) -> Vec<Step> {
    let ((a, a_start), (b, b_start), (out, place)) = (parted.a, parted.b, parted.out);
    let inner = a.columns;
    let mut steps = Vec::new();
    for (left, right) in PAIRS {
        let stretch = if (left, right) == (0, 0) { STRETCH } else { inner };
        for start in (0..inner).step_by(stretch.max(1)) {
            let len = stretch.min(inner - start);
            let ((a, a_offset), (b, b_offset)) = (a.columns_from(start, len), b.rows_from(start, len));
            let at = |handle, elements: usize| Place::start_of(handle).after(elements * size_of::<bf16>());
            let first = steps.is_empty();
            steps.push(Step {
                product: Product { a, b, out: out.clone(), operands: Operands::Bf16, rounded: false },
                a: at(left, a_start + a_offset),
                b: at(3 + right, b_start + b_offset),
                out: place,
                added: if first { parted.added } else { Some(place) },
                bias: parted.bias.filter(|_| first),
            });
        }
    }
    steps
}

//! f32 products from f16 parts.
//!
//! A value is scaled by a power of two, so that the operand's largest fits f16 with room to spare, and taken apart into an
//! f16 value and the f16 value nearest to the rest: 22 bits of every value down to 2⁻²⁸ of the largest, and an error of
//! 2⁻³⁹ of the largest below. Of the four products of two such sums the three largest are kept; the tensor cores' own sums
//! lose low bits as they grow, so the largest product is taken over short stretches of the inner dimension, whose sums are
//! added in f32. A product's factor takes the scales back.
//!
//! # Source
//! Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak
//! performance", 2022.

use burn::tensor::DType;
use burn_cubecl::cubecl::{self, prelude::*};
use cubecl::{cuda::CudaRuntime, server::Handle};
use half::f16;

use super::{
    CudaTensor,
    decode::{FOUR, Four, array, cube_max},
    layout::Batched,
    lt::{Operands, Place, Product, Step},
};

/// Inner dimension that the tensor cores may sum over by themselves in the largest product.
const STRETCH: usize = 1024;

/// Threads and planes of a cube.
const THREADS: u32 = 256;
const PLANES: u32 = THREADS / 32;

/// Cubes that look for the largest value, each of which leaves one.
const SEARCHERS: u32 = 512;

/// Cubes that take an operand apart, at most.
const MAX_CUBES: u32 = 1056;

/// The power of two that the largest value of an operand is brought to: f16 ends below 2¹⁶.
const LARGEST_EXPONENT: u32 = 13;

/// Products of parts for one of values.
pub(super) const PRODUCTS: usize = 3;

/// Which parts are multiplied, smallest products first, so that they are not lost in a large sum. The last is the
/// largest.
const PAIRS: [(usize, usize); PRODUCTS] = [(1, 0), (0, 1), (0, 0)];

/// Leaves the largest magnitude that each cube met. What is behind the last of `fours` is read one by one.
#[cube(launch)]
fn largest_of(
    x: &Array<Four<f32>>,
    one_by_one: &Array<f32>,
    largest: &mut Array<f32>,
    fours: u32,
    elements: u32,
    #[comptime] planes: u32,
) {
    let mut scratch = SharedMemory::<f32>::new(comptime!(planes as usize));
    let mut most = Four::<f32>::new(0.0f32);
    let first = CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X;
    for index in range_stepped(first, fours, CUBE_COUNT_X * CUBE_DIM_X) {
        most = max(most, Four::<f32>::abs(x[index as usize]));
    }
    let mut most = max(max(most[0], most[1]), max(most[2], most[3]));
    for index in range_stepped(fours * 4 + first, elements, CUBE_COUNT_X * CUBE_DIM_X) {
        most = max(most, f32::abs(one_by_one[index as usize]));
    }
    let most = cube_max(most, &mut scratch, planes);
    if UNIT_POS_X == 0 {
        largest[CUBE_POS_X as usize] = most;
    }
}

/// The biased exponent of the power of two that scales an operand whose largest magnitudes are these. It and that of its
/// inverse are those of normal values.
#[cube]
fn scale_exponent(largest: &Array<f32>, scratch: &mut SharedMemory<f32>, #[comptime] planes: u32) -> u32 {
    let mut most = 0.0f32;
    for index in range_stepped(UNIT_POS_X, SEARCHERS, CUBE_DIM_X) {
        most = max(most, largest[index as usize]);
    }
    let exponent = u32::reinterpret(cube_max(most, scratch, planes)) >> 23u32;
    // 127 + LARGEST_EXPONENT - (exponent - 127), which is at least 12.
    min(comptime!(254 + LARGEST_EXPONENT) - exponent, 253u32)
}

#[cube]
fn power_of_two(biased_exponent: u32) -> f32 {
    f32::reinterpret(biased_exponent << 23u32)
}

/// Takes an operand apart. The second operand's launch also leaves the factors of their product: what takes both scales
/// back, zero and one.
#[cube(launch)]
fn two_parts(
    x: &Array<Four<f32>>,
    one_by_one: &Array<f32>,
    high: &mut Array<Four<f16>>,
    high_one_by_one: &mut Array<f16>,
    low: &mut Array<Four<f16>>,
    low_one_by_one: &mut Array<f16>,
    largest: &Array<f32>,
    largest_of_first: &Array<f32>,
    factors: &mut Array<f32>,
    fours: u32,
    elements: u32,
    #[comptime] is_second: bool,
    #[comptime] planes: u32,
) {
    let mut scratch = SharedMemory::<f32>::new(comptime!(planes as usize));
    let exponent = scale_exponent(largest, &mut scratch, planes);
    let scale = power_of_two(exponent);
    let first = CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X;
    for index in range_stepped(first, fours, CUBE_COUNT_X * CUBE_DIM_X) {
        let value = x[index as usize] * Four::<f32>::new(scale);
        let coarse = Four::<f16>::cast_from(value);
        high[index as usize] = coarse;
        low[index as usize] = Four::<f16>::cast_from(value - Four::<f32>::cast_from(coarse));
    }
    for index in range_stepped(fours * 4 + first, elements, CUBE_COUNT_X * CUBE_DIM_X) {
        let value = one_by_one[index as usize] * scale;
        let coarse = f16::cast_from(value);
        high_one_by_one[index as usize] = coarse;
        low_one_by_one[index as usize] = f16::cast_from(value - f32::cast_from(coarse));
    }
    if comptime!(is_second) {
        let exponent_of_first = scale_exponent(largest_of_first, &mut scratch, planes);
        if CUBE_POS_X == 0 && UNIT_POS_X == 0 {
            factors[0] = power_of_two(254u32 - exponent) * power_of_two(254u32 - exponent_of_first);
            factors[1] = f32::new(0.0);
            factors[2] = f32::new(1.0);
        }
    }
}

/// Two operands in two parts each, and the factors of their product.
pub(super) struct Parts {
    pub(super) operands: [[CudaTensor; 2]; 2],
    /// What takes the scales back, zero and one: three f32 values.
    pub(super) factors: CudaTensor,
}

/// Takes both operands of a product apart, of which so many values are read. The parts have the shapes and strides of
/// their operands.
pub(super) fn parts([lhs, rhs]: [(&CudaTensor, usize); 2]) -> Parts {
    let client = lhs.0.client.clone();
    let factors = sibling(lhs.0, client.empty(3 * size_of::<f32>()), DType::F32);
    let searched = [lhs, rhs].map(|(tensor, elements)| searched(tensor, elements));
    let first = taken_apart(lhs, [&searched[0], &searched[0]], &factors, false);
    let second = taken_apart(rhs, [&searched[1], &searched[0]], &factors, true);
    Parts { operands: [first, second], factors }
}

/// Returns the largest magnitudes that [`SEARCHERS`] cubes found.
fn searched(tensor: &CudaTensor, elements: usize) -> Handle {
    let largest = tensor.client.empty(SEARCHERS as usize * size_of::<f32>());
    largest_of::launch::<CudaRuntime>(
        &tensor.client,
        CubeCount::new_1d(SEARCHERS),
        CubeDim::new_1d(THREADS),
        array(&tensor.handle, elements),
        array(&tensor.handle, elements),
        array(&largest, SEARCHERS as usize),
        fours(tensor, elements) as u32,
        elements as u32,
        PLANES,
    );
    largest
}

fn taken_apart(
    (tensor, elements): (&CudaTensor, usize),
    [largest, largest_of_first]: [&Handle; 2],
    factors: &CudaTensor,
    is_second: bool,
) -> [CudaTensor; 2] {
    let client = &tensor.client;
    let parts = [(); 2].map(|()| sibling(tensor, client.empty(elements * size_of::<f16>()), DType::F16));
    let [high, low] = parts.each_ref().map(|part| &part.handle);
    let cubes = (elements.div_ceil(FOUR) as u32).div_ceil(THREADS).clamp(1, MAX_CUBES);
    two_parts::launch::<CudaRuntime>(
        client,
        CubeCount::new_1d(cubes),
        CubeDim::new_1d(THREADS),
        array(&tensor.handle, elements),
        array(&tensor.handle, elements),
        array(high, elements),
        array(high, elements),
        array(low, elements),
        array(low, elements),
        array(largest, SEARCHERS as usize),
        array(largest_of_first, SEARCHERS as usize),
        array(&factors.handle, 3),
        fours(tensor, elements) as u32,
        elements as u32,
        is_second,
        PLANES,
    );
    parts
}

/// Returns how many fours of values can be read at once: none of a view that begins between two.
fn fours(tensor: &CudaTensor, elements: usize) -> usize {
    let begins = tensor.handle.offset_start.unwrap_or(0);
    if begins.is_multiple_of((FOUR * size_of::<f32>()) as u64) { elements / FOUR } else { 0 }
}

/// A tensor with the same shape and strides in other memory.
fn sibling(tensor: &CudaTensor, handle: Handle, dtype: DType) -> CudaTensor {
    CudaTensor { handle, dtype, ..tensor.clone() }
}

/// Operands of a product in two parts each, and where the result goes.
pub(super) struct Parted<'a> {
    pub(super) a: (&'a Batched, usize),
    pub(super) b: (&'a Batched, usize),
    pub(super) out: (&'a Batched, Place),
    /// What is added, as rows of the output, and the bias.
    pub(super) added: Option<Place>,
    pub(super) bias: Option<Place>,
}

/// Handles of the parts, in the order of [`Parts`], and the factors' behind them.
pub(super) const FACTORS: usize = 4;

/// Returns how many products add to the output, one after the other, where the inner dimension is so long.
pub(super) fn passes(inner: usize) -> usize {
    PRODUCTS - 1 + inner.div_ceil(STRETCH)
}

/// Returns the products to run, where handles 0 and 1 are the parts of the first operand, 2 and 3 those of the second.
pub(super) fn steps(parted: &Parted<'_>) -> Vec<Step> {
    let ((a, a_start), (b, b_start), (out, place)) = (parted.a, parted.b, parted.out);
    let inner = a.columns;
    let mut steps = Vec::new();
    for (left, right) in PAIRS {
        let stretch = if (left, right) == (0, 0) { STRETCH } else { inner };
        for start in (0..inner).step_by(stretch.max(1)) {
            let len = stretch.min(inner - start);
            let ((a, a_offset), (b, b_offset)) = (a.columns_from(start, len), b.rows_from(start, len));
            let at = |handle, elements: usize| Place::start_of(handle).after(elements * size_of::<f16>());
            let first = steps.is_empty();
            steps.push(Step {
                product: Product { a, b, out: out.clone(), operands: Operands::F16, rounded: false },
                a: at(left, a_start + a_offset),
                b: at(2 + right, b_start + b_offset),
                out: place,
                added: if first { parted.added } else { Some(place) },
                bias: parted.bias.filter(|_| first),
                factors: Some(Place::start_of(FACTORS)),
            });
        }
    }
    steps
}

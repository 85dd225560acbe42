//! Sums, gates and softmax of many rows, each in one pass over memory.

use burn_cubecl::cubecl::{self, prelude::*};

use super::packed::{Eight, cube_max, cube_sum, first, pair, rounded, second};

/// How two tensors are joined value by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) enum Joint {
    /// `a + b`
    Sum,
    /// `silu(a) · b`, where `silu` rounds too.
    Gate,
}

/// Joins two bf16 tensors; each result is rounded.
#[cube(launch)]
pub(super) fn join(a: &Array<Eight>, b: &Array<Eight>, out: &mut Array<Eight>, eights: u32, #[comptime] joint: Joint) {
    let index = CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X;
    if index < eights {
        let left = a[index as usize];
        let right = b[index as usize];
        let mut result = Eight::empty();
        #[unroll]
        for part in 0..4u32 {
            let (a, b) = (left[part as usize], right[part as usize]);
            result[part as usize] =
                pair(rounded(joined(first(a), first(b), joint)), rounded(joined(second(a), second(b), joint)));
        }
        out[index as usize] = result;
    }
}

#[cube]
fn joined(a: f32, b: f32, #[comptime] joint: Joint) -> f32 {
    if comptime!(joint == Joint::Sum) { a + b } else { rounded(a / (f32::exp(-a) + 1.0f32)) * b }
}

/// Softmax of `scale · x` over rows of `keys` values, one row a cube. Where `causal`, row `r` sees the keys up to number
/// `first + r % queries`.
#[cube(launch)]
pub(super) fn softmax_rows(
    x: &Array<f32>,
    out: &mut Array<f32>,
    scale: f32,
    keys: u32,
    first: u32,
    queries: u32,
    #[comptime] causal: bool,
    #[comptime] planes: u32,
) {
    let mut scratch = SharedMemory::<f32>::new(comptime!(planes as usize));
    let start = CUBE_POS_X as usize * keys as usize;
    let mut visible = keys;
    if comptime!(causal) {
        visible = first + CUBE_POS_X % queries + 1;
    }
    let mut highest = f32::new(LOWEST);
    for key in range_stepped(UNIT_POS, visible, CUBE_DIM) {
        highest = max(highest, x[start + key as usize] * scale);
    }
    let highest = cube_max(highest, &mut scratch, planes);
    let mut sum = 0.0f32;
    for key in range_stepped(UNIT_POS, visible, CUBE_DIM) {
        let share = f32::exp(x[start + key as usize] * scale - highest);
        out[start + key as usize] = share;
        sum += share;
    }
    let total = cube_sum(sum, &mut scratch, planes);
    for key in range_stepped(UNIT_POS, keys, CUBE_DIM) {
        let mut share = 0.0f32;
        if key < visible {
            share = out[start + key as usize] / total;
        }
        out[start + key as usize] = share;
    }
}

/// Below any score.
const LOWEST: f32 = -3e38;

//! bf16 values in groups of eight, as 16 bytes are loaded at once.
//!
//! They are held as `u32` pairs and taken apart with a shift and a mask, which is exact and costs one integer
//! instruction a value.

use burn_cubecl::cubecl::{self, prelude::*};
use half::bf16;

/// Eight bf16 values.
pub(super) type Eight = Vector<u32, Const<4>>;

/// Values in one [`Eight`].
pub(super) const EIGHT: usize = 8;

/// Below any score, and finite, so that the difference of two of them is zero.
pub(super) const LOWEST: f32 = -1e30;

/// Values that are loaded at once where they may be f32 too.
pub(in super::super) const FOUR: usize = 4;

/// Four values of either type.
pub(in super::super) type Four<F> = Vector<F, Const<4>>;

/// The lower half of a pair, which comes first in memory.
#[cube]
pub(super) fn first(pair: u32) -> f32 {
    f32::reinterpret(pair << 16u32)
}

/// The upper half of a pair.
#[cube]
pub(super) fn second(pair: u32) -> f32 {
    f32::reinterpret(pair & 0xFFFF_0000u32)
}

/// Rounds a value to bf16 and widens it again.
#[cube]
pub(super) fn rounded(value: f32) -> f32 {
    f32::cast_from(bf16::cast_from(value))
}

/// Two values as a pair; what bf16 does not hold of them is cut off.
#[cube]
pub(super) fn pair(first: f32, second: f32) -> u32 {
    (u32::reinterpret(first) >> 16u32) | (u32::reinterpret(second) & 0xFFFF_0000u32)
}

/// The sum over the lanes of a cube, for all of them. `scratch` holds one value a plane.
#[cube]
pub(super) fn cube_sum(value: f32, scratch: &mut SharedMemory<f32>, #[comptime] planes: u32) -> f32 {
    let mut total = plane_sum(value);
    if comptime!(planes > 1) {
        if UNIT_POS_PLANE == 0 {
            scratch[PLANE_POS as usize] = total;
        }
        sync_cube();
        total = 0.0f32;
        #[unroll]
        for plane in 0..planes {
            total += scratch[plane as usize];
        }
        sync_cube();
    }
    total
}

/// The largest of the lanes of a cube, for all of them.
#[cube]
pub(in super::super) fn cube_max(value: f32, scratch: &mut SharedMemory<f32>, #[comptime] planes: u32) -> f32 {
    let most = plane_max(value);
    if UNIT_POS_PLANE == 0 {
        scratch[PLANE_POS as usize] = most;
    }
    sync_cube();
    let mut highest = scratch[0];
    #[unroll]
    for plane in 1..planes {
        highest = max(highest, scratch[plane as usize]);
    }
    sync_cube();
    highest
}

//! The transformer's and the vocoder's ops between their products: LayerNorm, biases, the gate, rotation, softmax, Snake. In
//! f32 and bf16 alike; where torch rounds, a value goes through the storage type. Four values are loaded at once.

use burn_cubecl::cubecl::{self, prelude::*};
use half::bf16;

use super::packed::{Four, LOWEST, cube_sum};

#[cube]
fn wide<F: Float>(values: Four<F>) -> Four<f32> {
    Four::<f32>::cast_from(values)
}

/// Rounds to the storage type.
#[cube]
fn stored<F: Float>(values: Four<f32>) -> Four<F> {
    Four::<F>::cast_from(values)
}

/// Rounds to the storage type and widens again.
#[cube]
fn rounded<F: Float>(values: Four<f32>) -> Four<f32> {
    Four::<f32>::cast_from(Four::<F>::cast_from(values))
}

#[cube]
fn sum(values: Four<f32>) -> f32 {
    values[0] + values[1] + (values[2] + values[3])
}

/// LayerNorm over rows, one row a cube, whose lanes keep `turns` fours each, all of them where rows are `full`; the result rounds
/// once. `nothing` is zero, which the compiler must not know.
#[cube(launch)]
pub(super) fn layer_norm<F: Float>(
    x: &Array<Four<F>>,
    weight: &Array<Four<F>>,
    bias: &Array<Four<F>>,
    out: &mut Array<Four<F>>,
    eps: f32,
    nothing: f32,
    fours: u32,
    #[comptime] planes: u32,
    #[comptime] turns: u32,
    #[comptime] full: bool,
    #[define(F)] _dtype: StorageType,
) {
    let mut scratch = SharedMemory::<f32>::new(comptime!(planes as usize));
    let start = CUBE_POS_X * fours;
    let count = f32::cast_from(fours * 4);
    let mut values = Array::<Four<f32>>::new(comptime!(turns as usize));
    // Loaded whether they are in the row or not, so that no load waits for a branch.
    #[unroll]
    for turn in 0..turns {
        let index = min(turn * CUBE_DIM + UNIT_POS, fours - 1);
        values[turn as usize] = wide::<F>(x[(start + index) as usize]);
    }
    let mut total = 0.0f32;
    #[unroll]
    for turn in 0..turns {
        if comptime!(full) || turn * CUBE_DIM + UNIT_POS < fours {
            total += sum(values[turn as usize]);
        }
    }
    let mean = cube_sum(total, &mut scratch, planes) / count;
    let mut squares = 0.0f32;
    #[unroll]
    for turn in 0..turns {
        if comptime!(full) || turn * CUBE_DIM + UNIT_POS < fours {
            values[turn as usize] = values[turn as usize] - Four::<f32>::new(mean);
            squares += sum(values[turn as usize] * values[turn as usize]);
        }
    }
    let scale = 1.0f32 / f32::sqrt(cube_sum(squares, &mut scratch, planes) / count + eps);
    #[unroll]
    for turn in 0..turns {
        let index = turn * CUBE_DIM + UNIT_POS;
        if comptime!(full) || index < fours {
            let normalised = values[turn as usize] * Four::<f32>::new(scale);
            // A fused product would not round before the sum, as the one upstream rounds.
            let weighted = fma(normalised, wide::<F>(weight[index as usize]), Four::<f32>::new(nothing));
            out[(start + index) as usize] = stored::<F>(weighted + wide::<F>(bias[index as usize]));
        }
    }
}

/// `value · silu(gate)` of rows that hold the value half first and the gate half second; `silu` rounds before the product.
/// Where `biased`, the halves are sums that have yet to get their bias and be rounded. A row is a cube's second place.
#[cube(launch)]
pub(super) fn gate_halves<I: Float, F: Float>(
    halves: &Array<Four<I>>,
    bias: &Array<Four<F>>,
    out: &mut Array<Four<F>>,
    half: u32,
    #[comptime] biased: bool,
    #[define(I)] _input: StorageType,
    #[define(F)] _dtype: StorageType,
) {
    let place = CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X;
    if place < half {
        let row = CUBE_POS_Y * half;
        let mut value = wide::<I>(halves[(2 * row + place) as usize]);
        let mut gate = wide::<I>(halves[(2 * row + half + place) as usize]);
        if comptime!(biased) {
            value = rounded::<F>(value + wide::<F>(bias[place as usize]));
            gate = rounded::<F>(gate + wide::<F>(bias[(half + place) as usize]));
        }
        let silu = rounded::<F>(gate / (Four::<f32>::exp(Four::<f32>::new(0.0f32) - gate) + Four::<f32>::new(1.0f32)));
        out[(row + place) as usize] = stored::<F>(value * silu);
    }
}

/// Rounds sums of rows after adding their bias and, where it `adds`, rounds again after adding a residual. A row is a
/// cube's second place.
#[cube(launch)]
pub(super) fn finish<F: Float>(
    sums: &Array<Four<f32>>,
    bias: &Array<Four<F>>,
    residual: &Array<Four<F>>,
    out: &mut Array<Four<F>>,
    columns: u32,
    #[comptime] adds: bool,
    #[define(F)] _dtype: StorageType,
) {
    let place = CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X;
    if place < columns {
        let index = (CUBE_POS_Y * columns + place) as usize;
        let mut value = sums[index] + wide::<F>(bias[place as usize]);
        if comptime!(adds) {
            value = rounded::<F>(value) + wide::<F>(residual[index]);
        }
        out[index] = stored::<F>(value);
    }
}

/// Rotates the first values of each head, half against half, where both products and the sum round; `[tokens, heads,
/// head_dim]` per batch, a token being a cube's second place. All sizes count fours.
#[cube(launch)]
pub(super) fn rotate_heads<F: Float>(
    x: &Array<Four<F>>,
    cosines: &Array<Four<F>>,
    sines: &Array<Four<F>>,
    out: &mut Array<Four<F>>,
    tokens: u32,
    width: u32,
    nothing: f32,
    #[comptime] head: u32,
    #[comptime] rotated: u32,
    #[define(F)] _dtype: StorageType,
) {
    let column = CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X;
    if column < width {
        let start = CUBE_POS_Y * width;
        let turned =
            turned::<F>(x, cosines, sines, start + column, column % head, CUBE_POS_Y % tokens, nothing, rotated);
        out[(start + column) as usize] = stored::<F>(turned);
    }
}

/// The four values at `index`, `place` fours into their head, after the rotation of its first `rotated` fours.
#[cube]
fn turned<F: Float>(
    x: &Array<Four<F>>,
    cosines: &Array<Four<F>>,
    sines: &Array<Four<F>>,
    index: u32,
    place: u32,
    token: u32,
    nothing: f32,
    #[comptime] rotated: u32,
) -> Four<f32> {
    let mut result = wide::<F>(x[index as usize]);
    if place < rotated {
        let half = comptime!(rotated / 2);
        let first = place < half;
        let other = select(first, index + half, index - half);
        let sign = select(first, f32::new(-1.0), f32::new(1.0));
        let table = (token * rotated + place) as usize;
        // Both products round before their sum, as in `layer_norm`.
        let nothing = Four::<f32>::new(nothing);
        let straight = rounded::<F>(fma(result, wide::<F>(cosines[table]), nothing));
        let across = wide::<F>(x[other as usize]) * Four::<f32>::new(sign);
        let turned = rounded::<F>(fma(across, wide::<F>(sines[table]), nothing));
        result = rounded::<F>(straight + turned);
    }
    result
}

/// Queries, keys and values side by side in rows, as what attention in tiles reads: each by itself, queries and keys rotated,
/// in so many bf16 parts that add up to a value. A row is a cube's second place. All sizes count fours.
#[cube(launch)]
pub(super) fn take_heads_apart<F: Float>(
    x: &Array<Four<F>>,
    cosines: &Array<Four<F>>,
    sines: &Array<Four<F>>,
    out: &mut Array<Four<bf16>>,
    tokens: u32,
    rows: u32,
    width: u32,
    nothing: f32,
    #[comptime] head: u32,
    #[comptime] rotated: u32,
    #[comptime] parts: u32,
    #[define(F)] _dtype: StorageType,
) {
    let column = CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X;
    if column < 3 * width {
        let matrix = column / width;
        let index = CUBE_POS_Y * 3 * width + column;
        // Values do not turn: no place of theirs is below the fours that do.
        let place = select(matrix < 2, column % head, rotated);
        let mut rest = turned::<F>(x, cosines, sines, index, place, CUBE_POS_Y % tokens, nothing, rotated);
        let target = (matrix * rows + CUBE_POS_Y) * width + column % width;
        #[unroll]
        for part in 0..parts {
            let coarse = Four::<bf16>::cast_from(rest);
            out[(part * 3 * rows * width + target) as usize] = coarse;
            rest -= Four::<f32>::cast_from(coarse);
        }
    }
}

/// `factor · x` in f32.
#[cube(launch)]
pub(super) fn scale<F: Float>(
    x: &Array<Four<F>>,
    out: &mut Array<Four<f32>>,
    factor: f32,
    #[define(F)] _dtype: StorageType,
) {
    if ABSOLUTE_POS < out.len() {
        out[ABSOLUTE_POS] = wide::<F>(x[ABSOLUTE_POS]) * Four::<f32>::new(factor);
    }
}

/// Softmax over rows of `keys` values that begin `row` fours apart, in place, one row a plane. What lies behind
/// the keys becomes zero. A lane keeps `turns` fours.
#[cube(launch)]
pub(super) fn softmax_in_place(x: &mut Array<Four<f32>>, keys: u32, row: u32, rows: u32, #[comptime] turns: u32) {
    let line = CUBE_POS_X * CUBE_DIM_Y + UNIT_POS_Y;
    if line < rows {
        let start = line * row;
        let mut values = Array::<Four<f32>>::new(comptime!(turns as usize));
        let mut highest = f32::new(LOWEST);
        #[unroll]
        for turn in 0..turns {
            let place = turn * PLANE_DIM + UNIT_POS_X;
            let mut loaded = Four::<f32>::new(LOWEST);
            if place < row {
                loaded = x[(start + place) as usize];
            }
            #[unroll]
            for part in 0..4u32 {
                if place * 4 + part >= keys {
                    loaded[part as usize] = f32::new(LOWEST);
                }
                highest = max(highest, loaded[part as usize]);
            }
            values[turn as usize] = loaded;
        }
        let highest = plane_max(highest);
        let mut total = 0.0f32;
        #[unroll]
        for turn in 0..turns {
            let shares = Four::<f32>::exp(values[turn as usize] - Four::<f32>::new(highest));
            total += sum(shares);
            values[turn as usize] = shares;
        }
        let total = plane_sum(total);
        #[unroll]
        for turn in 0..turns {
            let place = turn * PLANE_DIM + UNIT_POS_X;
            if place < row {
                x[(start + place) as usize] = values[turn as usize] / Four::<f32>::new(total);
            }
        }
    }
}

/// Snake: `x + sin²(alpha · x) / (alpha + eps)` of rows `[len, channels]`, one alpha per channel; every op rounds. A batch is
/// a cube's second place, and its rows begin `stride` fours after those of the one before.
#[cube(launch)]
pub(super) fn snake<F: Float>(
    x: &Array<Four<F>>,
    alpha: &Array<Four<F>>,
    out: &mut Array<Four<F>>,
    eps: f32,
    nothing: f32,
    channels: u32,
    count: u32,
    stride: u32,
    #[define(F)] _dtype: StorageType,
) {
    let place = CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X;
    if place < count {
        let value = wide::<F>(x[(CUBE_POS_Y * stride + place) as usize]);
        let alpha = wide::<F>(alpha[(place % channels) as usize]);
        let raised = rounded::<F>(alpha + Four::<f32>::new(eps));
        let inverse = rounded::<F>(Four::<f32>::new(1.0f32) / raised);
        let sine = rounded::<F>(Four::<f32>::sin(rounded::<F>(alpha * value)));
        let wave = rounded::<F>(sine * sine);
        out[(CUBE_POS_Y * count + place) as usize] =
            stored::<F>(value + rounded::<F>(fma(inverse, wave, Four::<f32>::new(nothing))));
    }
}

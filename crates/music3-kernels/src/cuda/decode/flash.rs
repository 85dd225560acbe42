//! Attention over whole sequences in bf16 without a matrix of scores: tensor cores multiply, and each plane keeps a running
//! maximum, sum and weighted sum of its queries in registers, as FlashAttention does.
//!
//! Scores, weights and sums are f32. The weights meet the values as two bf16 parts each, which together are exact to 2⁻¹⁶, so
//! that the result rounds once, at its end, as torch's MATH kernel does.

use burn_cubecl::cubecl::{self, cmma::MmaDefinition, prelude::*};
use half::bf16;

use super::{
    linear::PLANE,
    packed::{Eight, first, pair, rounded, second},
};

/// Queries of a plane: the rows of one tile of the tensor cores.
pub(super) const QUERIES: u32 = 16;

/// Keys that a cube reads at once.
pub(super) const KEYS: u32 = 64;

/// Rows of a tile's other side.
const COLUMNS: u32 = 8;

/// Words between the rows of staged keys and values beyond their own, so that lanes read from different banks.
const PADDING: u32 = 4;

/// Two bf16 values in a register.
type Pair = Vector<bf16, Const<2>>;

/// Two f32 sums of neighbouring columns.
type Sums = Vector<f32, Const<2>>;

/// What [`flash_attention`] is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flash {
    pub(super) head_dim: u32,
    pub(super) planes: u32,
}

/// How far rows are apart, in values.
#[derive(CubeLaunch, CubeType, Clone, Copy)]
pub(super) struct Strides {
    pub(super) batch: u32,
    pub(super) head: u32,
    pub(super) token: u32,
}

/// A lane holds parts of two of its plane's queries: row `lane / 4` and the one eight further on, and of each the columns
/// `2·(lane % 4)` and the next of every eight. That is how the tensor cores' `m16n8k16` lays out its accumulators, and, two tiles
/// side by side, its first operand.
#[cube(launch)]
pub(super) fn flash_attention(
    query: &Array<u32>,
    key: &Array<Eight>,
    value: &Array<Eight>,
    out: &mut Array<u32>,
    query_strides: Strides,
    key_strides: Strides,
    value_strides: Strides,
    out_strides: Strides,
    heads: u32,
    queries: u32,
    keys: u32,
    scale: f32,
    #[comptime] flash: Flash,
) {
    let steps = comptime!((flash.head_dim / 16) as usize);
    let key_tiles = comptime!((KEYS / COLUMNS) as usize);
    let value_tiles = comptime!((flash.head_dim / COLUMNS) as usize);
    let key_row = comptime!(flash.head_dim / 2 + PADDING);
    let value_row = comptime!(KEYS / 2 + PADDING);
    let definition = MmaDefinition::<bf16, bf16, f32>::new(16usize, 8usize, 16usize);

    let lane = UNIT_POS_X;
    let group = lane / 4;
    let place = lane % 4;
    let head = CUBE_POS_Y % heads;
    let batch = CUBE_POS_Y / heads;
    let top = (CUBE_POS_X * comptime!(flash.planes) + UNIT_POS_Y) * QUERIES;
    let low = top + group;
    let high = low + 8;

    // 1. Queries, for all steps over the head.
    let query_start = batch * query_strides.batch + head * query_strides.head;
    let low_row = (query_start + min(low, queries - 1) * query_strides.token) / 2 + place;
    let high_row = (query_start + min(high, queries - 1) * query_strides.token) / 2 + place;
    let mut query_tiles = Sequence::<Array<Pair>>::new();
    #[unroll]
    for step in 0..steps {
        let column = comptime!(step as u32 * 8);
        let mut tile = Array::<Pair>::new(4usize);
        tile[0] = Pair::reinterpret(query[(low_row + column) as usize]);
        tile[1] = Pair::reinterpret(query[(high_row + column) as usize]);
        tile[2] = Pair::reinterpret(query[(low_row + column + 4) as usize]);
        tile[3] = Pair::reinterpret(query[(high_row + column + 4) as usize]);
        query_tiles.push(tile);
    }

    let mut outputs = Sequence::<Array<Sums>>::new();
    #[unroll]
    for _ in 0..value_tiles {
        let mut sums = Array::<Sums>::new(2usize);
        sums[0] = Sums::new(0.0f32);
        sums[1] = Sums::new(0.0f32);
        outputs.push(sums);
    }
    let mut low_highest = f32::new(LOWEST);
    let mut high_highest = f32::new(LOWEST);
    let mut low_total = 0.0f32;
    let mut high_total = 0.0f32;

    let mut staged_keys = SharedMemory::<u32>::new(comptime!((KEYS * key_row) as usize));
    let mut staged_values = SharedMemory::<u32>::new(comptime!((flash.head_dim * value_row) as usize));
    let key_start = batch * key_strides.batch + head * key_strides.head;
    let value_start = batch * value_strides.batch + head * value_strides.head;

    for first_key in range_stepped(0u32, keys, KEYS) {
        sync_cube();
        stage_keys(key, &mut staged_keys, key_start, key_strides.token, first_key, keys, flash);
        stage_values(value, &mut staged_values, value_start, value_strides.token, first_key, keys, flash);
        sync_cube();

        // 2. Scores of 16 queries and 64 keys.
        let mut scores = Sequence::<Array<Sums>>::new();
        let mut low_best = low_highest;
        let mut high_best = high_highest;
        #[unroll]
        for tile in 0..key_tiles {
            let mut sums = Array::<Sums>::new(2usize);
            sums[0] = Sums::new(0.0f32);
            sums[1] = Sums::new(0.0f32);
            let row = (comptime!(tile as u32 * COLUMNS) + group) * key_row + place;
            #[unroll]
            for step in 0..steps {
                let column = comptime!(step as u32 * 8);
                let mut keys_tile = Array::<Pair>::new(2usize);
                keys_tile[0] = Pair::reinterpret(staged_keys[(row + column) as usize]);
                keys_tile[1] = Pair::reinterpret(staged_keys[(row + column + 4) as usize]);
                definition.execute_inplace(query_tiles.index(step), &keys_tile, &mut sums);
            }
            let column = first_key + comptime!(tile as u32 * COLUMNS) + 2 * place;
            let mut low_pair = sums[0] * Sums::new(scale);
            let mut high_pair = sums[1] * Sums::new(scale);
            #[unroll]
            for part in 0..2u32 {
                if column + part >= keys {
                    low_pair[part as usize] = f32::new(LOWEST);
                    high_pair[part as usize] = f32::new(LOWEST);
                }
                low_best = max(low_best, low_pair[part as usize]);
                high_best = max(high_best, high_pair[part as usize]);
            }
            sums[0] = low_pair;
            sums[1] = high_pair;
            scores.push(sums);
        }

        // 3. Weights relative to the highest score so far, which four lanes share.
        let low_best = highest_of_four(low_best);
        let high_best = highest_of_four(high_best);
        let low_shrink = f32::exp(low_highest - low_best);
        let high_shrink = f32::exp(high_highest - high_best);
        low_highest = low_best;
        high_highest = high_best;
        low_total *= low_shrink;
        high_total *= high_shrink;
        #[unroll]
        for tile in 0..value_tiles {
            let sums = outputs.index_mut(tile);
            sums[0] = sums[0] * Sums::new(low_shrink);
            sums[1] = sums[1] * Sums::new(high_shrink);
        }

        // 4. Weighted values, 16 keys at a time: two tiles of scores are one first operand.
        #[unroll]
        for step in 0..comptime!((KEYS / 16) as usize) {
            let mut high_parts = Array::<Pair>::new(4usize);
            let mut low_parts = Array::<Pair>::new(4usize);
            #[unroll]
            for side in 0..2usize {
                let pairs = scores.index(comptime!(2 * step + side));
                let low_pair = Sums::exp(pairs[0] - Sums::new(low_best));
                let high_pair = Sums::exp(pairs[1] - Sums::new(high_best));
                low_total += low_pair[0] + low_pair[1];
                high_total += high_pair[0] + high_pair[1];
                high_parts[comptime!(2 * side)] = Pair::reinterpret(coarse(low_pair));
                high_parts[comptime!(2 * side + 1)] = Pair::reinterpret(coarse(high_pair));
                low_parts[comptime!(2 * side)] = Pair::reinterpret(fine(low_pair));
                low_parts[comptime!(2 * side + 1)] = Pair::reinterpret(fine(high_pair));
            }
            #[unroll]
            for tile in 0..value_tiles {
                let row = (comptime!(tile as u32 * COLUMNS) + group) * value_row + place + comptime!(step as u32 * 8);
                let mut values_tile = Array::<Pair>::new(2usize);
                values_tile[0] = Pair::reinterpret(staged_values[row as usize]);
                values_tile[1] = Pair::reinterpret(staged_values[(row + 4) as usize]);
                let sums = outputs.index_mut(tile);
                definition.execute_inplace(&low_parts, &values_tile, sums);
                definition.execute_inplace(&high_parts, &values_tile, sums);
            }
        }
    }

    // 5. Divided by the sum of the weights, and rounded once.
    let low_total = sum_of_four(low_total);
    let high_total = sum_of_four(high_total);
    let out_start = batch * out_strides.batch + head * out_strides.head;
    #[unroll]
    for tile in 0..value_tiles {
        let sums = outputs.index(tile);
        let column = comptime!(tile as u32 * COLUMNS / 2) + place;
        let low_pair = sums[0] / Sums::new(low_total);
        let high_pair = sums[1] / Sums::new(high_total);
        if low < queries {
            out[((out_start + low * out_strides.token) / 2 + column) as usize] = coarse(low_pair);
        }
        if high < queries {
            out[((out_start + high * out_strides.token) / 2 + column) as usize] = coarse(high_pair);
        }
    }
}

/// Below any score, and finite, so that the difference of two of them is zero.
const LOWEST: f32 = -1e30;

/// Two values, rounded to bf16.
#[cube]
fn coarse(values: Sums) -> u32 {
    pair(rounded(values[0]), rounded(values[1]))
}

/// What rounding leaves of two values, rounded.
#[cube]
fn fine(values: Sums) -> u32 {
    pair(rounded(values[0] - rounded(values[0])), rounded(values[1] - rounded(values[1])))
}

#[cube]
fn highest_of_four(value: f32) -> f32 {
    let value = max(value, plane_shuffle_xor(value, 1));
    max(value, plane_shuffle_xor(value, 2))
}

#[cube]
fn sum_of_four(value: f32) -> f32 {
    let value = value + plane_shuffle_xor(value, 1);
    value + plane_shuffle_xor(value, 2)
}

/// Copies rows of keys, a row after another. Past the last the last is copied again; its scores are left out.
#[cube]
fn stage_keys(
    key: &Array<Eight>,
    staged: &mut SharedMemory<u32>,
    start: u32,
    stride: u32,
    first_key: u32,
    keys: u32,
    #[comptime] flash: Flash,
) {
    let eights = comptime!(flash.head_dim / 8);
    let row_words = comptime!(flash.head_dim / 2 + PADDING);
    let unit = UNIT_POS_Y * PLANE + UNIT_POS_X;
    for index in range_stepped(unit, comptime!(KEYS * eights), comptime!(flash.planes * PLANE)) {
        let row = index / eights;
        let column = index % eights;
        let source = (start + min(first_key + row, keys - 1) * stride) / 8 + column;
        let loaded = key[source as usize];
        let target = row * row_words + column * 4;
        #[unroll]
        for part in 0..4u32 {
            staged[(target + part) as usize] = loaded[part as usize];
        }
    }
}

/// Copies rows of values so that a row holds one dimension of all keys: two neighbouring keys are a pair.
#[cube]
fn stage_values(
    value: &Array<Eight>,
    staged: &mut SharedMemory<u32>,
    start: u32,
    stride: u32,
    first_key: u32,
    keys: u32,
    #[comptime] flash: Flash,
) {
    let eights = comptime!(flash.head_dim / 8);
    let pairs = comptime!(KEYS / 2);
    let row_words = comptime!(KEYS / 2 + PADDING);
    let unit = UNIT_POS_Y * PLANE + UNIT_POS_X;
    for index in range_stepped(unit, comptime!(pairs * eights), comptime!(flash.planes * PLANE)) {
        // Lanes take neighbouring pairs of keys, so that they write to different banks.
        let keys_pair = index % pairs;
        let column = index / pairs;
        let even = first_key + 2 * keys_pair;
        let left = value[((start + min(even, keys - 1) * stride) / 8 + column) as usize];
        let right = value[((start + min(even + 1, keys - 1) * stride) / 8 + column) as usize];
        #[unroll]
        for part in 0..4u32 {
            let (a, b) = (left[part as usize], right[part as usize]);
            let target = (column * 8 + 2 * part) * row_words + keys_pair;
            staged[target as usize] = pair(first(a), first(b));
            staged[(target + row_words) as usize] = pair(second(a), second(b));
        }
    }
}

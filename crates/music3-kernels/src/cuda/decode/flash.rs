//! Attention over whole sequences without a matrix of scores: tensor cores multiply, and each plane keeps a running maximum, sum
//! and weighted sum of its queries in registers, as FlashAttention does.
//!
//! Scores, weights and sums are f32. bf16 operands are multiplied as they are; the weights meet the values as three bf16 parts,
//! which together are as exact as f32, so that the result rounds once, at its end, as torch's MATH kernel does. f32 operands come
//! in two or three parts, of whose products those of the lowest orders are added up, the smallest first.

use burn_cubecl::cubecl::{self, prelude::*};
use half::bf16;

use super::{
    packed::{LOWEST, first, pair, second},
    staging::{Eights, Rows, Tiles, key_tiles, one_of_two, place_in_keys, place_in_values, stage, value_tiles},
};

/// Queries of a plane: the rows of one tile of the tensor cores.
pub(super) const QUERIES: u32 = 16;

/// Rows of a tile's other side.
const COLUMNS: u32 = 8;

/// Tiles whose sums are in flight together: a product waits for the one before it only where both add to the same sums.
const TOGETHER: usize = 4;

/// Two bf16 values in a register.
pub(super) type Pair = Vector<bf16, Const<2>>;

/// Two f32 sums of neighbouring columns.
type Sums = Vector<f32, Const<2>>;

/// What [`flash_attention`] is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flash {
    pub(super) head_dim: u32,
    pub(super) planes: u32,
    /// bf16 parts of an operand: one where operands are bf16, and so is the result.
    pub(super) parts: u32,
    /// Keys that a cube reads at once.
    pub(super) keys: u32,
}

impl Flash {
    /// Parts of a weight: where the result rounds to bf16 it must not be off before.
    fn weight_parts(self) -> usize {
        if self.parts == 2 { 2 } else { 3 }
    }
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
///
/// Operands come part by part; those that are not there are not read. The result goes to `out` in bf16, or, where operands have
/// several parts, to `wide_out` in f32.
///
/// Rows are cut off at the last one, so nothing is checked again at each access. Exponentials are the device's fast ones, off by some
/// units in the last place; nothing else here is less exact for it, and what is not a number stays so.
#[cube(launch_unchecked, fast_math = FastMath::ReducedPrecision | FastMath::NotNaN | FastMath::NotInf)]
pub(super) fn flash_attention(
    query: &Array<u32>,
    second_query: &Array<u32>,
    third_query: &Array<u32>,
    key: &Array<Eights>,
    second_key: &Array<Eights>,
    third_key: &Array<Eights>,
    value: &Array<Eights>,
    second_value: &Array<Eights>,
    third_value: &Array<Eights>,
    out: &mut Array<u32>,
    wide_out: &mut Array<Sums>,
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
    let parts = comptime!(flash.parts as usize);
    let value_tiles = comptime!((flash.head_dim / COLUMNS) as usize);
    let group = UNIT_POS_X / 4;
    let place = UNIT_POS_X % 4;
    let head = CUBE_POS_Y % heads;
    let batch = CUBE_POS_Y / heads;
    let low = (CUBE_POS_X * comptime!(flash.planes) + UNIT_POS_Y) * QUERIES + group;
    let high = low + 8;

    // 1. Queries, for all steps over the head.
    let query_start = batch * query_strides.batch + head * query_strides.head;
    let low_row = (query_start + min(low, queries - 1) * query_strides.token) / 2 + place;
    let high_row = (query_start + min(high, queries - 1) * query_strides.token) / 2 + place;
    let mut query_tiles = Sequence::<Array<Pair>>::new();
    load_queries(query, &mut query_tiles, low_row, high_row, flash);
    if comptime!(parts > 1) {
        load_queries(second_query, &mut query_tiles, low_row, high_row, flash);
    }
    if comptime!(parts > 2) {
        load_queries(third_query, &mut query_tiles, low_row, high_row, flash);
    }

    let mut outputs = Sequence::<Array<Sums>>::new();
    #[unroll]
    for _ in 0..value_tiles {
        outputs.push(no_sums());
    }
    let mut low_highest = f32::new(LOWEST);
    let mut high_highest = f32::new(LOWEST);
    let mut low_total = 0.0f32;
    let mut high_total = 0.0f32;

    let mut staged_keys = SharedMemory::<Eights>::new(comptime!((flash.part_eights() * flash.parts) as usize));
    let mut staged_values = SharedMemory::<Eights>::new(comptime!((flash.part_eights() * flash.parts) as usize));
    let key_start = batch * key_strides.batch + head * key_strides.head;
    let value_start = batch * value_strides.batch + head * value_strides.head;

    for first_key in range_stepped(0u32, keys, comptime!(flash.keys)) {
        sync_cube();
        let key_rows = Rows { start: key_start, stride: key_strides.token, first: first_key, last: keys - 1 };
        let value_rows = Rows { start: value_start, stride: value_strides.token, first: first_key, last: keys - 1 };
        stage(key, &mut staged_keys, &key_rows, 0u32, flash);
        stage(value, &mut staged_values, &value_rows, 0u32, flash);
        if comptime!(parts > 1) {
            stage(second_key, &mut staged_keys, &key_rows, 1u32, flash);
            stage(second_value, &mut staged_values, &value_rows, 1u32, flash);
        }
        if comptime!(parts > 2) {
            stage(third_key, &mut staged_keys, &key_rows, 2u32, flash);
            stage(third_value, &mut staged_values, &value_rows, 2u32, flash);
        }
        sync_cube();

        // 2. Scores of 16 queries, not scaled yet.
        let mut scores = scores_of(&query_tiles, &staged_keys, flash);
        let mut low_best = low_highest;
        let mut high_best = high_highest;
        let ends_here = first_key + comptime!(flash.keys) > keys;
        #[unroll]
        for tile in 0..comptime!((flash.keys / COLUMNS) as usize) {
            let sums = scores.index_mut(tile);
            let mut low_pair = sums[0];
            let mut high_pair = sums[1];
            if ends_here {
                let column = first_key + comptime!(tile as u32 * COLUMNS) + 2 * place;
                #[unroll]
                for part in 0..2u32 {
                    if column + part >= keys {
                        low_pair[part as usize] = f32::new(LOWEST);
                        high_pair[part as usize] = f32::new(LOWEST);
                    }
                }
                sums[0] = low_pair;
                sums[1] = high_pair;
            }
            low_best = max(low_best, max(low_pair[0], low_pair[1]));
            high_best = max(high_best, max(high_pair[0], high_pair[1]));
        }

        // 3. The highest score so far, which four lanes share, and what it makes of the sums so far.
        let low_best = highest_of_four(low_best);
        let high_best = highest_of_four(high_best);
        let low_shrink = f32::exp((low_highest - low_best) * scale);
        let high_shrink = f32::exp((high_highest - high_best) * scale);
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

        // 4. Weights relative to it, and weighted values, 16 keys at a time: two tiles of scores are one first operand.
        #[unroll]
        for step in 0..comptime!((flash.keys / 16) as usize) {
            let mut weights = Sequence::<Array<Pair>>::new();
            #[unroll]
            for _ in 0..comptime!(flash.weight_parts()) {
                weights.push(Array::<Pair>::new(4usize));
            }
            #[unroll]
            for side in 0..2usize {
                let pairs = scores.index(comptime!(2 * step + side));
                let low_pair = Sums::exp((pairs[0] - Sums::new(low_best)) * Sums::new(scale));
                let high_pair = Sums::exp((pairs[1] - Sums::new(high_best)) * Sums::new(scale));
                low_total += low_pair[0] + low_pair[1];
                high_total += high_pair[0] + high_pair[1];
                take_apart(low_pair, &mut weights, comptime!(2 * side), flash);
                take_apart(high_pair, &mut weights, comptime!(2 * side + 1), flash);
            }
            add_values(&weights, &staged_values, &mut outputs, step, flash);
        }
    }

    // 5. Their share of the sum of the weights, rounded to bf16 once.
    let low_share = Sums::new(1.0f32 / sum_of_four(low_total));
    let high_share = Sums::new(1.0f32 / sum_of_four(high_total));
    let out_start = batch * out_strides.batch + head * out_strides.head;
    #[unroll]
    for tile in 0..value_tiles {
        let sums = outputs.index(tile);
        let column = comptime!(tile as u32 * COLUMNS / 2) + place;
        let low_pair = sums[0] * low_share;
        let high_pair = sums[1] * high_share;
        let low_place = ((out_start + low * out_strides.token) / 2 + column) as usize;
        let high_place = ((out_start + high * out_strides.token) / 2 + column) as usize;
        if low < queries {
            if comptime!(parts > 1) {
                wide_out[low_place] = low_pair;
            } else {
                out[low_place] = coarse(low_pair);
            }
        }
        if high < queries {
            if comptime!(parts > 1) {
                wide_out[high_place] = high_pair;
            } else {
                out[high_place] = coarse(high_pair);
            }
        }
    }
}

/// Adds one part of a plane's queries to the tiles.
#[cube]
fn load_queries(
    query: &Array<u32>,
    tiles: &mut Sequence<Array<Pair>>,
    low_row: u32,
    high_row: u32,
    #[comptime] flash: Flash,
) {
    #[unroll]
    for step in 0..comptime!((flash.head_dim / 16) as usize) {
        let column = comptime!(step as u32 * 8);
        let mut tile = Array::<Pair>::new(4usize);
        tile[0] = Pair::reinterpret(query[(low_row + column) as usize]);
        tile[1] = Pair::reinterpret(query[(high_row + column) as usize]);
        tile[2] = Pair::reinterpret(query[(low_row + column + 4) as usize]);
        tile[3] = Pair::reinterpret(query[(high_row + column + 4) as usize]);
        tiles.push(tile);
    }
}

#[cube]
fn no_sums() -> Array<Sums> {
    let mut sums = Array::<Sums>::new(2usize);
    sums[0] = Sums::new(0.0f32);
    sums[1] = Sums::new(0.0f32);
    sums
}

/// The products of the queries with all staged keys: pairs of parts whose orders add up to less than the number of parts.
#[cube]
fn scores_of(
    query_tiles: &Sequence<Array<Pair>>,
    staged: &SharedMemory<Eights>,
    #[comptime] flash: Flash,
) -> Sequence<Array<Sums>> {
    let definition = Tiles::new(16usize, 8usize, 16usize);
    let steps = comptime!((flash.head_dim / 16) as usize);
    let parts = comptime!(flash.parts as usize);
    let tiles = comptime!((flash.keys / COLUMNS) as usize);
    let place = place_in_keys(flash);
    let mut scores = Sequence::<Array<Sums>>::new();
    #[unroll]
    for group in 0..comptime!(tiles / TOGETHER) {
        let first = comptime!(group * TOGETHER);
        // What is small is not lost in what is large.
        let mut large = Sequence::<Array<Sums>>::new();
        let mut small = Sequence::<Array<Sums>>::new();
        #[unroll]
        for _ in 0..TOGETHER {
            large.push(no_sums());
            if comptime!(parts > 1) {
                small.push(no_sums());
            }
        }
        #[unroll]
        for step in 0..steps {
            let mut keys = Sequence::<Array<Pair>>::new();
            #[unroll]
            for two in 0..comptime!(TOGETHER / 2) {
                #[unroll]
                for part in 0..parts {
                    let tile = comptime!(first + 2 * two);
                    keys.push(key_tiles(&definition, staged, place, part, tile, step, flash));
                }
            }
            #[unroll]
            for turn in 0..parts {
                let order = comptime!(parts - 1 - turn);
                #[unroll]
                for of_query in 0..comptime!(order + 1) {
                    let queries = query_tiles.index(comptime!(of_query * steps + step));
                    #[unroll]
                    for tile in 0..TOGETHER {
                        let both = keys.index(comptime!(tile / 2 * parts + order - of_query));
                        let keys = one_of_two(both, comptime!(tile % 2));
                        if comptime!(order > 0) {
                            definition.execute_inplace(queries, &keys, small.index_mut(tile));
                        } else {
                            definition.execute_inplace(queries, &keys, large.index_mut(tile));
                        }
                    }
                }
            }
        }
        #[unroll]
        for tile in 0..TOGETHER {
            let mut sums = no_sums();
            sums[0] = large.index(tile)[0];
            sums[1] = large.index(tile)[1];
            if comptime!(parts > 1) {
                sums[0] = sums[0] + small.index(tile)[0];
                sums[1] = sums[1] + small.index(tile)[1];
            }
            scores.push(sums);
        }
    }
    scores
}

/// Adds the products of the weights of 16 keys with their values.
#[cube]
fn add_values(
    weights: &Sequence<Array<Pair>>,
    staged: &SharedMemory<Eights>,
    outputs: &mut Sequence<Array<Sums>>,
    #[comptime] step: usize,
    #[comptime] flash: Flash,
) {
    let definition = Tiles::new(16usize, 8usize, 16usize);
    let parts = comptime!(flash.parts as usize);
    let weight_parts = comptime!(flash.weight_parts());
    let tiles = comptime!((flash.head_dim / COLUMNS) as usize);
    let place = place_in_values(flash);
    #[unroll]
    for group in 0..comptime!(tiles.div_ceil(TOGETHER)) {
        let first = comptime!(group * TOGETHER);
        let count = comptime!(TOGETHER.min(tiles - first));
        let mut values = Sequence::<Array<Pair>>::new();
        // The tensor cores' own sums lose low bits as they grow, so they are kept short and added in f32.
        let mut sums = Sequence::<Array<Sums>>::new();
        #[unroll]
        for two in 0..comptime!(count / 2) {
            #[unroll]
            for part in 0..parts {
                let tile = comptime!(first + 2 * two);
                values.push(value_tiles(&definition, staged, place, part, tile, step, flash));
            }
            sums.push(no_sums());
            sums.push(no_sums());
        }
        #[unroll]
        for turn in 0..weight_parts {
            let order = comptime!(weight_parts - 1 - turn);
            #[unroll]
            for of_weight in 0..comptime!(order + 1) {
                if comptime!(order - of_weight < parts) {
                    #[unroll]
                    for tile in 0..count {
                        let both = values.index(comptime!(tile / 2 * parts + order - of_weight));
                        let values = one_of_two(both, comptime!(tile % 2));
                        definition.execute_inplace(weights.index(of_weight), &values, sums.index_mut(tile));
                    }
                }
            }
        }
        #[unroll]
        for tile in 0..count {
            let output = outputs.index_mut(comptime!(first + tile));
            output[0] = output[0] + sums.index(tile)[0];
            output[1] = output[1] + sums.index(tile)[1];
        }
    }
}

/// Writes two weights, part by part, to a register of each part's tile. Upper halves are cut off and what is left goes on: three
/// parts of eight bits are the whole weight.
#[cube]
fn take_apart(
    values: Sums,
    weights: &mut Sequence<Array<Pair>>,
    #[comptime] register: usize,
    #[comptime] flash: Flash,
) {
    let mut low = values[0];
    let mut high = values[1];
    #[unroll]
    for part in 0..comptime!(flash.weight_parts()) {
        let tile = weights.index_mut(part);
        let both = pair(low, high);
        tile[register] = Pair::reinterpret(both);
        low -= first(both);
        high -= second(both);
    }
}

/// Two values, rounded to bf16.
#[cube]
fn coarse(values: Sums) -> u32 {
    u32::reinterpret(Pair::cast_from(values))
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

//! What planes that attend over a cache have seen, tile by tile, and how they join it.

#![allow(
    clippy::collapsible_if,
    reason = "what is decided when a kernel is compiled stands apart from what is decided when it runs"
)]

use burn_cubecl::cubecl::{self, prelude::*};
use half::bf16;

use super::{
    linear::PLANE,
    packed::{Eight, LOWEST, first, second},
};

/// What attention over a cache is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attended {
    pub(super) key_value: u32,
    /// Query heads that share a key head.
    pub(super) group: u32,
    pub(super) head_dim: u32,
    pub(super) tokens: u32,
    pub(super) planes: u32,
    /// Pairs of values a lane holds.
    pub(super) pairs: u32,
    /// Whether the context is one part, so that the result is final.
    pub(super) whole: bool,
}

/// What a plane has seen so far: for each query head of the group a maximum, a sum of weights relative to it, and the sums of
/// weighted values, two neighbouring dimensions a slot.
#[derive(CubeType)]
pub(super) struct Running {
    pub(super) sum_a: Array<f32>,
    pub(super) sum_b: Array<f32>,
    pub(super) maximum: Array<f32>,
    pub(super) total: Array<f32>,
}

#[cube]
impl Running {
    pub(super) fn empty(#[comptime] sizes: Attended) -> Running {
        let slots = comptime!((sizes.group * sizes.pairs) as usize);
        let mut sum_a = Array::<f32>::new(slots);
        let mut sum_b = Array::<f32>::new(slots);
        let mut maximum = Array::<f32>::new(comptime!(sizes.group as usize));
        let mut total = Array::<f32>::new(comptime!(sizes.group as usize));
        #[unroll]
        for member in 0..sizes.group {
            #[unroll]
            for turn in 0..sizes.pairs {
                sum_a[comptime!((member * sizes.pairs + turn) as usize)] = 0.0f32;
                sum_b[comptime!((member * sizes.pairs + turn) as usize)] = 0.0f32;
            }
            maximum[member as usize] = f32::new(LOWEST);
            total[member as usize] = 0.0f32;
        }
        Running { sum_a, sum_b, maximum, total }
    }
}

/// Adds the stored keys from `start` on and before `end`, a tile of 32 at a time, to what a plane has seen; its next tile
/// comes after those of the other planes. `keys` come twice, as eights for heads that divide into them.
#[cube]
pub(super) fn add_tiles(
    keys: &Array<Eight>,
    key_words: &Array<u32>,
    values: &Array<u32>,
    staged: &SharedMemory<f32>,
    running: &mut Running,
    cache: u32,
    start: u32,
    end: u32,
    root_scale: f32,
    #[comptime] sizes: Attended,
) {
    let words = comptime!(sizes.head_dim / 2);
    let units = comptime!(sizes.planes * PLANE);
    let lane = UNIT_POS_X;
    let mut scores = Array::<f32>::new(comptime!(sizes.group as usize));
    let mut tile = start;
    while tile < end {
        // 1. A score per lane and query head. Lanes past the end score the last key and are then left out.
        let key = min(tile + lane, end - 1);
        #[unroll]
        for member in 0..sizes.group {
            scores[member as usize] = 0.0f32;
        }
        if comptime!(sizes.head_dim.is_multiple_of(64)) {
            let start = ((cache + key) * comptime!(sizes.head_dim / 8)) as usize;
            for base in range_stepped(0u32, comptime!(sizes.head_dim / 8), 8u32) {
                let mut loaded = Array::<Eight>::new(8usize);
                #[unroll]
                for turn in 0..8u32 {
                    loaded[turn as usize] = keys[start + (base + turn) as usize];
                }
                #[unroll]
                for turn in 0..8u32 {
                    #[unroll]
                    for pair in 0..4u32 {
                        let both = loaded[turn as usize][pair as usize];
                        let place = (base + turn) * 8 + 2 * pair;
                        add_scores(both, place, root_scale, staged, &mut scores, sizes);
                    }
                }
            }
        } else {
            let start = (cache + key) * words;
            for word in 0..words {
                let both = key_words[(start + word) as usize];
                add_scores(both, 2 * word, root_scale, staged, &mut scores, sizes);
            }
        }
        // 2. Weights relative to the running maximum.
        #[unroll]
        for member in 0..sizes.group {
            let mut score = scores[member as usize];
            if tile + lane >= end {
                score = f32::new(LOWEST);
            }
            let before = running.maximum[member as usize];
            let now = max(before, plane_max(score));
            let shrink = f32::exp(before - now);
            let weight = f32::exp(score - now);
            running.maximum[member as usize] = now;
            running.total[member as usize] = running.total[member as usize] * shrink + plane_sum(weight);
            scores[member as usize] = weight;
            #[unroll]
            for turn in 0..sizes.pairs {
                running.sum_a[comptime!((member * sizes.pairs + turn) as usize)] *= shrink;
                running.sum_b[comptime!((member * sizes.pairs + turn) as usize)] *= shrink;
            }
        }
        // 3. Weighted values, eight keys' loads in flight. Keys past the end weigh nothing.
        let count = min(PLANE, end - tile);
        for base in range_stepped(0u32, count, VALUES_AT_ONCE) {
            let mut loaded = Array::<u32>::new(comptime!((VALUES_AT_ONCE * sizes.pairs) as usize));
            #[unroll]
            for ahead in 0..VALUES_AT_ONCE {
                let start = (cache + min(tile + base + ahead, end - 1)) * words;
                #[unroll]
                for turn in 0..sizes.pairs {
                    let word = min(lane + turn * PLANE, words - 1);
                    loaded[comptime!((ahead * sizes.pairs + turn) as usize)] = values[(start + word) as usize];
                }
            }
            #[unroll]
            for ahead in 0..VALUES_AT_ONCE {
                #[unroll]
                for member in 0..sizes.group {
                    let weight = plane_shuffle(scores[member as usize], base + ahead);
                    #[unroll]
                    for turn in 0..sizes.pairs {
                        let slot = comptime!((member * sizes.pairs + turn) as usize);
                        let both = loaded[comptime!((ahead * sizes.pairs + turn) as usize)];
                        running.sum_a[slot] = running.sum_a[slot] + weight * first(both);
                        running.sum_b[slot] = running.sum_b[slot] + weight * second(both);
                    }
                }
            }
        }
        tile += units;
    }
}

/// Joins what the planes of a cube have seen; the result goes to `out` where the context is one part, else maximum and sum to
/// `statistics` and the weighted sums to `partial`.
#[cube]
pub(super) fn join_planes(
    running: &Running,
    out: &mut Array<bf16>,
    partial: &mut Array<f32>,
    statistics: &mut Array<f32>,
    part: u32,
    parts: u32,
    key_head: u32,
    row: u32,
    #[comptime] sizes: Attended,
) {
    let words = comptime!(sizes.head_dim / 2);
    let lane = UNIT_POS_X;
    let plane = UNIT_POS_Y;
    // The planes' results, joined member by member.
    let mut maxima = SharedMemory::<f32>::new(comptime!(sizes.planes as usize));
    let mut totals = SharedMemory::<f32>::new(comptime!(sizes.planes as usize));
    let mut sums = SharedMemory::<f32>::new(comptime!((sizes.planes * sizes.head_dim) as usize));
    #[unroll]
    for member in 0..sizes.group {
        sync_cube();
        if lane == 0 {
            maxima[plane as usize] = running.maximum[member as usize];
            totals[plane as usize] = running.total[member as usize];
        }
        #[unroll]
        for turn in 0..sizes.pairs {
            let slot = comptime!((member * sizes.pairs + turn) as usize);
            let word = lane + turn * PLANE;
            if word < words {
                sums[(plane * sizes.head_dim + 2 * word) as usize] = running.sum_a[slot];
                sums[(plane * sizes.head_dim + 2 * word + 1) as usize] = running.sum_b[slot];
            }
        }
        sync_cube();
        let mut highest = f32::new(LOWEST);
        #[unroll]
        for other in 0..sizes.planes {
            highest = max(highest, maxima[other as usize]);
        }
        let mut all = 0.0f32;
        #[unroll]
        for other in 0..sizes.planes {
            all += totals[other as usize] * f32::exp(maxima[other as usize] - highest);
        }
        let head = key_head * sizes.group + member;
        let place = ((row * sizes.key_value + key_head) * parts + part) * sizes.group + member;
        let target = (row * comptime!(sizes.key_value * sizes.group) + head) * sizes.head_dim;
        for index in range_stepped(plane * PLANE + lane, sizes.head_dim, comptime!(sizes.planes * PLANE)) {
            let mut sum = 0.0f32;
            #[unroll]
            for other in 0..sizes.planes {
                let share = f32::exp(maxima[other as usize] - highest);
                sum += sums[(other * sizes.head_dim + index) as usize] * share;
            }
            if comptime!(sizes.whole) {
                out[(target + index) as usize] = bf16::cast_from(sum / all);
            } else {
                partial[(place * sizes.head_dim + index) as usize] = sum;
            }
        }
        if comptime!(!sizes.whole) {
            if plane * PLANE + lane == 0 {
                statistics[(2 * place) as usize] = highest;
                statistics[(2 * place + 1) as usize] = all;
            }
        }
    }
}

/// Keys whose values are loaded at once.
const VALUES_AT_ONCE: u32 = 8;

/// Adds what two neighbouring dimensions of a key give to the scores of all query heads.
#[cube]
fn add_scores(
    both: u32,
    place: u32,
    root_scale: f32,
    staged: &SharedMemory<f32>,
    scores: &mut Array<f32>,
    #[comptime] sizes: Attended,
) {
    let a = first(both) * root_scale;
    let b = second(both) * root_scale;
    #[unroll]
    for member in 0..sizes.group {
        let query = (member * sizes.head_dim + place) as usize;
        scores[member as usize] = scores[member as usize] + a * staged[query] + b * staged[query + 1];
    }
}

//! Attention of a few new positions over a static cache, and what is done to queries, keys and values before.

#![allow(
    clippy::collapsible_if,
    reason = "what is decided when a kernel is compiled stands apart from what is decided when it runs"
)]

use burn_cubecl::cubecl::{self, prelude::*};
use half::bf16;

use super::{
    linear::PLANE,
    packed::{Eight, first, rounded, second},
};

/// What [`store_heads`] does to each head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Heads {
    pub(super) query: u32,
    pub(super) key_value: u32,
    pub(super) head_dim: u32,
    /// New positions of each sequence.
    pub(super) tokens: u32,
    /// Whether queries and keys are normalised and rotated.
    pub(super) prepared: bool,
}

/// Takes queries, keys and values apart, normalises and rotates the first two where asked, and writes keys and values
/// into the cache. One plane works on one head of one position; a lane holds a value and the one half a head further.
///
/// `projected_…` `[batch, tokens, heads·head_dim]`, caches `[batch, key_value, capacity, head_dim]`, `queries`
/// `[batch, tokens, query, head_dim]`, tables `[tokens, head_dim]`.
#[cube(launch)]
#[allow(unused_assignments, reason = "a variable of a kernel needs a first value")]
pub(super) fn store_heads(
    projected_query: &Array<bf16>,
    projected_key: &Array<bf16>,
    projected_value: &Array<bf16>,
    query_norm: &Array<bf16>,
    key_norm: &Array<bf16>,
    cosines: &Array<bf16>,
    sines: &Array<bf16>,
    queries: &mut Array<bf16>,
    keys: &mut Array<bf16>,
    values: &mut Array<bf16>,
    eps: f32,
    position: u32,
    capacity: u32,
    places: u32,
    #[comptime] heads: Heads,
) {
    let place = CUBE_POS_X * CUBE_DIM_Y + UNIT_POS_Y;
    if place < places {
        let per_position = comptime!(heads.query + 2 * heads.key_value);
        let half = comptime!(heads.head_dim / 2);
        let row = place / per_position;
        let head = place % per_position;
        let token = row % comptime!(heads.tokens);
        let batch = row / comptime!(heads.tokens);
        let is_query = head < comptime!(heads.query);
        let is_value = head >= comptime!(heads.query + heads.key_value);
        let mut source = ((row * heads.query + head) * heads.head_dim) as usize;
        if is_value {
            let head = head - comptime!(heads.query + heads.key_value);
            source = ((row * heads.key_value + head) * heads.head_dim) as usize;
        } else if !is_query {
            source = ((row * heads.key_value + head - heads.query) * heads.head_dim) as usize;
        }

        let mut scale = 1.0f32;
        if comptime!(heads.prepared) {
            let mut squares = 0.0f32;
            for index in range_stepped(UNIT_POS_X, half, PLANE) {
                let low = source + index as usize;
                let high = source + (index + half) as usize;
                let mut a = 0.0f32;
                let mut b = 0.0f32;
                if is_query {
                    a = f32::cast_from(projected_query[low]);
                    b = f32::cast_from(projected_query[high]);
                } else if !is_value {
                    a = f32::cast_from(projected_key[low]);
                    b = f32::cast_from(projected_key[high]);
                }
                squares += a * a;
                squares += b * b;
            }
            let mean = plane_sum(squares) / f32::cast_from(heads.head_dim);
            scale = 1.0f32 / f32::sqrt(mean + eps);
        }
        for index in range_stepped(UNIT_POS_X, half, PLANE) {
            let low = index as usize;
            let high = (index + half) as usize;
            let mut a = 0.0f32;
            let mut b = 0.0f32;
            if is_query {
                a = f32::cast_from(projected_query[source + low]);
                b = f32::cast_from(projected_query[source + high]);
            } else if is_value {
                a = f32::cast_from(projected_value[source + low]);
                b = f32::cast_from(projected_value[source + high]);
            } else {
                a = f32::cast_from(projected_key[source + low]);
                b = f32::cast_from(projected_key[source + high]);
            }
            if comptime!(heads.prepared) {
                if !is_value {
                    let table = (token * heads.head_dim) as usize;
                    let mut both = TwoValues::new(0.0f32);
                    if is_query {
                        both = prepared(a, b, scale, query_norm, cosines, sines, table, low, high);
                    } else {
                        both = prepared(a, b, scale, key_norm, cosines, sines, table, low, high);
                    }
                    a = both[0];
                    b = both[1];
                }
            }
            if is_query {
                let target = ((row * heads.query + head) * heads.head_dim) as usize;
                queries[target + low] = bf16::cast_from(a);
                queries[target + high] = bf16::cast_from(b);
            } else if is_value {
                let head = head - comptime!(heads.query + heads.key_value);
                let slot = ((batch * heads.key_value + head) * capacity + position + token) as usize;
                values[slot * heads.head_dim as usize + low] = bf16::cast_from(a);
                values[slot * heads.head_dim as usize + high] = bf16::cast_from(b);
            } else {
                let head = head - heads.query;
                let slot = ((batch * heads.key_value + head) * capacity + position + token) as usize;
                keys[slot * heads.head_dim as usize + low] = bf16::cast_from(a);
                keys[slot * heads.head_dim as usize + high] = bf16::cast_from(b);
            }
        }
    }
}

/// Two values of a head, half a head apart.
type TwoValues = Vector<f32, Const<2>>;

/// Two values, normalised by `scale`, weighted and rotated; every op rounds.
#[cube]
fn prepared(
    a: f32,
    b: f32,
    scale: f32,
    norm: &Array<bf16>,
    cosines: &Array<bf16>,
    sines: &Array<bf16>,
    table: usize,
    low: usize,
    high: usize,
) -> TwoValues {
    let a = rounded(rounded(a * scale) * f32::cast_from(norm[low]));
    let b = rounded(rounded(b * scale) * f32::cast_from(norm[high]));
    let straight_a = rounded(a * f32::cast_from(cosines[table + low]));
    let straight_b = rounded(b * f32::cast_from(cosines[table + high]));
    let turned_a = rounded(-b * f32::cast_from(sines[table + low]));
    let turned_b = rounded(a * f32::cast_from(sines[table + high]));
    let mut both = TwoValues::new(rounded(straight_a + turned_a));
    both[1] = rounded(straight_b + turned_b);
    both
}

/// What [`attend`] is compiled for.
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

/// One part of the context for one key head of one position: planes take tiles of 32 keys in turn, each with a running
/// maximum, sum and weighted value sum in f32; they are joined at the end. In a tile a lane scores one key against all
/// query heads of the group, then all lanes add up the values, each lane its own dimensions.
///
/// `queries` `[batch, tokens, key_value·group, head_dim]`; `keys` twice, as eights for heads that divide into them; the
/// result goes to `out` in the queries' shape where `whole`, else maximum and sum to `statistics` `[places, group, 2]` and
/// the weighted sums to `partial` `[places, group, head_dim]`, where a place is a position, a key head and a part.
#[cube(launch)]
pub(super) fn attend(
    queries: &Array<u32>,
    keys: &Array<Eight>,
    key_words: &Array<u32>,
    values: &Array<u32>,
    out: &mut Array<bf16>,
    partial: &mut Array<f32>,
    statistics: &mut Array<f32>,
    root_scale: f32,
    position: u32,
    capacity: u32,
    part_len: u32,
    parts: u32,
    #[comptime] sizes: Attended,
) {
    let words = comptime!(sizes.head_dim / 2);
    let part = CUBE_POS_X;
    let key_head = CUBE_POS_Y;
    let row = CUBE_POS_Z;
    let token = row % comptime!(sizes.tokens);
    let batch = row / comptime!(sizes.tokens);
    let visible = position + token + 1;
    let lane = UNIT_POS_X;
    let plane = UNIT_POS_Y;

    // The queries of the group, scaled, for all lanes.
    let mut staged = SharedMemory::<f32>::new(comptime!((sizes.group * sizes.head_dim) as usize));
    let first_word = (row * sizes.key_value + key_head) * comptime!(sizes.group * words);
    let units = comptime!(sizes.planes * PLANE);
    for word in range_stepped(plane * PLANE + lane, comptime!(sizes.group * words), units) {
        let pair = queries[(first_word + word) as usize];
        staged[(2 * word) as usize] = first(pair) * root_scale;
        staged[(2 * word + 1) as usize] = second(pair) * root_scale;
    }
    sync_cube();

    let mut running = Running::empty(sizes);
    let end = min((part + 1) * part_len, visible);
    let cache = (batch * sizes.key_value + key_head) * capacity;
    let start = part * part_len + plane * PLANE;
    add_tiles(keys, key_words, values, &staged, &mut running, cache, start, end, root_scale, sizes);
    join_planes(&running, out, partial, statistics, part, parts, key_head, row, sizes);
}

/// What a plane has seen so far: for each query head of the group a maximum, a sum of weights relative to it, and the sums of
/// weighted values, two neighbouring dimensions a slot.
#[derive(CubeType)]
struct Running {
    sum_a: Array<f32>,
    sum_b: Array<f32>,
    maximum: Array<f32>,
    total: Array<f32>,
}

#[cube]
impl Running {
    fn empty(#[comptime] sizes: Attended) -> Running {
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
fn add_tiles(
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
fn join_planes(
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

/// What [`attend_newest`] does before it attends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Newest {
    pub(super) sizes: Attended,
    /// Whether queries and keys are normalised and rotated.
    pub(super) prepared: bool,
}

/// As [`attend`], for one new position of each sequence, whose queries, keys and values come as they were projected: they are
/// prepared as [`store_heads`] prepares them, and the cube whose part holds the new position writes its key and value into the
/// cache. Nobody reads them from there: that cube's first plane begins with them.
///
/// `projected_…` `[batch, heads·head_dim]`, tables `[head_dim]`; `stored_…` are `keys` and `values` again, to be written.
#[cube(launch)]
pub(super) fn attend_newest(
    projected_query: &Array<bf16>,
    projected_key: &Array<bf16>,
    projected_value: &Array<bf16>,
    query_norm: &Array<bf16>,
    key_norm: &Array<bf16>,
    cosines: &Array<bf16>,
    sines: &Array<bf16>,
    keys: &Array<Eight>,
    key_words: &Array<u32>,
    values: &Array<u32>,
    stored_keys: &mut Array<bf16>,
    stored_values: &mut Array<bf16>,
    out: &mut Array<bf16>,
    partial: &mut Array<f32>,
    statistics: &mut Array<f32>,
    eps: f32,
    root_scale: f32,
    position: u32,
    capacity: u32,
    part_len: u32,
    parts: u32,
    #[comptime] newest: Newest,
) {
    let sizes = comptime!(newest.sizes);
    let head_dim = comptime!(sizes.head_dim);
    let part = CUBE_POS_X;
    let key_head = CUBE_POS_Y;
    let row = CUBE_POS_Z;
    let lane = UNIT_POS_X;
    let plane = UNIT_POS_Y;
    let cache = (row * sizes.key_value + key_head) * capacity;
    let owns = position / part_len == part;

    // 1. The queries of the group, one a plane; the new key and value, as bf16 holds them.
    let mut staged = SharedMemory::<f32>::new(comptime!((sizes.group * head_dim) as usize));
    let mut new_key = SharedMemory::<f32>::new(comptime!(head_dim as usize));
    let mut new_value = SharedMemory::<f32>::new(comptime!(head_dim as usize));
    let mut member = plane;
    while member < comptime!(sizes.group) {
        let head = (row * sizes.key_value + key_head) * sizes.group + member;
        let source = (head * head_dim) as usize;
        let target = (member * head_dim) as usize;
        stage_head(projected_query, query_norm, cosines, sines, &mut staged, source, target, eps, newest);
        member += comptime!(sizes.planes);
    }
    let source = ((row * sizes.key_value + key_head) * head_dim) as usize;
    if owns {
        let slot = ((cache + position) * head_dim) as usize;
        if plane == comptime!(sizes.planes - 1) {
            stage_head(projected_key, key_norm, cosines, sines, &mut new_key, source, 0usize, eps, newest);
        }
        if plane == 0 {
            for index in range_stepped(lane, head_dim, PLANE) {
                let value = projected_value[source + index as usize];
                new_value[index as usize] = f32::cast_from(value);
                stored_values[slot + index as usize] = value;
            }
        }
        sync_cube();
        for index in range_stepped(plane * PLANE + lane, head_dim, comptime!(sizes.planes * PLANE)) {
            stored_keys[slot + index as usize] = bf16::cast_from(new_key[index as usize]);
        }
    }
    sync_cube();
    for index in range_stepped(plane * PLANE + lane, comptime!(sizes.group * head_dim), comptime!(sizes.planes * PLANE))
    {
        staged[index as usize] = staged[index as usize] * root_scale;
    }
    sync_cube();

    // 2. The new position first, where this part holds it.
    let mut running = Running::empty(sizes);
    if owns && plane == 0 {
        #[unroll]
        for member in 0..sizes.group {
            let mut score = 0.0f32;
            for index in range_stepped(lane, head_dim, PLANE) {
                let query = staged[(member * head_dim + index) as usize];
                score += query * (new_key[index as usize] * root_scale);
            }
            running.maximum[member as usize] = plane_sum(score);
            running.total[member as usize] = 1.0f32;
            #[unroll]
            for turn in 0..sizes.pairs {
                let word = min(lane + turn * PLANE, comptime!(head_dim / 2 - 1));
                let slot = comptime!((member * sizes.pairs + turn) as usize);
                running.sum_a[slot] = new_value[(2 * word) as usize];
                running.sum_b[slot] = new_value[(2 * word + 1) as usize];
            }
        }
    }

    // 3. Those before it.
    let end = min((part + 1) * part_len, position);
    let start = part * part_len + plane * PLANE;
    add_tiles(keys, key_words, values, &staged, &mut running, cache, start, end, root_scale, sizes);
    join_planes(&running, out, partial, statistics, part, parts, key_head, row, sizes);
}

/// Writes a projected head to shared memory, normalised and rotated where asked; one plane works on it.
#[cube]
fn stage_head(
    projected: &Array<bf16>,
    norm: &Array<bf16>,
    cosines: &Array<bf16>,
    sines: &Array<bf16>,
    staged: &mut SharedMemory<f32>,
    source: usize,
    target: usize,
    eps: f32,
    #[comptime] newest: Newest,
) {
    let head_dim = comptime!(newest.sizes.head_dim);
    let half = comptime!(head_dim / 2);
    let mut scale = 1.0f32;
    if comptime!(newest.prepared) {
        let mut squares = 0.0f32;
        for index in range_stepped(UNIT_POS_X, half, PLANE) {
            let a = f32::cast_from(projected[source + index as usize]);
            let b = f32::cast_from(projected[source + (index + half) as usize]);
            squares += a * a;
            squares += b * b;
        }
        let mean = plane_sum(squares) / f32::cast_from(head_dim);
        scale = 1.0f32 / f32::sqrt(mean + eps);
    }
    for index in range_stepped(UNIT_POS_X, half, PLANE) {
        let low = index as usize;
        let high = (index + half) as usize;
        let mut a = f32::cast_from(projected[source + low]);
        let mut b = f32::cast_from(projected[source + high]);
        if comptime!(newest.prepared) {
            let both = prepared(a, b, scale, norm, cosines, sines, 0usize, low, high);
            a = both[0];
            b = both[1];
        }
        staged[target + low] = a;
        staged[target + high] = b;
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

/// Below any score, and finite, so that the difference of two of them is zero.
const LOWEST: f32 = -1e30;

/// Joins the parts of the context; one plane works on one head of one position.
#[cube(launch)]
pub(super) fn join_parts(
    partial: &Array<f32>,
    statistics: &Array<f32>,
    out: &mut Array<bf16>,
    parts: u32,
    places: u32,
    #[comptime] group: u32,
    #[comptime] head_dim: u32,
) {
    let place = CUBE_POS_X * CUBE_DIM_Y + UNIT_POS_Y;
    if place < places {
        // `place` counts positions and query heads; members of a group lie next to each other within a part.
        let member = place % group;
        let shared = place / group;
        let mut highest = f32::new(LOWEST);
        for part in 0..parts {
            let index = (shared * parts + part) * group + member;
            highest = max(highest, statistics[(2 * index) as usize]);
        }
        let mut all = 0.0f32;
        for part in 0..parts {
            let index = (shared * parts + part) * group + member;
            all += statistics[(2 * index + 1) as usize] * f32::exp(statistics[(2 * index) as usize] - highest);
        }
        for value in range_stepped(UNIT_POS_X, head_dim, PLANE) {
            let mut sum = 0.0f32;
            for part in 0..parts {
                let index = (shared * parts + part) * group + member;
                let share = f32::exp(statistics[(2 * index) as usize] - highest);
                sum += partial[(index * head_dim + value) as usize] * share;
            }
            out[(place * head_dim + value) as usize] = bf16::cast_from(sum / all);
        }
    }
}

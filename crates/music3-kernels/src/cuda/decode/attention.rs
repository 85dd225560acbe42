//! Attention of a few new positions over a static cache.

use burn_cubecl::cubecl::{self, prelude::*};
use half::bf16;

use super::{
    heads::prepared,
    linear::PLANE,
    packed::{Eight, first, second},
    tiles::{Attended, Running, add_tiles, join_planes},
};

/// One part of the context for one key head of one position: planes take tiles of 32 keys in turn, each with a running
/// maximum, sum and weighted value sum in f32; they are joined at the end. In a tile a lane scores one key against all
/// query heads of the group, then all lanes add up the values, each lane its own dimensions.
///
/// `queries` `[batch, tokens, key_value·group, head_dim]`; `keys` twice, as eights for heads that divide into them; the
/// result goes to `out` in the queries' shape where `whole`, else maximum and sum to `statistics` `[places, group, 2]` and
/// the weighted sums to `partial` `[places, group, head_dim]`, where a place is a position, a key head and a part.
///
/// To be launched with tensors of these shapes only: nothing is checked.
#[cube(launch_unchecked)]
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

/// What [`attend_newest`] does before it attends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Newest {
    pub(super) sizes: Attended,
    /// Whether queries and keys are normalised and rotated.
    pub(super) prepared: bool,
}

/// As [`attend`], for one new position of each sequence, whose queries, keys and values come as they were projected: they are
/// prepared as [`store_heads`](super::heads::store_heads) prepares them, and the cube whose part holds the new position writes its key and value into the
/// cache. Nobody reads them from there: that cube's first plane begins with them.
///
/// `projected_…` `[batch, heads·head_dim]`, tables `[head_dim]`; `stored_…` are `keys` and `values` again, to be written.
///
/// To be launched with tensors of these shapes only: nothing is checked.
#[cube(launch_unchecked)]
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

/// Parts that a context may have: a lane holds the shares of two.
pub(super) const MAX_PARTS: u32 = 2 * PLANE;

/// Parts whose values are loaded at once.
const PARTS_AT_ONCE: u32 = 8;

/// Joins the parts of the context; one plane works on as many values of one head of one position as it has lanes.
///
/// To be launched with buffers of these shapes only: nothing is checked.
#[cube(launch_unchecked)]
pub(super) fn join_parts(
    partial: &Array<f32>,
    statistics: &Array<f32>,
    out: &mut Array<bf16>,
    parts: u32,
    places: u32,
    #[comptime] group: u32,
    #[comptime] head_dim: u32,
) {
    let planes = comptime!(head_dim.div_ceil(PLANE));
    let task = CUBE_POS_X * CUBE_DIM_Y + UNIT_POS_Y;
    let place = task / planes;
    if place < places {
        // `place` counts positions and query heads; members of a group lie next to each other within a part.
        let first = place / group * parts * group + place % group;
        // 1. What each part weighs: a lane looks at two.
        let mut maxima = Array::<f32>::new(2usize);
        let mut totals = Array::<f32>::new(2usize);
        #[unroll]
        for turn in 0..2u32 {
            let part = UNIT_POS_X + turn * PLANE;
            let index = first + min(part, parts - 1) * group;
            maxima[turn as usize] = statistics[(2 * index) as usize];
            totals[turn as usize] = statistics[(2 * index + 1) as usize];
            if part >= parts {
                totals[turn as usize] = 0.0f32;
            }
        }
        let highest = plane_max(max(maxima[0], maxima[1]));
        let (share_a, share_b) = (f32::exp(maxima[0] - highest), f32::exp(maxima[1] - highest));
        let all = plane_sum(totals[0] * share_a + totals[1] * share_b);
        // 2. The weighted values.
        let value = task % planes * PLANE + UNIT_POS_X;
        let column = min(value, comptime!(head_dim - 1));
        let mut sum = 0.0f32;
        for base in range_stepped(0u32, parts, PARTS_AT_ONCE) {
            let mut loaded = Array::<f32>::new(comptime!(PARTS_AT_ONCE as usize));
            #[unroll]
            for ahead in 0..PARTS_AT_ONCE {
                let index = first + min(base + ahead, parts - 1) * group;
                loaded[ahead as usize] = partial[(index * head_dim + column) as usize];
            }
            let mut share = share_a;
            if base >= PLANE {
                share = share_b;
            }
            #[unroll]
            for ahead in 0..PARTS_AT_ONCE {
                let share = plane_shuffle(share, (base + ahead) % PLANE);
                if base + ahead < parts {
                    sum += loaded[ahead as usize] * share;
                }
            }
        }
        if value < head_dim {
            out[(place * head_dim + value) as usize] = bf16::cast_from(sum / all);
        }
    }
}

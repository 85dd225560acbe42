//! What is done to queries, keys and values between their projection and attention.

#![allow(
    clippy::collapsible_if,
    reason = "what is decided when a kernel is compiled stands apart from what is decided when it runs"
)]

use burn_cubecl::cubecl::{self, prelude::*};
use half::bf16;

use super::{linear::PLANE, packed::rounded};

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
pub(super) type TwoValues = Vector<f32, Const<2>>;

/// Two values, normalised by `scale`, weighted and rotated; every op rounds.
#[cube]
pub(super) fn prepared(
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

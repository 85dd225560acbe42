//! A draw from guided logits, as upstream draws: guidance, candidate filter, top-k with ties, softmax, and the largest
//! quotient of a probability and an exponential number.

use burn_cubecl::cubecl::{self, prelude::*};
use half::bf16;

use super::linear::PLANE;

/// Units of the one cube.
pub(super) const UNITS: u32 = 1024;

/// What a draw is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Drawing {
    /// Candidates a unit looks at.
    pub(super) per_unit: u32,
    /// Whether only the conditional row's best may be drawn.
    pub(super) filters: bool,
}

/// Draws one candidate. `logits` holds the conditional and the unconditional row, `columns` values each; candidate 0 is
/// column 0, and `skipped` columns after it belong to nobody.
///
/// `outcome` has four times `slots` values: winners, how many logits were not finite, and, twice each, the winners' rows in
/// the table that starts at `base` with candidate `origin`. This winner's row goes to `winner_rows` too.
#[cube(launch)]
pub(super) fn draw(
    logits: &Array<bf16>,
    exponentials: &Array<f32>,
    outcome: &mut Array<i32>,
    winner_rows: &mut Array<i32>,
    columns: u32,
    skipped: u32,
    candidates: u32,
    top_k: u32,
    first_exponential: u32,
    slot: u32,
    slots: u32,
    base: u32,
    origin: u32,
    #[comptime] drawing: Drawing,
) {
    let planes = comptime!(UNITS / PLANE);
    let mut counts = SharedMemory::<u32>::new(comptime!(planes as usize));
    let mut floats = SharedMemory::<f32>::new(comptime!(planes as usize));
    let mut sums = SharedMemory::<f64>::new(comptime!(planes as usize));
    let mut guided = Array::<f32>::new(comptime!(drawing.per_unit as usize));
    let mut keys = Array::<u32>::new(comptime!(drawing.per_unit as usize));

    // 1. Guided logits; keys order the conditional row where it filters.
    let mut broken = 0u32;
    #[unroll]
    for turn in 0..drawing.per_unit {
        let index = UNIT_POS + turn * UNITS;
        guided[turn as usize] = f32::new(EXCLUDED);
        keys[turn as usize] = 0u32;
        if index < candidates {
            let mut column = index;
            if index > 0 {
                column = index + skipped;
            }
            let conditional = f32::cast_from(logits[column as usize]);
            let unconditional = f32::cast_from(logits[(columns + column) as usize]);
            if !is_finite(conditional) || !is_finite(unconditional) {
                broken += 1u32;
            }
            // One and a half times, in one rounding whether or not the compiler joins the sum with the product.
            let apart = conditional - unconditional;
            guided[turn as usize] = unconditional + (apart + 0.5f32 * apart);
            keys[turn as usize] = ordered(conditional);
        }
    }
    let broken = cube_count(broken, &mut counts);
    if comptime!(drawing.filters) {
        let threshold = kth_largest(&keys, top_k, candidates, &mut counts, drawing.per_unit);
        #[unroll]
        for turn in 0..drawing.per_unit {
            if keys[turn as usize] < threshold {
                guided[turn as usize] = f32::new(EXCLUDED);
            }
        }
    }

    // 2. The best guided ones, ties with the last included.
    let mut best = f32::new(EXCLUDED);
    #[unroll]
    for turn in 0..drawing.per_unit {
        let index = UNIT_POS + turn * UNITS;
        keys[turn as usize] = 0u32;
        if index < candidates {
            keys[turn as usize] = ordered(guided[turn as usize]);
        }
        best = max(best, guided[turn as usize]);
    }
    let best = cube_max(best, &mut floats);
    let threshold = kth_largest(&keys, top_k, candidates, &mut counts, drawing.per_unit);

    // 3. Softmax, divided twice, as upstream does.
    let mut sum = f64::cast_from(0.0f32);
    #[unroll]
    for turn in 0..drawing.per_unit {
        let mut share = 0.0f32;
        if keys[turn as usize] >= threshold {
            share = f32::cast_from(f64::exp(f64::cast_from(guided[turn as usize] - best)));
        }
        guided[turn as usize] = share;
        sum += f64::cast_from(share);
    }
    let total = at_least_tiny(cube_sum_f64(sum, &mut sums));
    let mut sum = f64::cast_from(0.0f32);
    #[unroll]
    for turn in 0..drawing.per_unit {
        let share = guided[turn as usize] / total;
        guided[turn as usize] = share;
        sum += f64::cast_from(share);
    }
    let total = at_least_tiny(cube_sum_f64(sum, &mut sums));

    // 4. The first of the largest quotients.
    let mut largest = 0.0f32;
    let mut winner = candidates;
    #[unroll]
    for turn in 0..drawing.per_unit {
        let index = UNIT_POS + turn * UNITS;
        let share = guided[turn as usize] / total;
        if share > 0.0f32 {
            let quotient = share / exponentials[(first_exponential + index) as usize];
            if quotient > largest {
                largest = quotient;
                winner = index;
            }
        }
    }
    let highest = cube_max(largest, &mut floats);
    if largest < highest {
        winner = candidates;
    }
    let winner = cube_min(winner, &mut counts);

    if UNIT_POS == 0 {
        let mut row = base;
        if winner >= origin && winner < candidates {
            row = base + winner - origin;
        }
        outcome[slot as usize] = i32::cast_from(winner);
        outcome[(slots + slot) as usize] = i32::cast_from(broken);
        outcome[(2 * slots + 2 * slot) as usize] = i32::cast_from(row);
        outcome[(2 * slots + 2 * slot + 1) as usize] = i32::cast_from(row);
        winner_rows[0] = i32::cast_from(row);
        winner_rows[1] = i32::cast_from(row);
    }
}

/// What upstream puts in the place of minus infinity.
const EXCLUDED: f32 = -1e9;

/// Keeps a sum from dividing by zero.
#[cube]
fn at_least_tiny(sum: f64) -> f32 {
    max(f32::cast_from(sum), 1e-12f32)
}

#[cube]
fn is_finite(value: f32) -> bool {
    (u32::reinterpret(value) & 0x7F80_0000u32) != 0x7F80_0000u32
}

/// Integers in the order of the values; both zeros are equal.
#[cube]
fn ordered(value: f32) -> u32 {
    let bits = u32::reinterpret(select(value == 0.0f32, 0.0f32, value));
    let mut key = bits | 0x8000_0000u32;
    if (bits & 0x8000_0000u32) != 0u32 {
        key = !bits;
    }
    key
}

/// The `k`-th largest key of all units, found bit by bit from the top.
#[cube]
fn kth_largest(
    keys: &Array<u32>,
    k: u32,
    candidates: u32,
    counts: &mut SharedMemory<u32>,
    #[comptime] per_unit: u32,
) -> u32 {
    let wanted = min(k, candidates);
    if comptime!(per_unit == 1) {
        kth_of_one_plane(keys[0], wanted)
    } else {
        kth_of_all_planes(keys, wanted, counts, per_unit)
    }
}

/// With one key a unit, the first plane searches alone: it holds them all, and nobody waits for anybody in between.
#[cube]
fn kth_of_one_plane(key: u32, wanted: u32) -> u32 {
    let held = comptime!(UNITS / PLANE);
    let mut keys = SharedMemory::<u32>::new(comptime!(UNITS as usize));
    let mut found = SharedMemory::<u32>::new(1usize);
    sync_cube();
    keys[UNIT_POS as usize] = key;
    sync_cube();
    if PLANE_POS == 0 {
        let mut mine = Array::<u32>::new(comptime!(held as usize));
        #[unroll]
        for turn in 0..held {
            mine[turn as usize] = keys[(UNIT_POS_PLANE + turn * PLANE) as usize];
        }
        let mut threshold = 0u32;
        for step in 0..32u32 {
            let trial = threshold | (0x8000_0000u32 >> step);
            let mut count = 0u32;
            #[unroll]
            for turn in 0..held {
                count += u32::cast_from(mine[turn as usize] >= trial);
            }
            if plane_sum(count) >= wanted {
                threshold = trial;
            }
        }
        if UNIT_POS_PLANE == 0 {
            found[0] = threshold;
        }
    }
    sync_cube();
    found[0]
}

#[cube]
fn kth_of_all_planes(keys: &Array<u32>, wanted: u32, counts: &mut SharedMemory<u32>, #[comptime] per_unit: u32) -> u32 {
    let mut threshold = 0u32;
    for step in 0..32u32 {
        let trial = threshold | (0x8000_0000u32 >> step);
        let mut count = 0u32;
        #[unroll]
        for turn in 0..per_unit {
            if keys[turn as usize] >= trial {
                count += 1u32;
            }
        }
        if cube_count(count, counts) >= wanted {
            threshold = trial;
        }
    }
    threshold
}

#[cube]
fn cube_count(value: u32, scratch: &mut SharedMemory<u32>) -> u32 {
    let sum = plane_sum(value);
    sync_cube();
    if UNIT_POS_PLANE == 0 {
        scratch[PLANE_POS as usize] = sum;
    }
    sync_cube();
    plane_sum(scratch[UNIT_POS_PLANE as usize])
}

#[cube]
fn cube_min(value: u32, scratch: &mut SharedMemory<u32>) -> u32 {
    let least = plane_min(value);
    sync_cube();
    if UNIT_POS_PLANE == 0 {
        scratch[PLANE_POS as usize] = least;
    }
    sync_cube();
    plane_min(scratch[UNIT_POS_PLANE as usize])
}

#[cube]
fn cube_max(value: f32, scratch: &mut SharedMemory<f32>) -> f32 {
    let most = plane_max(value);
    sync_cube();
    if UNIT_POS_PLANE == 0 {
        scratch[PLANE_POS as usize] = most;
    }
    sync_cube();
    plane_max(scratch[UNIT_POS_PLANE as usize])
}

#[cube]
fn cube_sum_f64(value: f64, scratch: &mut SharedMemory<f64>) -> f64 {
    let sum = plane_sum(value);
    sync_cube();
    if UNIT_POS_PLANE == 0 {
        scratch[PLANE_POS as usize] = sum;
    }
    sync_cube();
    plane_sum(scratch[UNIT_POS_PLANE as usize])
}

//! Products of a few rows with large bf16 weights, which are read once, at the memory's speed.
//!
//! One plane computes one output of every row: a lane loads eight neighbouring weights at a time, keeps one f32 sum a row,
//! and the lanes' sums are added at the end. The order of a row's sum does not depend on how many rows there are.

use burn_cubecl::cubecl::{self, prelude::*};
use half::bf16;

use super::packed::{Eight, cube_sum, first, pair, rounded, second};

/// Lanes of a plane.
pub(super) const PLANE: u32 = 32;

/// A stretch of a row of weights, and of the rows that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stretch {
    /// Rows of the input.
    pub(super) rows: u32,
    /// Eights of a whole row.
    pub(super) eights: u32,
    /// Eights of the stretch.
    pub(super) len: u32,
    /// Loads of a lane that are in flight at once.
    pub(super) unroll: u32,
}

impl Stretch {
    /// Returns how many eights the loads of all lanes take at once.
    fn step(self) -> u32 {
        PLANE * self.unroll
    }

    /// Returns how many eights are taken in whole steps.
    fn whole(self) -> u32 {
        self.len / self.step() * self.step()
    }
}

/// Loads a lane's eights of a step, which begins at `start`.
#[cube]
fn load(weight: &Slice<Eight>, start: usize, loaded: &mut Array<Eight>, #[comptime] unroll: u32) {
    #[unroll]
    for turn in 0..unroll {
        loaded[turn as usize] = weight[start + (turn * PLANE + UNIT_POS_PLANE) as usize];
    }
}

/// Adds the products of what was loaded of a step with every row of `x` from `x_start` on to `sums`, lane by lane.
#[cube]
fn add_loaded(
    loaded: &Array<Eight>,
    x: &Slice<Eight>,
    x_start: u32,
    sums: &mut Array<f32>,
    #[comptime] stretch: Stretch,
) {
    #[unroll]
    for turn in 0..stretch.unroll {
        let index = (x_start + turn * PLANE + UNIT_POS_PLANE) as usize;
        add_eight(loaded[turn as usize], x, index, sums, comptime!(stretch.rows), comptime!(stretch.eights));
    }
}

/// Adds the products of a stretch of weights, which begins at `start`, with every row of `x` from `x_start` on to `sums`, lane by
/// lane.
#[cube]
fn add_products(
    weight: &Slice<Eight>,
    start: usize,
    x: &Slice<Eight>,
    x_start: u32,
    sums: &mut Array<f32>,
    #[comptime] stretch: Stretch,
) {
    let (rows, eights, len) = comptime!((stretch.rows, stretch.eights, stretch.len));
    let (step, whole) = comptime!((stretch.step(), stretch.whole()));
    let mut loaded = Array::<Eight>::new(comptime!(stretch.unroll as usize));
    for base in range_stepped(0u32, whole, step) {
        load(weight, start + base as usize, &mut loaded, comptime!(stretch.unroll));
        add_loaded(&loaded, x, x_start + base, sums, stretch);
    }
    let mut index = whole + UNIT_POS_PLANE;
    while index < len {
        add_eight(weight[start + index as usize], x, (x_start + index) as usize, sums, rows, eights);
        index += PLANE;
    }
}

#[cube]
fn add_eight(
    weights: Eight,
    x: &Slice<Eight>,
    index: usize,
    sums: &mut Array<f32>,
    #[comptime] rows: u32,
    #[comptime] eights: u32,
) {
    #[unroll]
    for row in 0..rows {
        let values = x[(row * eights) as usize + index];
        let mut sum = sums[row as usize];
        #[unroll]
        for part in 0..4u32 {
            sum += first(weights[part as usize]) * first(values[part as usize]);
            sum += second(weights[part as usize]) * second(values[part as usize]);
        }
        sums[row as usize] = sum;
    }
}

#[cube]
fn zeros(#[comptime] rows: u32) -> Array<f32> {
    let mut sums = Array::<f32>::new(comptime!(rows as usize));
    #[unroll]
    for row in 0..rows {
        sums[row as usize] = 0.0f32;
    }
    sums
}

/// Writes every row of `x`, normalised by its root mean square and scaled by `norm`, to `staged`: both results are
/// rounded, as torch rounds them.
#[cube]
fn stage_normalised(
    x: &Array<Eight>,
    norm: &Array<Eight>,
    eps: f32,
    staged: &mut SharedMemory<Eight>,
    scratch: &mut SharedMemory<f32>,
    #[comptime] rows: u32,
    #[comptime] eights: u32,
    #[comptime] planes: u32,
) {
    let units = comptime!(planes * PLANE);
    #[unroll]
    for row in 0..rows {
        let start = (row * eights) as usize;
        let scale = root_mean_square(x, start, eps, scratch, eights, planes);
        for index in range_stepped(UNIT_POS, eights, units) {
            staged[start + index as usize] = normalised_eight(x[start + index as usize], norm[index as usize], scale);
        }
    }
    sync_cube();
}

/// RMSNorm of many rows, one a cube.
///
/// To be launched with contiguous tensors of these shapes only: nothing is checked.
#[cube(launch_unchecked)]
pub(super) fn normalise(
    x: &Array<Eight>,
    norm: &Array<Eight>,
    out: &mut Array<Eight>,
    eps: f32,
    #[comptime] eights: u32,
    #[comptime] planes: u32,
) {
    let mut scratch = SharedMemory::<f32>::new(comptime!(planes as usize));
    let start = (CUBE_POS_X * eights) as usize;
    let scale = root_mean_square(x, start, eps, &mut scratch, eights, planes);
    for index in range_stepped(UNIT_POS, eights, comptime!(planes * PLANE)) {
        out[start + index as usize] = normalised_eight(x[start + index as usize], norm[index as usize], scale);
    }
}

/// One over the root of a row's mean square.
#[cube]
fn root_mean_square(
    x: &Array<Eight>,
    start: usize,
    eps: f32,
    scratch: &mut SharedMemory<f32>,
    #[comptime] eights: u32,
    #[comptime] planes: u32,
) -> f32 {
    let mut squares = 0.0f32;
    for index in range_stepped(UNIT_POS, eights, comptime!(planes * PLANE)) {
        let values = x[start + index as usize];
        #[unroll]
        for part in 0..4u32 {
            let a = first(values[part as usize]);
            let b = second(values[part as usize]);
            squares += a * a;
            squares += b * b;
        }
    }
    let mean = cube_sum(squares, scratch, planes) / f32::cast_from(eights * 8);
    1.0f32 / f32::sqrt(mean + eps)
}

/// Eight values, scaled and rounded, then weighted and rounded.
#[cube]
fn normalised_eight(values: Eight, weights: Eight, scale: f32) -> Eight {
    let mut result = Eight::empty();
    #[unroll]
    for part in 0..4u32 {
        let a = rounded(first(values[part as usize]) * scale);
        let b = rounded(second(values[part as usize]) * scale);
        let a = rounded(a * first(weights[part as usize]));
        let b = rounded(b * second(weights[part as usize]));
        result[part as usize] = pair(a, b);
    }
    result
}

/// Three matrices one below the other, and how many rows each has.
#[derive(CubeType)]
struct Stacked {
    a: Slice<Eight>,
    b: Slice<Eight>,
    c: Slice<Eight>,
    rows_a: u32,
    rows_b: u32,
}

#[cube]
impl Stacked {
    /// Loads a lane's eights of a step of row `row`, which begins at `start` within it.
    fn load(&self, row: u32, start: u32, loaded: &mut Array<Eight>, #[comptime] eights: u32, #[comptime] unroll: u32) {
        let below_a = row - self.rows_a;
        if row < self.rows_a {
            load(&self.a, (row * eights + start) as usize, loaded, unroll);
        } else if below_a < self.rows_b {
            load(&self.b, (below_a * eights + start) as usize, loaded, unroll);
        } else {
            load(&self.c, ((below_a - self.rows_b) * eights + start) as usize, loaded, unroll);
        }
    }
}

/// RMSNorm, then three products with the same rows, each into an output of its own. The first weights of an output are loaded
/// before the rows are normalised, or before the sums of the output before it are added up.
///
/// To be launched with contiguous tensors of these shapes only: nothing is checked.
#[cube(launch_unchecked)]
pub(super) fn normed_linears(
    x: &Array<Eight>,
    norm: &Array<Eight>,
    weight_a: &Array<Eight>,
    weight_b: &Array<Eight>,
    weight_c: &Array<Eight>,
    out_a: &mut Array<bf16>,
    out_b: &mut Array<bf16>,
    out_c: &mut Array<bf16>,
    eps: f32,
    outputs_a: u32,
    outputs_b: u32,
    outputs_c: u32,
    #[comptime] stretch: Stretch,
    #[comptime] planes: u32,
) {
    let (rows, eights) = comptime!((stretch.rows, stretch.eights));
    let (step, whole) = comptime!((stretch.step(), stretch.whole()));
    let weights = Stacked {
        a: weight_a.to_slice(),
        b: weight_b.to_slice(),
        c: weight_c.to_slice(),
        rows_a: outputs_a,
        rows_b: outputs_b,
    };
    let outputs = outputs_a + outputs_b + outputs_c;
    let mut output = CUBE_POS_X * planes + PLANE_POS;
    let mut loaded = Array::<Eight>::new(comptime!(stretch.unroll as usize));
    let mut single = Array::<Eight>::new(1usize);
    if comptime!(whole > 0) {
        weights.load(min(output, outputs - 1), 0u32, &mut loaded, eights, comptime!(stretch.unroll));
    }
    let mut staged = SharedMemory::<Eight>::new(comptime!((rows * eights) as usize));
    let mut scratch = SharedMemory::<f32>::new(comptime!(planes as usize));
    stage_normalised(x, norm, eps, &mut staged, &mut scratch, rows, eights, planes);
    let values = staged.to_slice();
    while output < outputs {
        let mut sums = zeros(rows);
        if comptime!(whole > 0) {
            add_loaded(&loaded, &values, 0u32, &mut sums, stretch);
        }
        for base in range_stepped(step, whole, step) {
            weights.load(output, base, &mut loaded, eights, comptime!(stretch.unroll));
            add_loaded(&loaded, &values, base, &mut sums, stretch);
        }
        // What is left of a row is less than a step.
        for start in range_stepped(whole, eights, PLANE) {
            if start + UNIT_POS_PLANE < eights {
                weights.load(output, start, &mut single, eights, 1u32);
                let index = (start + UNIT_POS_PLANE) as usize;
                add_eight(single[0], &values, index, &mut sums, rows, eights);
            }
        }
        let next = output + CUBE_COUNT_X * planes;
        if comptime!(whole > 0) && next < outputs {
            weights.load(next, 0u32, &mut loaded, eights, comptime!(stretch.unroll));
        }
        if output < outputs_a {
            write_sums(&sums, out_a, output, outputs_a, rows);
        } else if output < outputs_a + outputs_b {
            write_sums(&sums, out_b, output - outputs_a, outputs_b, rows);
        } else {
            write_sums(&sums, out_c, output - outputs_a - outputs_b, outputs_c, rows);
        }
        output = next;
    }
}

/// Adds the lanes' sums and writes them, rounded, to column `output` of `[rows, outputs]`.
#[cube]
fn write_sums(sums: &Array<f32>, out: &mut Array<bf16>, output: u32, outputs: u32, #[comptime] rows: u32) {
    #[unroll]
    for row in 0..rows {
        let sum = plane_sum(sums[row as usize]);
        if UNIT_POS_PLANE == 0 {
            out[(row * outputs + output) as usize] = bf16::cast_from(sum);
        }
    }
}

/// RMSNorm, then `silu(gate) · up`: the products, `silu` and the last product each round.
///
/// To be launched with contiguous tensors of these shapes only: nothing is checked.
#[cube(launch_unchecked)]
pub(super) fn normed_gated(
    x: &Array<Eight>,
    norm: &Array<Eight>,
    gate: &Array<Eight>,
    up: &Array<Eight>,
    out: &mut Array<bf16>,
    eps: f32,
    outputs: u32,
    #[comptime] stretch: Stretch,
    #[comptime] planes: u32,
) {
    let (rows, eights) = comptime!((stretch.rows, stretch.eights));
    let (step, whole, unroll) = comptime!((stretch.step(), stretch.whole(), stretch.unroll));
    let mut staged = SharedMemory::<Eight>::new(comptime!((rows * eights) as usize));
    let mut scratch = SharedMemory::<f32>::new(comptime!(planes as usize));
    stage_normalised(x, norm, eps, &mut staged, &mut scratch, rows, eights, planes);
    let (gate, up, values) = (gate.to_slice(), up.to_slice(), staged.to_slice());
    let mut output = CUBE_POS_X * planes + PLANE_POS;
    while output < outputs {
        let mut gates = zeros(rows);
        let mut ups = zeros(rows);
        // Side by side, so that both rows' loads are in flight together.
        let start = (output * eights) as usize;
        for base in range_stepped(0u32, whole, step) {
            let mut gate_loaded = Array::<Eight>::new(comptime!(unroll as usize));
            let mut up_loaded = Array::<Eight>::new(comptime!(unroll as usize));
            load(&gate, start + base as usize, &mut gate_loaded, unroll);
            load(&up, start + base as usize, &mut up_loaded, unroll);
            #[unroll]
            for turn in 0..unroll {
                let index = (base + turn * PLANE + UNIT_POS_PLANE) as usize;
                add_eight(gate_loaded[turn as usize], &values, index, &mut gates, rows, eights);
                add_eight(up_loaded[turn as usize], &values, index, &mut ups, rows, eights);
            }
        }
        let mut index = whole + UNIT_POS_PLANE;
        while index < eights {
            add_eight(gate[start + index as usize], &values, index as usize, &mut gates, rows, eights);
            add_eight(up[start + index as usize], &values, index as usize, &mut ups, rows, eights);
            index += PLANE;
        }
        #[unroll]
        for row in 0..rows {
            let gate = rounded(plane_sum(gates[row as usize]));
            let up = rounded(plane_sum(ups[row as usize]));
            if UNIT_POS_PLANE == 0 {
                let silu = rounded(gate / (f32::exp(-gate) + 1.0f32));
                out[(row * outputs + output) as usize] = bf16::cast_from(silu * up);
            }
        }
        output += CUBE_COUNT_X * planes;
    }
}

/// What is added to a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Adds {
    Nothing,
    /// So many rows, again and again.
    Rows(u32),
}

impl Adds {
    /// Returns how many rows are added.
    fn rows(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Rows(rows) => rows,
        }
    }
}

/// A product, rounded, to which `residual` is added, rounded again, where there is one. So many planes as a row has stretches
/// share an output; their sums are added in order.
///
/// To be launched with contiguous tensors of these shapes only: nothing is checked.
#[cube(launch_unchecked)]
pub(super) fn linear_added(
    x: &Array<Eight>,
    weight: &Array<Eight>,
    residual: &Array<bf16>,
    out: &mut Array<bf16>,
    outputs: u32,
    #[comptime] adds: Adds,
    #[comptime] stretch: Stretch,
    #[comptime] planes: u32,
) {
    let stretches = comptime!(stretch.eights / stretch.len);
    let rows = comptime!(stretch.rows);
    let mut shared = SharedMemory::<f32>::new(comptime!((planes * rows) as usize));
    let plane = CUBE_POS_X * planes + PLANE_POS;
    // Planes past the last output compute it again and write nothing.
    let output = min(plane / stretches, outputs - 1);
    let piece = plane % stretches;
    let x_start = piece * stretch.len;
    let mut sums = zeros(rows);
    let start = (output * stretch.eights + x_start) as usize;
    add_products(&weight.to_slice(), start, &x.to_slice(), x_start, &mut sums, stretch);
    #[unroll]
    for row in 0..rows {
        let sum = plane_sum(sums[row as usize]);
        if UNIT_POS_PLANE == 0 {
            shared[(PLANE_POS * rows + row) as usize] = sum;
        }
    }
    sync_cube();
    if piece == 0 && plane / stretches < outputs && UNIT_POS_PLANE < rows {
        let row = UNIT_POS_PLANE;
        let mut sum = shared[(PLANE_POS * rows + row) as usize];
        #[unroll]
        for other in 1..stretches {
            sum += shared[((PLANE_POS + other) * rows + row) as usize];
        }
        let place = (row * outputs + output) as usize;
        let repeated = comptime!(adds.rows());
        if comptime!(repeated > 0) {
            let from = (row % repeated * outputs + output) as usize;
            out[place] = bf16::cast_from(rounded(sum) + f32::cast_from(residual[from]));
        } else {
            out[place] = bf16::cast_from(sum);
        }
    }
}

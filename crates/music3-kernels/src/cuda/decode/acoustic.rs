//! The transformer's ops between its products: LayerNorm, the gate, heads in and out of their own layout. In f32 and bf16
//! alike; where torch rounds, the value goes through the storage type.

use burn_cubecl::cubecl::{self, prelude::*};

use super::packed::cube_sum;

/// LayerNorm over rows of `channels`, one row a cube; the result rounds once.
#[cube(launch)]
pub(super) fn layer_norm<F: Float>(
    x: &Array<F>,
    weight: &Array<F>,
    bias: &Array<F>,
    out: &mut Array<F>,
    eps: f32,
    channels: u32,
    #[comptime] planes: u32,
    #[define(F)] _dtype: StorageType,
) {
    let mut scratch = SharedMemory::<f32>::new(comptime!(planes as usize));
    let start = CUBE_POS_X as usize * channels as usize;
    let count = f32::cast_from(channels);
    let mut sum = 0.0f32;
    for index in range_stepped(UNIT_POS, channels, CUBE_DIM) {
        sum += f32::cast_from(x[start + index as usize]);
    }
    let mean = cube_sum(sum, &mut scratch, planes) / count;
    let mut squares = 0.0f32;
    for index in range_stepped(UNIT_POS, channels, CUBE_DIM) {
        let centred = f32::cast_from(x[start + index as usize]) - mean;
        squares += centred * centred;
    }
    let scale = 1.0f32 / f32::sqrt(cube_sum(squares, &mut scratch, planes) / count + eps);
    for index in range_stepped(UNIT_POS, channels, CUBE_DIM) {
        let normalised = (f32::cast_from(x[start + index as usize]) - mean) * scale;
        let weighted = normalised * f32::cast_from(weight[index as usize]);
        out[start + index as usize] = F::cast_from(weighted + f32::cast_from(bias[index as usize]));
    }
}

/// `value · silu(gate)` of rows that hold the value half first and the gate half second; `silu` rounds before the product.
#[cube(launch)]
pub(super) fn gate_halves<F: Float>(
    halves: &Array<F>,
    out: &mut Array<F>,
    half: u32,
    count: u32,
    #[define(F)] _dtype: StorageType,
) {
    let index = CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X;
    if index < count {
        let row = index / half;
        let place = (index + row * half) as usize;
        let value = f32::cast_from(halves[place]);
        let gate = f32::cast_from(halves[place + half as usize]);
        let silu = f32::cast_from(F::cast_from(gate / (f32::exp(-gate) + 1.0f32)));
        out[index as usize] = F::cast_from(value * silu);
    }
}

/// `[batch, tokens, heads·head_dim]` to `[batch, heads, tokens, head_dim]`, the first `rotary_dim` values of each head
/// rotated, half against half; both products and the sum round. With `rotary_dim` zero nothing is rotated.
#[cube(launch)]
#[allow(unused_assignments, reason = "a variable of a kernel needs a first value")]
pub(super) fn split_heads<F: Float>(
    x: &Array<F>,
    cosines: &Array<F>,
    sines: &Array<F>,
    out: &mut Array<F>,
    tokens: u32,
    heads: u32,
    count: u32,
    #[comptime] head_dim: u32,
    #[comptime] rotary_dim: u32,
    #[define(F)] _dtype: StorageType,
) {
    let index = CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X;
    if index < count {
        let place = index % head_dim;
        let token = index / head_dim % tokens;
        let head = index / (head_dim * tokens) % heads;
        let batch = index / (head_dim * tokens * heads);
        let start = ((batch * tokens + token) * heads + head) * head_dim;
        let mut result = x[(start + place) as usize];
        if comptime!(rotary_dim > 0) {
            let half = comptime!(rotary_dim / 2);
            if place < comptime!(rotary_dim) {
                let mut other = 0.0f32;
                if place < half {
                    other = -f32::cast_from(x[(start + place + half) as usize]);
                } else {
                    other = f32::cast_from(x[(start + place - half) as usize]);
                }
                let table = (token * rotary_dim + place) as usize;
                let straight = F::cast_from(f32::cast_from(result) * f32::cast_from(cosines[table]));
                let turned = F::cast_from(other * f32::cast_from(sines[table]));
                result = F::cast_from(f32::cast_from(straight) + f32::cast_from(turned));
            }
        }
        out[index as usize] = result;
    }
}

/// Snake: `x + sin²(alpha · x) / (alpha + eps)`, one alpha per channel; every op rounds.
#[cube(launch)]
pub(super) fn snake<F: Float>(
    x: &Array<F>,
    alpha: &Array<F>,
    out: &mut Array<F>,
    eps: f32,
    channels: u32,
    len: u32,
    count: u32,
    #[define(F)] _dtype: StorageType,
) {
    let index = CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X;
    if index < count {
        let value = f32::cast_from(x[index as usize]);
        let alpha = f32::cast_from(alpha[(index / len % channels) as usize]);
        let raised = f32::cast_from(F::cast_from(alpha + eps));
        let inverse = f32::cast_from(F::cast_from(1.0f32 / raised));
        let turned = f32::cast_from(F::cast_from(alpha * value));
        let sine = f32::cast_from(F::cast_from(f32::sin(turned)));
        let wave = f32::cast_from(F::cast_from(sine * sine));
        let bent = f32::cast_from(F::cast_from(inverse * wave));
        out[index as usize] = F::cast_from(value + bent);
    }
}

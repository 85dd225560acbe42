//! Torch's three ways to draw from the normal distribution on a CPU. All are Box and Muller's: a radius from one uniform
//! number, an angle from another.
//!
//! # Upstream
//! torch 2.11, `aten/src/ATen/native/cpu/DistributionTemplates.h` (`normal_fill`) and
//! `aten/src/ATen/core/DistributionsHelper.h` (`normal_distribution`).

use std::f64::consts::TAU;

use half::bf16;

use super::cephes;
use super::mt19937::Mt19937;

/// Numbers that one block makes out of as many draws: radii from the first half, angles from the second.
pub(super) const BLOCK: usize = 16;
const HALF: usize = BLOCK / 2;

/// Draws a block of f32 numbers.
pub(super) fn block_f32(engine: &mut Mt19937) -> [f32; BLOCK] {
    block(engine, |radius_bits, angle_bits| {
        let uniform = |bits: u32| (bits & 0x00ff_ffff) as f32 * 2.0_f32.powi(-24);
        let radius = (-2.0 * cephes::ln(1.0 - uniform(radius_bits))).sqrt();
        let (sin, cos) = cephes::sin_cos(std::f32::consts::TAU * uniform(angle_bits));
        (radius * cos, radius * sin)
    })
}

/// Draws a block of bf16 numbers: eight random bits each, and a rounding after every step.
pub(super) fn block_bf16(engine: &mut Mt19937) -> [f32; BLOCK] {
    block(engine, |radius_bits, angle_bits| {
        let uniform = |bits: u32| f64::from(bits & 0xff) / 256.0;
        let ln = to_bf16((1.0 - uniform(radius_bits)).ln());
        let radius = to_bf16((-2.0 * f64::from(ln)).sqrt());
        let angle = f64::from(to_bf16(TAU * uniform(angle_bits)));
        let times_radius = |x: f64| to_bf16(f64::from(radius) * f64::from(to_bf16(x)));
        (times_radius(angle.cos()), times_radius(angle.sin()))
    })
}

fn block(engine: &mut Mt19937, pair: impl Fn(u32, u32) -> (f32, f32)) -> [f32; BLOCK] {
    let bits: [u32; BLOCK] = std::array::from_fn(|_| engine.draw());
    let mut values = [0.0; BLOCK];
    for index in 0..HALF {
        let (first, second) = pair(bits[index], bits[index + HALF]);
        // Adding the mean turns a negative zero into a positive one.
        values[index] = first + 0.0;
        values[index + HALF] = second + 0.0;
    }
    values
}

/// Draws two numbers in f64, for the short draws of both formats.
pub(super) fn pair_f64(engine: &mut Mt19937) -> (f64, f64) {
    let angle = TAU * uniform_f64(engine);
    let radius = (-2.0 * (-uniform_f64(engine)).ln_1p()).sqrt();
    (radius * angle.cos() + 0.0, radius * angle.sin() + 0.0)
}

/// Draws 53 random bits as a number of [0, 1).
pub(super) fn uniform_f64(engine: &mut Mt19937) -> f64 {
    (engine.draw_wide() & ((1 << 53) - 1)) as f64 * 2.0_f64.powi(-53)
}

/// Rounds to f32 and then to bf16, as torch's conversion does.
pub(super) fn to_bf16(x: f64) -> f32 {
    bf16::from_f32(x as f32).to_f32()
}

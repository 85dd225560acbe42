//! Logarithm, sine and cosine of 32-bit floats as torch's vectorised normal draw computes them.
//!
//! These are S. Moshier's Cephes approximations, evaluated as torch's AVX2 code does: in f32, with the products that its
//! compiler fuses into the sum that follows fused here too. `mul_add` rounds once on every machine, so every machine
//! gets torch's bits. They are off by a few units in the last place now and then: a library's better logarithm would
//! give other noise.

/// Returns the natural logarithm of a normal positive number.
pub(super) fn ln(x: f32) -> f32 {
    const COEFFICIENTS: [f32; 8] = [
        -1.151_461e-1,
        1.167_699_84e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_8e-1,
        2.000_071_4e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ];
    // ln 2 in two parts, of which the first has few digits.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;

    // x = 2^exponent * mantissa, with the mantissa in [√½, √2).
    let bits = x.to_bits();
    let half = f32::from_bits((bits & 0x007f_ffff) | 0x3f00_0000);
    let mut exponent = (bits >> 23) as f32 - 126.0;
    let mut m = half - 1.0;
    if half < std::f32::consts::FRAC_1_SQRT_2 {
        exponent -= 1.0;
        m += half;
    }
    let square = m * m;
    let poly = COEFFICIENTS.into_iter().fold(7.037_683_6e-2_f32, |poly, c| poly.mul_add(m, c));
    let tail = (poly * m).mul_add(square, exponent * LN_2_LOW);
    let tail = (-square).mul_add(0.5, tail);
    exponent.mul_add(LN_2_HIGH, m + tail)
}

/// Returns the sine and the cosine of an angle from 0 up to a few turns.
pub(super) fn sin_cos(angle: f32) -> (f32, f32) {
    // π/4 in three parts, of which the first two have few digits.
    const QUARTER_PI: [f32; 3] = [0.785_156_25, 2.418_756_5e-4, 3.774_895e-8];

    // The nearest even number of eighths of a turn is taken off.
    let octant = ((angle * std::f32::consts::FRAC_2_PI * 2.0) as u32 + 1) & !1;
    let x = QUARTER_PI.into_iter().fold(angle, |x, part| (-(octant as f32)).mul_add(part, x));
    let square = x * x;
    let cos = 2.443_315_7e-5_f32.mul_add(square, -1.388_731_6e-3).mul_add(square, 4.166_664_6e-2);
    let cos = (cos * square).mul_add(square, -(square * 0.5)) + 1.0;
    let sin = (-1.951_529_6e-4_f32).mul_add(square, 8.332_161e-3).mul_add(square, -1.666_665_5e-1);
    let sin = (sin * square).mul_add(x, x);
    match octant & 6 {
        0 => (sin, cos),
        2 => (cos, -sin),
        4 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

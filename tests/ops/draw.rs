//! The inputs of `goldens/generate/ops.py`, drawn again: each from its name, to the bit.

use half::bf16;
use music3_nn::Width;

/// Returns 64-bit words without end: SplitMix64, seeded by the FNV-1a hash of `name`.
pub(crate) fn words(name: &str) -> impl Iterator<Item = u64> {
    let hash = |seed: u64, byte: u8| (seed ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// A nearly normal distribution: the sum of a word's four 16-bit parts, deviation 1.155 times `scale`.
#[derive(Clone, Copy)]
pub(crate) struct Normal {
    pub(crate) scale: f32,
    pub(crate) mean: f32,
}

impl Normal {
    /// A distribution around zero.
    pub(crate) fn scaled(scale: f32) -> Self {
        Self { scale, mean: 0.0 }
    }

    /// A distribution around zero whose products with `inner` values keep their size.
    pub(crate) fn for_products(inner: usize) -> Self {
        Self::scaled((inner as f64).powf(-0.5) as f32)
    }

    /// Returns `count` values.
    pub(crate) fn values(self, name: &str, count: usize) -> Vec<f32> {
        let value = |word: u64| {
            let parts: i32 = [0, 16, 32, 48].iter().map(|shift| ((word >> shift) & 0xffff) as i32).sum();
            (parts - 131_070) as f32 * 2.0f32.powi(-15) * self.scale + self.mean
        };
        words(name).take(count).map(value).collect()
    }
}

/// Returns `count` integers under `high`.
pub(crate) fn integers(name: &str, count: usize, high: u64) -> Vec<usize> {
    words(name).take(count).map(|word| (word % high) as usize).collect()
}

/// Returns `count` values of any bit pattern of the width's dtype.
pub(crate) fn any_bits(name: &str, count: usize, width: Width) -> Vec<f32> {
    let mask = match width {
        Width::F32 => 0xffff_ffff,
        Width::Bf16 => 0xffff_0000,
    };
    words(name).take(count).map(|word| f32::from_bits((word >> 32) as u32 & mask)).collect()
}

/// Returns every bf16 value in the order of its bits.
pub(crate) fn every_bf16() -> Vec<f32> {
    (0..=u16::MAX).map(|bits| bf16::from_bits(bits).to_f32()).collect()
}

/// Returns zeros, subnormals, the ends of the range, neighbours of one, powers of two, infinities and NaN, of both
/// signs.
pub(crate) fn edges(width: Width) -> Vec<f32> {
    let unused = match width {
        Width::F32 => 0,
        Width::Bf16 => 16,
    };
    let [one, smallest, largest, infinity] =
        [0x3f80_0000u32, 0x0080_0000, 0x7f7f_ffff, 0x7f80_0000].map(|b| b >> unused);
    let mut magnitudes =
        vec![0, 1, 2, smallest / 2, smallest - 1, smallest, smallest + 1, one - 1, one, one + 1, one + 2];
    let powers = [-126i32, -64, -8, -1, 1, 7, 8, 24, 63, 127];
    magnitudes.extend(powers.map(|power| ((127 + power) as u32) << 23 >> unused));
    magnitudes.extend([one + 5, one + smallest / 2, largest - 1, largest, infinity]);
    let negative = magnitudes.iter().map(|bits| bits | 0x8000_0000 >> unused);
    let nan = infinity + smallest / 2;
    let all: Vec<u32> = magnitudes.iter().copied().chain(negative).chain([nan]).collect();
    all.into_iter().map(|bits| f32::from_bits(bits << unused)).collect()
}

/// Returns f32 values to round to bf16: at every exponent and sign, around ties of both parities; every low half below
/// one upper half; values of any bits.
pub(crate) fn to_round() -> Vec<f32> {
    let mut tops: Vec<u32> = (0..128).step_by(9).chain([1, 2, 3, 62, 63, 64, 65, 125, 126, 127]).collect();
    tops.sort_unstable();
    tops.dedup();
    const LOWS: [u32; 16] = [
        0, 1, 2, 0x7ff0, 0x7ff8, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0x8002, 0x8007, 0x8008, 0x8010, 0xc000, 0xfffe, 0xffff,
    ];
    let mut grid = Vec::new();
    for exponent in 0..256u32 {
        for top in &tops {
            grid.extend(LOWS.map(|low| exponent << 23 | top << 16 | low));
        }
    }
    let negative = grid.iter().map(|bits| bits | 0x8000_0000);
    let every_low = 0x3f81_0000..=0x3f81_ffff;
    let drawn = words("rounding").take(200_000).map(|word| (word >> 32) as u32);
    grid.iter().copied().chain(negative).chain(every_low).chain(drawn).map(f32::from_bits).collect()
}

//! Sums of products in registers: what every large product here comes down to.
//!
//! `sums[output][t] += Σₖ weights[output][k] · tile[offsets[k] + t]`. A block of outputs by a few vectors of positions is held
//! in registers while `k` runs; each step loads the vectors once for all outputs, and each weight once for all vectors.

use pulp::{Simd, WithSimd};

/// Values of the inner dimension that are summed in registers before they are added to the sums: 256 terms after one
/// another keep the error of a sum small, and what they read fits into the first caches.
pub(super) const INNER: usize = 256;

/// A multiple of every vector's length: positions are computed in whole vectors.
pub(super) const LANES: usize = 16;

/// Vectors of positions in registers.
const VECTORS: usize = 3;

/// Outputs and positions to add products to.
pub(super) struct Products<'a> {
    /// One row for each output, `stride` apart.
    pub(super) weights: &'a [f32],
    pub(super) stride: usize,
    /// `LANES − 1` values longer than what is asked for.
    pub(super) tile: &'a [f32],
    /// Where in the tile the values begin that the weights of each `k` are multiplied with.
    pub(super) offsets: &'a [usize],
    /// `[outputs, width]`
    pub(super) sums: &'a mut [f32],
    /// A multiple of [`LANES`].
    pub(super) width: usize,
    /// Positions that are wanted; up to the next multiple of [`LANES`] may be written.
    pub(super) positions: usize,
}

impl Products<'_> {
    /// Adds the products.
    pub(super) fn add(self) {
        pulp::Arch::new().dispatch(self);
    }
}

impl WithSimd for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // As many sums as there are registers, but for the vectors and one weight.
        if S::REGISTER_COUNT >= 32 { blocks::<S, 8>(simd, self) } else { blocks::<S, 4>(simd, self) }
    }
}

#[inline(always)]
fn blocks<S: Simd, const OUTPUTS: usize>(simd: S, products: Products<'_>) {
    let Products { weights, stride, width, offsets, .. } = products;
    let row = |output: usize| &weights[output * stride..][..offsets.len()];
    let place = Place { tile: products.tile, offsets, width, positions: products.positions };
    for (block, sums) in products.sums.chunks_mut(OUTPUTS * width).enumerate() {
        let first = block * OUTPUTS;
        if sums.len() == OUTPUTS * width {
            place.add::<S, OUTPUTS>(simd, std::array::from_fn(|output| row(first + output)), sums);
            continue;
        }
        for (output, sums) in sums.chunks_exact_mut(width).enumerate() {
            place.add::<S, 1>(simd, [row(first + output)], sums);
        }
    }
}

/// What the blocks of outputs have in common.
struct Place<'a> {
    tile: &'a [f32],
    offsets: &'a [usize],
    width: usize,
    positions: usize,
}

impl Place<'_> {
    #[inline(always)]
    fn add<S: Simd, const OUTPUTS: usize>(&self, simd: S, weights: [&[f32]; OUTPUTS], sums: &mut [f32]) {
        let mut start = 0;
        while start < self.positions {
            let vectors = (self.positions - start).div_ceil(S::F32_LANES).min(VECTORS);
            match vectors {
                1 => self.add_vectors::<S, OUTPUTS, 1>(simd, weights, sums, start),
                2 => self.add_vectors::<S, OUTPUTS, 2>(simd, weights, sums, start),
                _ => self.add_vectors::<S, OUTPUTS, VECTORS>(simd, weights, sums, start),
            }
            start += vectors * S::F32_LANES;
        }
    }

    #[inline(always)]
    fn add_vectors<S: Simd, const OUTPUTS: usize, const VECTORS: usize>(
        &self,
        simd: S,
        weights: [&[f32]; OUTPUTS],
        sums: &mut [f32],
        start: usize,
    ) {
        let len = VECTORS * S::F32_LANES;
        let tile = &self.tile[start..];
        let count = self.offsets.len();
        let weights = weights.map(|row| &row[..count]);
        // Loops over constants are unrolled, so that sums stay in registers.
        let mut registers = [[simd.splat_f32s(0.0); VECTORS]; OUTPUTS];
        for k in 0..count {
            let (vectors, _) = S::as_simd_f32s(&tile[self.offsets[k]..][..len]);
            let vectors: [S::f32s; VECTORS] = std::array::from_fn(|vector| vectors[vector]);
            for output in 0..OUTPUTS {
                let weight = simd.splat_f32s(weights[output][k]);
                for vector in 0..VECTORS {
                    registers[output][vector] = simd.mul_add_e_f32s(weight, vectors[vector], registers[output][vector]);
                }
            }
        }
        for (sums, registers) in sums.chunks_mut(self.width).zip(registers) {
            let (sums, _) = S::as_mut_simd_f32s(&mut sums[start..][..len]);
            for (sum, register) in sums.iter_mut().zip(registers) {
                *sum = simd.add_f32s(*sum, register);
            }
        }
    }
}

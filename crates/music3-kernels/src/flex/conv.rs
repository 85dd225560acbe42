//! Convolutions over tiles of positions: nothing is unfolded, and a tap reads the same tile some values further on.

use rayon::prelude::*;

use super::{
    products::{INNER, LANES, Products},
    transposed::transposed,
    value::Value,
};

/// Positions, or columns of a transposed convolution's product, that are computed at once.
const TILE: usize = 192;

/// Tasks for each thread, so that all end at about the same time.
const TASKS_PER_THREAD: usize = 4;

/// Most outputs one task computes.
const MAX_OUTPUTS: usize = 96;

/// Outputs are computed in blocks of so many.
const OUTPUTS_AT_ONCE: usize = 8;

/// A convolution's input and weights.
pub(super) struct Kernel<'a, T> {
    /// `[batch, inner, len]`
    pub(super) x: &'a [T],
    /// `[outputs, inner, taps]`, or `[inner, outputs, taps]` of a transposed convolution.
    pub(super) weight: &'a [T],
    /// `[outputs]`
    pub(super) bias: Option<&'a [T]>,
}

/// A convolution's sizes.
#[derive(Clone, Copy)]
pub(super) struct Geometry {
    pub(super) batch: usize,
    pub(super) inner: usize,
    pub(super) outputs: usize,
    pub(super) len: usize,
    pub(super) taps: usize,
    /// Distance between taps, or of a transposed convolution the stride.
    pub(super) spacing: usize,
    /// Zeros in front, or of a transposed convolution the outputs cut from each end.
    pub(super) padding: usize,
}

impl Geometry {
    /// Length after a transposed convolution.
    pub(super) fn upsampled(&self) -> usize {
        (self.len - 1) * self.spacing + self.taps - 2 * self.padding
    }

    /// Outputs one task computes.
    fn outputs_per_task(&self) -> usize {
        let tasks = TASKS_PER_THREAD * rayon::current_num_threads();
        let share = (self.batch * self.outputs).div_ceil(tasks).next_multiple_of(OUTPUTS_AT_ONCE);
        share.min(MAX_OUTPUTS)
    }
}

/// Returns a convolution that keeps the length, plus a residual where there is one; the convolution and the sum round.
pub(super) fn conv1d<T: Value>(kernel: &Kernel<'_, T>, residual: Option<&[T]>, geometry: Geometry) -> Vec<T> {
    let Geometry { batch, outputs, len, .. } = geometry;
    let share = geometry.outputs_per_task();
    let mut out = vec![T::rounded(0.0); batch * outputs * len];
    let rows = out.par_chunks_mut(outputs * len).enumerate();
    let tasks = rows.flat_map(|(row, out)| out.par_chunks_mut(share * len).enumerate().map(move |task| (row, task)));
    tasks.for_each(|(row, (task, out))| {
        let first = task * share;
        let residual = residual.map(|residual| &residual[(row * outputs + first) * len..][..out.len()]);
        let mut convolution = Convolution::new(kernel, geometry, [row, first, out.len() / len]);
        for start in (0..len).step_by(TILE) {
            let count = TILE.min(len - start);
            convolution.add_tile(start, count);
            for (output, sums) in convolution.sums.chunks_exact(TILE).enumerate() {
                let bias = kernel.bias.map_or(0.0, |bias| bias[first + output].wide());
                let place = output * len + start;
                let out = &mut out[place..][..count];
                match residual {
                    Some(residual) => {
                        for ((out, sum), residual) in out.iter_mut().zip(sums).zip(&residual[place..][..count]) {
                            *out = T::rounded(residual.wide() + T::kept(sum + bias));
                        }
                    }
                    None => out.iter_mut().zip(sums).for_each(|(out, sum)| *out = T::rounded(sum + bias)),
                }
            }
        }
    });
    out
}

/// One task of a convolution: some outputs of one row of the batch, tile after tile.
struct Convolution<'a, T> {
    /// `[inner, len]`
    x: &'a [T],
    /// `[outputs of the task, inner, taps]`
    weight: &'a [T],
    geometry: Geometry,
    /// Channels that are summed over at once.
    channels: usize,
    /// Where each channel and tap of those begins in the tile.
    offsets: Vec<usize>,
    /// `[channels, tile_width]`
    tile: Vec<f32>,
    tile_width: usize,
    /// `[outputs of the task, TILE]`
    sums: Vec<f32>,
    room: Vec<f32>,
}

impl<'a, T: Value> Convolution<'a, T> {
    fn new(kernel: &Kernel<'a, T>, geometry: Geometry, [row, first, outputs]: [usize; 3]) -> Self {
        let Geometry { inner, len, taps, spacing, .. } = geometry;
        let channels = (INNER / taps).clamp(1, inner);
        let tile_width = TILE + spacing * (taps - 1);
        Self {
            x: &kernel.x[row * inner * len..][..inner * len],
            weight: &kernel.weight[first * inner * taps..][..outputs * inner * taps],
            geometry,
            channels,
            offsets: (0..channels * taps).map(|k| k / taps * tile_width + k % taps * spacing).collect(),
            tile: vec![0.0; channels * tile_width],
            tile_width,
            sums: vec![0.0; outputs * TILE],
            room: Vec::new(),
        }
    }

    /// Writes the sums of `count` positions from `start` on.
    fn add_tile(&mut self, start: usize, count: usize) {
        let Geometry { inner, taps, .. } = self.geometry;
        self.sums.fill(0.0);
        for first in (0..inner).step_by(self.channels) {
            let channels = self.channels.min(inner - first);
            self.fill(start, first..first + channels);
            let (tile, offsets) = (&self.tile[..], &self.offsets[..channels * taps]);
            let columns = first * taps..(first + channels) * taps;
            let (weights, stride) = T::wide_rows(self.weight, inner * taps, columns, &mut self.room);
            let sums = &mut self.sums[..];
            Products { weights, stride, tile, offsets, sums, width: TILE, positions: count }.add();
        }
    }

    /// Copies what the positions from `start` on read of some channels, with zeros outside.
    fn fill(&mut self, start: usize, channels: std::ops::Range<usize>) {
        let Geometry { len, padding, .. } = self.geometry;
        // Value `i` of the tile is input `start + i − padding`.
        let first = padding.saturating_sub(start);
        let end = (len + padding - start).min(self.tile_width);
        for (channel, tile) in channels.zip(self.tile.chunks_exact_mut(self.tile_width)) {
            let values = &self.x[channel * len..][start + first - padding..start + end - padding];
            tile[..first].fill(0.0);
            tile[first..end].iter_mut().zip(values).for_each(|(tile, value)| *tile = value.wide());
            tile[end..].fill(0.0);
        }
    }
}

/// Returns a transposed convolution: what each input gives to the outputs around it is one product, whose columns lie as
/// the weights do; rounded once.
pub(super) fn conv_transpose1d<T: Value>(kernel: &Kernel<'_, T>, geometry: Geometry) -> Vec<T> {
    let Geometry { batch, inner, outputs, len, taps, padding, .. } = geometry;
    let kept = geometry.upsampled();
    let share = (TILE / taps).max(1);
    let mut out = vec![T::rounded(0.0); batch * outputs * kept];
    for (row, out) in out.chunks_exact_mut(outputs * kept).enumerate() {
        let x = transposed(&kernel.x[row * inner * len..][..inner * len], [inner, len], inner);
        out.par_chunks_mut(share * kept).enumerate().for_each(|(task, out)| {
            let first = task * share;
            let upsampled = upsample(&x, kernel.weight, geometry, first..first + out.len() / kept);
            let full = upsampled.len() / (out.len() / kept);
            for (output, (out, sums)) in out.chunks_exact_mut(kept).zip(upsampled.chunks_exact(full)).enumerate() {
                let bias = kernel.bias.map_or(0.0, |bias| bias[first + output].wide());
                out.iter_mut().zip(&sums[padding..]).for_each(|(out, sum)| *out = T::rounded(sum + bias));
            }
        });
    }
    out
}

/// Returns what some outputs sum to before anything is cut: `[outputs, (len − 1)·stride + taps]`.
///
/// # Shapes
/// `x` `[len, inner]`
fn upsample<T: Value>(x: &[f32], weight: &[T], geometry: Geometry, outputs: std::ops::Range<usize>) -> Vec<f32> {
    let Geometry { inner, len, taps, spacing: stride, .. } = geometry;
    let full = (len - 1) * stride + taps;
    let columns = outputs.len() * taps;
    let width = columns.next_multiple_of(LANES);
    let offsets: Vec<usize> = (0..INNER.min(inner)).map(|k| k * width).collect();
    let mut tile = vec![0.0; offsets.len() * width];
    let mut sums = vec![0.0; TILE.min(len) * width];
    let mut upsampled = vec![0.0; outputs.len() * full];
    for start in (0..len).step_by(TILE) {
        let positions = TILE.min(len - start);
        let sums = &mut sums[..positions * width];
        sums.fill(0.0);
        for first in (0..inner).step_by(INNER) {
            let channels = INNER.min(inner - first);
            for (channel, tile) in tile.chunks_exact_mut(width).take(channels).enumerate() {
                let place = ((first + channel) * geometry.outputs + outputs.start) * taps;
                let values = &weight[place..][..columns];
                tile.iter_mut().zip(values).for_each(|(tile, value)| *tile = value.wide());
            }
            // Here a position is what an output is elsewhere: its inputs are multiplied with rows of weights.
            let (weights, offsets) = (&x[start * inner + first..], &offsets[..channels]);
            Products { weights, stride: inner, tile: &tile, offsets, sums, width, positions: columns }.add();
        }
        for (position, sums) in sums.chunks_exact(width).enumerate() {
            let place = (start + position) * stride;
            for (upsampled, sums) in upsampled.chunks_exact_mut(full).zip(sums.chunks_exact(taps)) {
                upsampled[place..place + taps].iter_mut().zip(sums).for_each(|(out, sum)| *out += sum);
            }
        }
    }
    upsampled
}

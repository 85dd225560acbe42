//! What a tensor's values are stored as.

use burn::tensor::Element;
use half::bf16;

/// f32 or bf16: computed with in f32, and rounded to be stored.
pub(super) trait Value: Element + bytemuck::Pod {
    /// Exact.
    fn wide(self) -> f32;

    /// Rounds, to nearest with ties to even.
    fn rounded(wide: f32) -> Self;

    /// Returns rows of weights in f32 and the distance between them: the columns from `start` on, `columns` of them, of
    /// rows that are `stride` apart. `room` is used where they have to be widened.
    fn wide_rows<'a>(
        weights: &'a [Self],
        stride: usize,
        columns: std::ops::Range<usize>,
        room: &'a mut Vec<f32>,
    ) -> (&'a [f32], usize);

    /// What is left of a value in f32 after it was stored.
    fn kept(wide: f32) -> f32 {
        Self::rounded(wide).wide()
    }
}

impl Value for f32 {
    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }

    #[inline(always)]
    fn rounded(wide: f32) -> Self {
        wide
    }

    fn wide_rows<'a>(
        weights: &'a [Self],
        stride: usize,
        columns: std::ops::Range<usize>,
        _: &'a mut Vec<f32>,
    ) -> (&'a [f32], usize) {
        (&weights[columns.start..], stride)
    }
}

impl Value for bf16 {
    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn rounded(wide: f32) -> Self {
        Self::from_f32(wide)
    }

    fn wide_rows<'a>(
        weights: &'a [Self],
        stride: usize,
        columns: std::ops::Range<usize>,
        room: &'a mut Vec<f32>,
    ) -> (&'a [f32], usize) {
        let width = columns.len();
        room.clear();
        for row in weights.chunks(stride) {
            room.extend(row[columns.clone()].iter().map(|value| value.wide()));
        }
        (room, width)
    }
}

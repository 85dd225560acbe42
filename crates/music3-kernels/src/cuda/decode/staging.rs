//! Keys and values that a cube reads together, copied to where its planes share them.

use burn_cubecl::cubecl::{self, prelude::*};

use super::{
    flash::{Flash, Pair},
    linear::PLANE,
    packed::{Eight, first, pair, second},
};

/// Words between the rows of staged keys and values beyond their own, so that lanes read from different banks.
const PADDING: u32 = 4;

impl Flash {
    /// Words of a staged row of keys, and of all of them.
    pub(super) fn key_words(self) -> [u32; 2] {
        let row = self.head_dim / 2 + PADDING;
        [row, row * self.keys]
    }

    /// Words of a staged row of values, one dimension, and of all of them.
    pub(super) fn value_words(self) -> [u32; 2] {
        let row = self.keys / 2 + PADDING;
        [row, row * self.head_dim]
    }
}

/// What a lane holds of a second operand: two pairs, four words apart.
#[cube]
pub(super) fn staged_pairs(staged: &SharedMemory<u32>, word: u32) -> Array<Pair> {
    let mut pairs = Array::<Pair>::new(2usize);
    pairs[0] = Pair::reinterpret(staged[word as usize]);
    pairs[1] = Pair::reinterpret(staged[(word + 4) as usize]);
    pairs
}

/// Rows of a head, the last of which is copied again past the end; what comes of it is left out.
#[derive(CubeType)]
pub(super) struct Rows {
    /// Values before the head's first row, and from one row to the next.
    pub(super) start: u32,
    pub(super) stride: u32,
    /// The first row that is copied, and the last there is.
    pub(super) first: u32,
    pub(super) last: u32,
}

#[cube]
impl Rows {
    /// The eights before column 0 of a row.
    fn eights_before(&self, row: u32) -> u32 {
        (self.start + min(self.first + row, self.last) * self.stride) / 8
    }
}

/// Copies one part of keys, a row after another.
#[cube]
pub(super) fn stage_keys(
    key: &Array<Eight>,
    staged: &mut SharedMemory<u32>,
    rows: &Rows,
    #[comptime] part: u32,
    #[comptime] flash: Flash,
) {
    let eights = comptime!(flash.head_dim / 8);
    let before = comptime!(part * flash.key_words()[1]);
    let unit = UNIT_POS_Y * PLANE + UNIT_POS_X;
    for index in range_stepped(unit, comptime!(flash.keys * eights), comptime!(flash.planes * PLANE)) {
        let row = index / eights;
        let column = index % eights;
        let loaded = key[(rows.eights_before(row) + column) as usize];
        let target = before + row * comptime!(flash.key_words()[0]) + column * 4;
        #[unroll]
        for word in 0..4u32 {
            staged[(target + word) as usize] = loaded[word as usize];
        }
    }
}

/// Copies one part of values so that a row holds one dimension of all keys: two neighbouring keys are a pair.
#[cube]
pub(super) fn stage_values(
    value: &Array<Eight>,
    staged: &mut SharedMemory<u32>,
    rows: &Rows,
    #[comptime] part: u32,
    #[comptime] flash: Flash,
) {
    let eights = comptime!(flash.head_dim / 8);
    let pairs = comptime!(flash.keys / 2);
    let row_words = comptime!(flash.value_words()[0]);
    let before = comptime!(part * flash.value_words()[1]);
    let unit = UNIT_POS_Y * PLANE + UNIT_POS_X;
    for index in range_stepped(unit, comptime!(pairs * eights), comptime!(flash.planes * PLANE)) {
        // Lanes take neighbouring pairs of keys, so that they write to different banks.
        let keys_pair = index % pairs;
        let column = index / pairs;
        let left = value[(rows.eights_before(2 * keys_pair) + column) as usize];
        let right = value[(rows.eights_before(2 * keys_pair + 1) + column) as usize];
        #[unroll]
        for word in 0..4u32 {
            let (a, b) = (left[word as usize], right[word as usize]);
            let target = before + (column * 8 + 2 * word) * row_words + keys_pair;
            staged[target as usize] = pair(first(a), first(b));
            staged[(target + row_words) as usize] = pair(second(a), second(b));
        }
    }
}

//! Keys and values that a cube reads together, copied to where its planes share them, and read from there as the tensor cores'
//! second operands.

use burn_cubecl::cubecl::{
    self,
    cmma::{MatrixIdent, MmaDefinition},
    prelude::*,
};
use half::bf16;

use super::{
    flash::{Flash, Pair},
    linear::PLANE,
};

/// Eight bf16 values, a row of one of the 8 × 8 matrices that a plane loads together.
pub(super) type Eights = Vector<bf16, Const<8>>;

/// What `mma` the tiles are for.
pub(super) type Tiles = MmaDefinition<bf16, bf16, f32>;

impl Flash {
    /// Eights from one staged row to the next: one more than a row has, so that rows start in different banks.
    pub(super) fn row_eights(self) -> u32 {
        self.head_dim / 8 + 1
    }

    /// Eights of one part of all staged rows.
    pub(super) fn part_eights(self) -> u32 {
        self.row_eights() * self.keys
    }
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

/// Copies one part of keys or of values, a row after another.
#[cube]
pub(super) fn stage(
    source: &Array<Eights>,
    staged: &mut SharedMemory<Eights>,
    rows: &Rows,
    #[comptime] part: u32,
    #[comptime] flash: Flash,
) {
    let eights = comptime!(flash.head_dim / 8);
    let all = comptime!(flash.keys * eights);
    let units = comptime!(flash.planes * PLANE);
    #[unroll]
    for turn in 0..comptime!(all.div_ceil(units)) {
        let index = UNIT_POS_Y * PLANE + UNIT_POS_X + turn * units;
        // A turn that is full needs no question.
        if comptime!((turn + 1) * units <= all) || index < all {
            let row = index / eights;
            let column = index % eights;
            let before = (rows.start + min(rows.first + row, rows.last) * rows.stride) / 8;
            let target = comptime!(part * flash.part_eights()) + row * comptime!(flash.row_eights()) + column;
            staged[target as usize] = source[(before + column) as usize];
        }
    }
}

/// The row of its matrix that a lane names in [`key_tiles`].
#[cube]
pub(super) fn place_in_keys(#[comptime] flash: Flash) -> u32 {
    let row = UNIT_POS_X % 8 + UNIT_POS_X / 16 * 8;
    row * comptime!(flash.row_eights()) + UNIT_POS_X / 8 % 2
}

/// Two tiles of eight keys, from `tile` on, for the 16 dimensions of a step: the first two registers are the first tile's.
#[cube]
pub(super) fn key_tiles(
    definition: &Tiles,
    staged: &SharedMemory<Eights>,
    place: u32,
    #[comptime] part: usize,
    #[comptime] tile: usize,
    #[comptime] step: usize,
    #[comptime] flash: Flash,
) -> Array<Pair> {
    let before = comptime!(part as u32 * flash.part_eights() + tile as u32 * 8 * flash.row_eights() + step as u32 * 2);
    two_tiles(definition, staged, place + before, false)
}

/// The row of its matrix that a lane names in [`value_tiles`].
#[cube]
pub(super) fn place_in_values(#[comptime] flash: Flash) -> u32 {
    UNIT_POS_X % 16 * comptime!(flash.row_eights()) + UNIT_POS_X / 16
}

/// Two tiles of eight dimensions, from `tile` on, of the 16 keys of a step: the first two registers are the first tile's.
#[cube]
pub(super) fn value_tiles(
    definition: &Tiles,
    staged: &SharedMemory<Eights>,
    place: u32,
    #[comptime] part: usize,
    #[comptime] tile: usize,
    #[comptime] step: usize,
    #[comptime] flash: Flash,
) -> Array<Pair> {
    let before = comptime!(part as u32 * flash.part_eights() + step as u32 * 16 * flash.row_eights() + tile as u32);
    two_tiles(definition, staged, place + before, true)
}

/// Four matrices, two registers of each of two tiles, whose rows the lanes name one by one.
#[cube]
fn two_tiles(definition: &Tiles, staged: &SharedMemory<Eights>, row: u32, #[comptime] transposed: bool) -> Array<Pair> {
    let row = row as usize;
    definition.load_matrix::<Eights, Const<2>>(&staged.slice(row, row + 1), MatrixIdent::B, 4usize, transposed)
}

/// One of two tiles that were loaded together.
#[cube]
pub(super) fn one_of_two(tiles: &Array<Pair>, #[comptime] which: usize) -> Array<Pair> {
    let mut pairs = Array::<Pair>::new(2usize);
    pairs[0] = tiles[comptime!(2 * which)];
    pairs[1] = tiles[comptime!(2 * which + 1)];
    pairs
}

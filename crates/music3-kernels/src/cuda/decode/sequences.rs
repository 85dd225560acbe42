//! Attention over whole sequences, checked and launched: heads taken apart and rotated, tiles, softmax of scores.

use burn::tensor::DType;
use burn_cubecl::{
    cubecl::{self, prelude::CubeCount},
    kernel::into_contiguous,
};
use cubecl::{cuda::CudaRuntime, prelude::CubeDim, zspace::metadata::Metadata};

use super::{
    PLANES, acoustic, array, elements, empty,
    flash::{self, Flash, QUERIES, StridesLaunch},
    halves,
    linear::PLANE,
    many_rows::{MAX_SECOND, is_wide_or_narrow},
    packed::{EIGHT, FOUR},
};
use crate::cuda::CudaTensor;

/// Heads, the first values of each rotated, as a view: `[batch, tokens, heads·head_dim]` → `[batch, heads, tokens, head_dim]`.
pub(in super::super) fn rotate_heads(x: CudaTensor, heads: usize, tables: [CudaTensor; 2]) -> Option<CudaTensor> {
    let [batch, tokens, width] = *x.meta.shape().as_slice() else { return None };
    let rows = batch * tokens;
    let rotation = Rotation::of(&x, [rows, width, heads], tables, tokens)?;
    let x = into_contiguous(x);
    let out = empty(&x, vec![batch, tokens, width], x.dtype);
    let columns = (width / FOUR) as u32;
    acoustic::rotate_heads::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_2d(columns.div_ceil(PLANES * PLANE), rows as u32),
        CubeDim::new_1d(PLANES * PLANE),
        halves(&x),
        halves(&rotation.cosines),
        halves(&rotation.sines),
        halves(&out),
        tokens as u32,
        columns,
        0.0,
        rotation.head,
        rotation.rotated,
        x.dtype.into(),
    );
    Some(headed(out, heads))
}

/// Queries, keys and values for [`attend_in_tiles`]: heads as above, in so many bf16 parts each, of rows that hold all three side
/// by side: `[batch, tokens, 3·heads·head_dim]`. Queries and keys are rotated.
pub(in super::super) fn take_heads_apart(
    x: CudaTensor,
    heads: usize,
    [cosines, sines]: [CudaTensor; 2],
    parts: usize,
) -> Option<[Vec<CudaTensor>; 3]> {
    let [batch, tokens, columns] = *x.meta.shape().as_slice() else { return None };
    let (rows, width) = (batch * tokens, columns / 3);
    let rotation = Rotation::of(&x, [rows, width, heads], [cosines, sines], tokens)?;
    if !can_attend_in_tiles(width / heads) || columns % 3 != 0 || u32::try_from(parts * rows * columns).is_err() {
        return None;
    }
    let x = into_contiguous(x);
    let whole = empty(&x, vec![parts, 3, rows, width], DType::BF16);
    acoustic::take_heads_apart::launch::<CudaRuntime>(
        &whole.client,
        CubeCount::new_2d(((columns / FOUR) as u32).div_ceil(PLANES * PLANE), rows as u32),
        CubeDim::new_1d(PLANES * PLANE),
        halves(&x),
        halves(&rotation.cosines),
        halves(&rotation.sines),
        halves(&whole),
        tokens as u32,
        rows as u32,
        (width / FOUR) as u32,
        0.0,
        rotation.head,
        rotation.rotated,
        parts as u32,
        x.dtype.into(),
    );
    let bytes = (rows * width * DType::BF16.size()) as u64;
    let part = |index: usize| {
        let (before, behind) = (index as u64, (3 * parts - 1 - index) as u64);
        let handle = whole.handle.clone().offset_start(before * bytes).offset_end(behind * bytes);
        let shape = vec![batch, tokens, width].into();
        let rows = CudaTensor::new_contiguous(whole.client.clone(), whole.device.clone(), shape, handle, DType::BF16);
        headed(rows, heads)
    };
    Some([0, 1, 2].map(|matrix| (0..parts).map(|index| part(3 * index + matrix)).collect()))
}

/// What a rotation of heads reads beside them, in fours.
struct Rotation {
    cosines: CudaTensor,
    sines: CudaTensor,
    head: u32,
    rotated: u32,
}

impl Rotation {
    /// `None` where tables or sizes do not fit.
    fn of(
        x: &CudaTensor,
        [rows, width, heads]: [usize; 3],
        [cosines, sines]: [CudaTensor; 2],
        tokens: usize,
    ) -> Option<Self> {
        if !is_wide_or_narrow(x) || !(1..=MAX_SECOND).contains(&rows) || heads == 0 || width % heads != 0 {
            return None;
        }
        let (head_dim, rotary_dim) = (width / heads, *cosines.meta.shape().last()?);
        let tables_fit = [&cosines, &sines]
            .iter()
            .all(|table| table.dtype == x.dtype && table.meta.shape().as_slice() == [tokens, rotary_dim]);
        let fours = head_dim.is_multiple_of(FOUR) && rotary_dim.is_multiple_of(2 * FOUR);
        let fits = tables_fit && fours && rotary_dim <= head_dim && u32::try_from(elements(x)).is_ok();
        fits.then(|| Self {
            cosines: into_contiguous(cosines),
            sines: into_contiguous(sines),
            head: (head_dim / FOUR) as u32,
            rotated: (rotary_dim / FOUR) as u32,
        })
    }
}

/// A view `[batch, heads, tokens, head_dim]` of contiguous `[batch, tokens, heads·head_dim]`.
pub(in super::super) fn headed(mut x: CudaTensor, heads: usize) -> CudaTensor {
    let [batch, tokens, width] = *x.meta.shape().as_slice() else { return x };
    let head_dim = width / heads;
    *x.meta = Metadata::new([batch, heads, tokens, head_dim], [tokens * width, head_dim, width, 1]);
    x
}

/// Attention over all keys without a matrix of scores; operands `[batch, heads, tokens, head_dim]` in one bf16 part each or
/// several, of equal strides. The result is a view of rows `[batch, queries, heads·head_dim]`, in bf16 or, of several parts, in
/// f32. `None` where heads do not divide into tiles.
pub(in super::super) fn attend_in_tiles([query, key, value]: [&[CudaTensor]; 3], scale: f32) -> Option<CudaTensor> {
    let [batch, heads, queries, head_dim] = *query.first()?.meta.shape().as_slice() else { return None };
    let [_, _, keys, _] = *key.first()?.meta.shape().as_slice() else { return None };
    let parts = query.len();
    let shapes = [queries, keys, keys].map(|tokens| [batch, heads, tokens, head_dim]);
    let parts_fit = [query, key, value].iter().zip(&shapes).all(|(operand, shape)| {
        operand.len() == parts
            && operand.iter().all(|part| {
                part.dtype == DType::BF16
                    && part.meta.shape().as_slice() == shape
                    && part.meta.strides() == operand[0].meta.strides()
                    && in_eights(part)
            })
    });
    let fits = can_attend_in_tiles(head_dim)
        && parts_fit
        && scale > 0.0
        && (1..=MAX_SECOND).contains(&(batch * heads))
        && queries > 0
        && keys > 0;
    let lens = if fits { [query, key, value].map(|parts| reach(&parts[0])) } else { return None };
    if lens.iter().any(|len| u32::try_from(*len).is_err()) {
        return None;
    }
    let dtype = if parts == 1 { DType::BF16 } else { DType::F32 };
    let out = headed(empty(&query[0], vec![batch, queries, heads * head_dim], dtype), heads);
    // A part that is not there is not read.
    let part = |tensors: &[CudaTensor], index: usize, len: usize| array(&tensors[index.min(parts - 1)].handle, len);
    let planes = TILED_PLANES;
    // SAFETY: the kernel cuts rows off at the last of each operand and of the result, and the lengths above reach behind it.
    unsafe {
        flash::flash_attention::launch_unchecked::<CudaRuntime>(
            &out.client,
            CubeCount::new_2d((queries as u32).div_ceil(planes * QUERIES), (batch * heads) as u32),
            CubeDim::new_2d(PLANE, planes),
            part(query, 0, lens[0] / 2),
            part(query, 1, lens[0] / 2),
            part(query, 2, lens[0] / 2),
            part(key, 0, lens[1]),
            part(key, 1, lens[1]),
            part(key, 2, lens[1]),
            part(value, 0, lens[2]),
            part(value, 1, lens[2]),
            part(value, 2, lens[2]),
            array(&out.handle, elements(&out) * dtype.size() / size_of::<u32>()),
            array(&out.handle, elements(&out) * dtype.size() / size_of::<f32>()),
            strides(&query[0]),
            strides(&key[0]),
            strides(&value[0]),
            strides(&out),
            heads as u32,
            queries as u32,
            keys as u32,
            scale,
            // What is staged of three parts would not fit with as many keys.
            Flash { head_dim: head_dim as u32, planes, parts: parts as u32, keys: if parts > 2 { 32 } else { 64 } },
        );
    }
    Some(out)
}

/// Returns whether heads of so many values divide into tiles.
pub(in super::super) fn can_attend_in_tiles(head_dim: usize) -> bool {
    (1..=MAX_TILED_HEAD).contains(&head_dim) && head_dim.is_multiple_of(QUERIES as usize)
}

/// Returns whether rows begin at eights and are contiguous.
fn in_eights(tensor: &CudaTensor) -> bool {
    let [.., last] = tensor.meta.strides()[..] else { return false };
    last == 1 && tensor.meta.strides()[..3].iter().all(|stride| stride.is_multiple_of(EIGHT))
}

/// Returns the values from the first to behind the last, rounded up to eight.
fn reach(tensor: &CudaTensor) -> usize {
    let steps = tensor.meta.shape().iter().zip(tensor.meta.strides().iter());
    (steps.map(|(size, stride)| (size - 1) * stride).sum::<usize>() + 1).next_multiple_of(EIGHT)
}

fn strides(tensor: &CudaTensor) -> StridesLaunch<CudaRuntime> {
    let [batch, head, token] = [0, 1, 2].map(|dim| tensor.meta.strides()[dim] as u32);
    StridesLaunch::new(batch, head, token)
}

/// Planes of a cube that attends in tiles.
const TILED_PLANES: u32 = 4;

/// Values of a head whose sums fit a plane's registers, and which fit beside each other into a cube's memory.
const MAX_TILED_HEAD: usize = 64;

/// `factor · x` in f32; a view of memory that it fills keeps its strides. `None` where values do not divide into fours.
pub(in super::super) fn scaled(x: CudaTensor, factor: f32) -> Option<CudaTensor> {
    let count = elements(&x);
    if !is_wide_or_narrow(&x) || count == 0 || !count.is_multiple_of(FOUR) {
        return None;
    }
    let x = if reach(&x) == count { x } else { into_contiguous(x) };
    let mut out = x.clone();
    (out.handle, out.dtype) = (x.client.empty(count * size_of::<f32>()), DType::F32);
    acoustic::scale::launch::<CudaRuntime>(
        &x.client,
        cubecl::calculate_cube_count_elemwise(&x.client, count / FOUR, CubeDim::new_1d(PLANES * PLANE)),
        CubeDim::new_1d(PLANES * PLANE),
        array(&x.handle, count),
        array(&out.handle, count),
        factor,
        x.dtype.into(),
    );
    Some(out)
}

/// Softmax over the first `keys` of each row of `scores`, in place; `None` for rows too long for a plane.
pub(in super::super) fn softmax_in_place(scores: &CudaTensor, keys: usize) -> Option<()> {
    let row = *scores.meta.shape().last()?;
    let rows = elements(scores).checked_div(row)?;
    let turns = row.div_ceil(FOUR * PLANE as usize).next_multiple_of(2);
    let fits = scores.dtype == DType::F32 && scores.is_contiguous() && row.is_multiple_of(FOUR) && turns <= MAX_TURNS;
    if !fits || rows == 0 || u32::try_from(rows * row / FOUR).is_err() {
        return None;
    }
    acoustic::softmax_in_place::launch::<CudaRuntime>(
        &scores.client,
        CubeCount::new_1d((rows as u32).div_ceil(PLANES)),
        CubeDim::new_2d(PLANE, PLANES),
        halves(scores),
        keys as u32,
        (row / FOUR) as u32,
        rows as u32,
        turns as u32,
    );
    Some(())
}

/// Fours that a lane can keep.
const MAX_TURNS: usize = 8;

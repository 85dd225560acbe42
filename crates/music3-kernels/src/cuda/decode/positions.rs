//! Launches of what positions go through on their way into a cache, and of attention over it.

use burn::tensor::DType;
use burn_cubecl::{cubecl, kernel::into_contiguous};
use cubecl::{
    cuda::CudaRuntime,
    prelude::{ArrayArg, CubeCount, CubeDim},
    server::Handle,
};

use super::{
    Norm, PLANES, array, attention, empty,
    few_rows::{MAX_ROWS, Rows, matrix, normed_linears},
    halves,
    heads::{self, Heads},
    linear::PLANE,
    tiles::Attended,
    words,
};
use crate::cuda::CudaTensor;

/// Planes of a cube that attends, at most, each on a tile of as many keys as it has lanes.
const MAX_ATTENDING_PLANES: usize = 4;

/// Keys that one cube takes at least, and parts of the context at most.
const PART_KEYS: usize = MAX_ATTENDING_PLANES * PLANE as usize;

const MAX_PARTS: usize = attention::MAX_PARTS as usize;

/// Values a head may have: more do not fit a plane's registers.
const MAX_HEAD_DIM: usize = 256;

/// How queries and keys are prepared: normalised per head, then rotated.
pub(in super::super) struct Preparation {
    pub(in super::super) query: Norm,
    pub(in super::super) key: Norm,
    /// `[tokens, head_dim]`
    pub(in super::super) cosines: CudaTensor,
    /// `[tokens, head_dim]`
    pub(in super::super) sines: CudaTensor,
}

/// Keys and values that are stored, `[batch, key_value, capacity, head_dim]`, and where the new positions begin.
pub(in super::super) struct Cache {
    pub(in super::super) keys: CudaTensor,
    pub(in super::super) values: CudaTensor,
    pub(in super::super) position: usize,
}

/// The geometry of attention over a cache.
#[derive(Clone, Copy)]
struct Geometry {
    batch: usize,
    tokens: usize,
    heads: usize,
    key_value: usize,
    capacity: usize,
    head_dim: usize,
}

impl Geometry {
    fn new(cache: &Cache, [batch, tokens, query_width]: [usize; 3]) -> Option<Self> {
        let [stored, key_value, capacity, head_dim] = *cache.keys.meta.shape().as_slice() else { return None };
        let fits = stored == batch
            && [batch, tokens, key_value].iter().all(|len| *len > 0)
            && cache.values.meta.shape() == cache.keys.meta.shape()
            && [&cache.keys, &cache.values].iter().all(|tensor| tensor.dtype == DType::BF16 && tensor.is_contiguous())
            && head_dim % 2 == 0
            && (2..=MAX_HEAD_DIM).contains(&head_dim)
            && query_width % (head_dim * key_value) == 0
            && query_width > 0
            && cache.position + tokens <= capacity;
        fits.then(|| Self { batch, tokens, heads: query_width / head_dim, key_value, capacity, head_dim })
    }
}

/// New positions, projected, with what is needed to go on.
struct Projected {
    projected: [CudaTensor; 3],
    preparation: Option<Preparation>,
    geometry: Geometry,
}

/// RMSNorm and projections, if everything fits.
fn project(
    x: CudaTensor,
    norm: Norm,
    projections: [CudaTensor; 3],
    preparation: Option<Preparation>,
    cache: &Cache,
) -> Option<Projected> {
    let [batch, tokens, _] = *x.meta.shape().as_slice() else { return None };
    let rows = Rows::new(x).filter(Rows::can_be_staged)?;
    let norm = norm.checked(rows.inner)?;
    let [query, key, value] = projections;
    let ((query, query_width), (key, key_width), (value, value_width)) =
        (matrix(query, rows.inner)?, matrix(key, rows.inner)?, matrix(value, rows.inner)?);
    let geometry = Geometry::new(cache, [batch, tokens, query_width])?;
    if key_width != geometry.key_value * geometry.head_dim || value_width != key_width {
        return None;
    }
    let preparation = preparation.map_or(Some(None), |preparation| preparation.checked(&geometry).map(Some))?;
    let projected = [query_width, key_width, value_width].map(|width| rows.output(width));
    normed_linears(&rows, &norm, [query, key, value], &projected);
    Some(Projected { projected, preparation, geometry })
}

/// RMSNorm, projections, preparation and the write to the cache; returns the queries `[batch, tokens, heads, head_dim]`.
pub(in super::super) fn read_positions(
    x: CudaTensor,
    norm: Norm,
    projections: [CudaTensor; 3],
    preparation: Option<Preparation>,
    cache: &Cache,
) -> Option<CudaTensor> {
    let Projected { projected, preparation, geometry } = project(x, norm, projections, preparation, cache)?;
    Some(store_heads(&projected, preparation, cache, &geometry))
}

/// What [`read_positions`] and [`attend`] do, for one new position of each sequence; returns `[batch, 1, heads·head_dim]`.
pub(in super::super) fn attend_newest(
    x: CudaTensor,
    norm: Norm,
    projections: [CudaTensor; 3],
    preparation: Option<Preparation>,
    cache: &Cache,
) -> Option<CudaTensor> {
    if x.meta.shape().get(1) != Some(&1) {
        return None;
    }
    let Projected { projected, preparation, geometry } = project(x, norm, projections, preparation, cache)?;
    let parted = Parted::new(&geometry, cache.position);
    let [query, key, value] = projected.each_ref();
    let (tables, eps) = tables(preparation.as_ref(), query);
    let [query_norm, key_norm, cosines, sines] = tables;
    let buffers = parted.buffers(query);
    // SAFETY: `Geometry::new`, `Preparation::checked` and `project` have compared shapes; buffers and parts are `Parted`'s.
    unsafe {
        attention::attend_newest::launch_unchecked::<CudaRuntime>(
            &query.client,
            parted.cubes(),
            CubeDim::new_2d(PLANE, parted.planes()),
            halves(query),
            halves(key),
            halves(value),
            query_norm,
            key_norm,
            cosines,
            sines,
            words(&cache.keys),
            words(&cache.keys),
            words(&cache.values),
            halves(&cache.keys),
            halves(&cache.values),
            halves(&buffers.out),
            array(&buffers.partial, buffers.lens[0]),
            array(&buffers.statistics, buffers.lens[1]),
            eps,
            parted.root_scale(),
            cache.position as u32,
            geometry.capacity as u32,
            parted.len as u32,
            parted.parts as u32,
            attention::Newest { sizes: parted.attended(), prepared: preparation.is_some() },
        );
    }
    Some(parted.joined(buffers))
}

/// Preparation and the write to the cache of positions that were projected before; returns the queries
/// `[batch, tokens, heads, head_dim]`.
pub(in super::super) fn store_positions(
    projected: [CudaTensor; 3],
    preparation: Option<Preparation>,
    cache: &Cache,
) -> Option<CudaTensor> {
    let [batch, tokens, query_width] = *projected[0].meta.shape().as_slice() else { return None };
    let geometry = Geometry::new(cache, [batch, tokens, query_width])?;
    let key_width = geometry.key_value * geometry.head_dim;
    let fits = projected
        .iter()
        .zip([query_width, key_width, key_width])
        .all(|(tensor, width)| tensor.dtype == DType::BF16 && tensor.meta.shape().as_slice() == [batch, tokens, width]);
    if !fits {
        return None;
    }
    let preparation = preparation.map_or(Some(None), |preparation| preparation.checked(&geometry).map(Some))?;
    Some(store_heads(&projected.map(into_contiguous), preparation, cache, &geometry))
}

impl Preparation {
    fn checked(self, geometry: &Geometry) -> Option<Self> {
        let table = [geometry.tokens, geometry.head_dim];
        let fits = |tensor: &CudaTensor| tensor.dtype == DType::BF16 && tensor.meta.shape().as_slice() == table;
        if !fits(&self.cosines) || !fits(&self.sines) || self.query.eps != self.key.eps {
            return None;
        }
        Some(Self {
            query: self.query.checked(geometry.head_dim)?,
            key: self.key.checked(geometry.head_dim)?,
            cosines: into_contiguous(self.cosines),
            sines: into_contiguous(self.sines),
        })
    }
}

/// Norms and tables as a kernel takes them, and what is added to a mean square. Without preparation nothing of it is read; any
/// buffer stands for it.
fn tables(preparation: Option<&Preparation>, any: &CudaTensor) -> ([ArrayArg<CudaRuntime>; 4], f32) {
    match preparation {
        Some(Preparation { query: norm, key, cosines, sines }) => {
            ([halves(&norm.weight), halves(&key.weight), halves(cosines), halves(sines)], norm.eps)
        }
        None => ([(); 4].map(|()| halves(any)), 0.0),
    }
}

fn store_heads(
    projected: &[CudaTensor; 3],
    preparation: Option<Preparation>,
    cache: &Cache,
    geometry: &Geometry,
) -> CudaTensor {
    let Geometry { batch, tokens, heads, key_value, capacity, head_dim } = *geometry;
    let [query, key, value] = projected.each_ref();
    let queries = empty(query, vec![batch, tokens, heads, head_dim], DType::BF16);
    let places = (batch * tokens * (heads + 2 * key_value)) as u32;
    let prepared = preparation.is_some();
    let (tables, eps) = tables(preparation.as_ref(), query);
    let [query_norm, key_norm, cosines, sines] = tables;
    heads::store_heads::launch::<CudaRuntime>(
        &query.client,
        CubeCount::new_1d(places.div_ceil(PLANES)),
        CubeDim::new_2d(PLANE, PLANES),
        halves(query),
        halves(key),
        halves(value),
        query_norm,
        key_norm,
        cosines,
        sines,
        halves(&queries),
        halves(&cache.keys),
        halves(&cache.values),
        eps,
        cache.position as u32,
        capacity as u32,
        places,
        Heads {
            query: heads as u32,
            key_value: key_value as u32,
            head_dim: head_dim as u32,
            tokens: tokens as u32,
            prepared,
        },
    );
    queries
}

/// Attention of `queries` `[batch, tokens, heads, head_dim]`, whose positions are the last that are stored, over all up
/// to their own; returns `[batch, tokens, heads·head_dim]`.
pub(in super::super) fn attend(queries: CudaTensor, cache: &Cache) -> Option<CudaTensor> {
    let [batch, tokens, heads, head_dim] = *queries.meta.shape().as_slice() else { return None };
    let geometry = Geometry::new(cache, [batch, tokens, heads * head_dim])?;
    if queries.dtype != DType::BF16 || batch * tokens > MAX_ROWS || geometry.head_dim != head_dim {
        return None;
    }
    let queries = into_contiguous(queries);
    let parted = Parted::new(&geometry, cache.position);
    let buffers = parted.buffers(&queries);
    // SAFETY: as for the newest position.
    unsafe {
        attention::attend::launch_unchecked::<CudaRuntime>(
            &queries.client,
            parted.cubes(),
            CubeDim::new_2d(PLANE, parted.planes()),
            words(&queries),
            words(&cache.keys),
            words(&cache.keys),
            words(&cache.values),
            halves(&buffers.out),
            array(&buffers.partial, buffers.lens[0]),
            array(&buffers.statistics, buffers.lens[1]),
            parted.root_scale(),
            cache.position as u32,
            geometry.capacity as u32,
            parted.len as u32,
            parted.parts as u32,
            parted.attended(),
        );
    }
    Some(parted.joined(buffers))
}

/// A context in parts, each for a cube.
struct Parted {
    geometry: Geometry,
    parts: usize,
    /// Positions of a part.
    len: usize,
}

/// Where parts leave their results.
struct Buffers {
    /// `[batch, tokens, heads·head_dim]`
    out: CudaTensor,
    partial: Handle,
    statistics: Handle,
    /// Values of the last two.
    lens: [usize; 2],
}

impl Parted {
    /// Divides the positions before `position` and the new ones.
    fn new(geometry: &Geometry, position: usize) -> Self {
        let stored = position + geometry.tokens;
        let parts = stored.div_ceil(PART_KEYS).clamp(1, MAX_PARTS);
        // A tile is never shared.
        let len = stored.div_ceil(parts).next_multiple_of(PLANE as usize);
        Self { geometry: *geometry, parts, len }
    }

    /// Returns the planes of a cube: no more than its part has tiles.
    fn planes(&self) -> u32 {
        (self.len / PLANE as usize).min(MAX_ATTENDING_PLANES) as u32
    }

    fn places(&self) -> usize {
        self.geometry.batch * self.geometry.tokens * self.geometry.heads
    }

    fn group(&self) -> usize {
        self.geometry.heads / self.geometry.key_value
    }

    fn root_scale(&self) -> f32 {
        (1.0 / (self.geometry.head_dim as f64).sqrt()).sqrt() as f32
    }

    fn cubes(&self) -> CubeCount {
        let Geometry { batch, tokens, key_value, .. } = self.geometry;
        CubeCount::new_3d(self.parts as u32, key_value as u32, (batch * tokens) as u32)
    }

    fn attended(&self) -> Attended {
        let Geometry { tokens, key_value, head_dim, .. } = self.geometry;
        Attended {
            key_value: key_value as u32,
            group: self.group() as u32,
            head_dim: head_dim as u32,
            tokens: tokens as u32,
            planes: self.planes(),
            pairs: (head_dim as u32 / 2).div_ceil(PLANE),
            whole: self.parts == 1,
        }
    }

    fn buffers(&self, like: &CudaTensor) -> Buffers {
        let Geometry { batch, tokens, heads, head_dim, .. } = self.geometry;
        let out = empty(like, vec![batch, tokens, heads * head_dim], DType::BF16);
        let parts = self.places() * self.parts;
        // Nothing is written to them where one part is the whole.
        let lens = if self.parts == 1 { [1, 1] } else { [parts * head_dim, parts * 2] };
        let [partial, statistics] = lens.map(|len| out.client.empty(len * size_of::<f32>()));
        Buffers { out, partial, statistics, lens }
    }

    /// Joins the parts, where there are several.
    fn joined(&self, buffers: Buffers) -> CudaTensor {
        let Buffers { out, partial, statistics, lens } = buffers;
        if self.parts > 1 {
            let head_dim = self.geometry.head_dim as u32;
            // SAFETY: the buffers are as long as places and parts say, and more parts there are not.
            unsafe {
                attention::join_parts::launch_unchecked::<CudaRuntime>(
                    &out.client,
                    CubeCount::new_1d((self.places() as u32 * head_dim.div_ceil(PLANE)).div_ceil(PLANES)),
                    CubeDim::new_2d(PLANE, PLANES),
                    array(&partial, lens[0]),
                    array(&statistics, lens[1]),
                    halves(&out),
                    self.parts as u32,
                    self.places() as u32,
                    self.group() as u32,
                    head_dim,
                );
            }
        }
        out
    }
}

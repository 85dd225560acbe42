//! The language model's and the depth decoder's steps: a few rows, large bf16 weights, a static cache.
#![allow(unsafe_code, reason = "kernels are launched on raw buffers")]

mod acoustic;
mod attention;
mod draw;
mod linear;
mod packed;
mod pointwise;

use burn::tensor::DType;
use burn_cubecl::{cubecl, kernel::into_contiguous};
use cubecl::{
    cuda::CudaRuntime,
    prelude::{ArrayArg, CubeCount, CubeDim},
    server::Handle,
};

pub(super) use self::pointwise::Joint;
use self::{
    attention::{Attended, Heads},
    linear::PLANE,
    packed::EIGHT,
};
use super::CudaTensor;
use crate::Draw;

/// More rows than this go through a library product, which reads the weights once for many rows.
const MAX_ROWS: usize = 4;

/// Planes of a cube that computes products.
const PLANES: u32 = 8;

/// Cubes that normalise their input before they multiply, at most; each goes on to further outputs.
const NORMALISING_CUBES: u32 = 528;

/// Returns how many cubes share `outputs`, so that all have as many rounds and the last is full.
fn normalising_cubes(outputs: u32) -> u32 {
    let cubes = outputs.div_ceil(PLANES);
    cubes.div_ceil(cubes.div_ceil(NORMALISING_CUBES))
}

/// Returns how many loads a lane has in flight on rows of so many eights.
fn unroll(eights: u32) -> u32 {
    if eights % (8 * PLANE) == 0 { 8 } else { 4 }
}

/// Bytes of normalised input that a cube can hold beside its other needs.
const MAX_STAGED: usize = 40 << 10;

/// Planes of a cube that attends, each on a tile of as many keys as it has lanes.
const ATTENDING_PLANES: u32 = 4;

/// Keys that one cube takes at least, and parts of the context at most.
const PART_KEYS: usize = (ATTENDING_PLANES * PLANE) as usize;
const MAX_PARTS: usize = 64;

/// Values a head may have: more do not fit a plane's registers.
const MAX_HEAD_DIM: usize = 256;

/// The operands of a product over a few rows, checked and contiguous.
struct Rows {
    x: CudaTensor,
    rows: usize,
    inner: usize,
}

impl Rows {
    /// Accepts `[…, inner]` in bf16 with few rows.
    fn new(x: CudaTensor) -> Option<Self> {
        let shape: &[usize] = x.meta.shape();
        let (&inner, leading) = shape.split_last()?;
        let rows = leading.iter().product();
        let fits = x.dtype == DType::BF16 && (1..=MAX_ROWS).contains(&rows) && inner > 0 && inner % EIGHT == 0;
        fits.then(|| Self { x: into_contiguous(x), rows, inner })
    }

    /// Returns whether a cube can hold the rows.
    fn can_be_staged(&self) -> bool {
        self.rows * self.inner * size_of::<half::bf16>() <= MAX_STAGED
    }

    fn eights(&self) -> u32 {
        (self.inner / EIGHT) as u32
    }

    /// Returns a bf16 output `[…, outputs]`.
    fn output(&self, outputs: usize) -> CudaTensor {
        let mut shape = self.x.meta.shape().to_vec();
        *shape.last_mut().expect("rows have at least one dimension") = outputs;
        empty_bf16(&self.x, shape)
    }
}

/// Accepts a contiguous bf16 matrix with rows of `inner`; returns it and its rows.
fn matrix(weight: CudaTensor, inner: usize) -> Option<(CudaTensor, usize)> {
    let [outputs, columns] = *weight.meta.shape().as_slice() else { return None };
    let fits = weight.dtype == DType::BF16 && columns == inner && outputs > 0 && weight.is_contiguous();
    fits.then_some((weight, outputs))
}

/// RMSNorm's parameters.
pub(super) struct Norm {
    pub(super) weight: CudaTensor,
    pub(super) eps: f32,
}

impl Norm {
    fn checked(self, len: usize) -> Option<Self> {
        let fits = self.weight.dtype == DType::BF16 && self.weight.meta.shape().as_slice() == [len];
        fits.then(|| Self { weight: into_contiguous(self.weight), ..self })
    }
}

/// How queries and keys are prepared: normalised per head, then rotated.
pub(super) struct Preparation {
    pub(super) query: Norm,
    pub(super) key: Norm,
    /// `[tokens, head_dim]`
    pub(super) cosines: CudaTensor,
    /// `[tokens, head_dim]`
    pub(super) sines: CudaTensor,
}

/// Keys and values that are stored, `[batch, key_value, capacity, head_dim]`, and where the new positions begin.
pub(super) struct Cache {
    pub(super) keys: CudaTensor,
    pub(super) values: CudaTensor,
    pub(super) position: usize,
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

/// RMSNorm, projections, preparation and the write to the cache; returns the queries `[batch, tokens, heads, head_dim]`.
pub(super) fn read_positions(
    x: CudaTensor,
    norm: Norm,
    projections: [CudaTensor; 3],
    preparation: Option<Preparation>,
    cache: &Cache,
) -> Option<CudaTensor> {
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
    let preparation = match preparation {
        None => None,
        Some(preparation) => Some(preparation.checked(&geometry)?),
    };
    let projected = [query_width, key_width, value_width].map(|width| rows.output(width));
    normed_linears(&rows, &norm, [query, key, value], &projected);
    Some(store_heads(&projected, preparation, cache, &geometry))
}

/// Preparation and the write to the cache of positions that were projected before; returns the queries
/// `[batch, tokens, heads, head_dim]`.
pub(super) fn store_positions(
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
    let preparation = match preparation {
        None => None,
        Some(preparation) => Some(preparation.checked(&geometry)?),
    };
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

fn normed_linears(rows: &Rows, norm: &Norm, weights: [CudaTensor; 3], outs: &[CudaTensor; 3]) {
    let outputs = outs.each_ref().map(|out| elements(out) as u32 / rows.rows as u32);
    let ([a, b, c], [out_a, out_b, out_c]) = (weights.each_ref(), outs.each_ref());
    linear::normed_linears::launch::<CudaRuntime>(
        &out_a.client,
        CubeCount::new_1d(normalising_cubes(outputs.iter().sum())),
        CubeDim::new_1d(PLANES * PLANE),
        words(&rows.x),
        words(&norm.weight),
        words(a),
        words(b),
        words(c),
        halves(out_a),
        halves(out_b),
        halves(out_c),
        norm.eps,
        outputs[0],
        outputs[1],
        outputs[2],
        rows.rows as u32,
        rows.eights(),
        PLANES,
        unroll(rows.eights()),
    );
}

fn store_heads(
    projected: &[CudaTensor; 3],
    preparation: Option<Preparation>,
    cache: &Cache,
    geometry: &Geometry,
) -> CudaTensor {
    let Geometry { batch, tokens, heads, key_value, capacity, head_dim } = *geometry;
    let [query, key, value] = projected.each_ref();
    let queries = empty_bf16(query, vec![batch, tokens, heads, head_dim]);
    let places = (batch * tokens * (heads + 2 * key_value)) as u32;
    let prepared = preparation.is_some();
    // Without preparation nothing of it is read; any buffer stands for it.
    let (tables, eps) = match &preparation {
        Some(Preparation { query: norm, key, cosines, sines }) => {
            ([halves(&norm.weight), halves(&key.weight), halves(cosines), halves(sines)], norm.eps)
        }
        None => ([(); 4].map(|()| halves(query)), 0.0),
    };
    let [query_norm, key_norm, cosines, sines] = tables;
    attention::store_heads::launch::<CudaRuntime>(
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
pub(super) fn attend(queries: CudaTensor, cache: &Cache) -> Option<CudaTensor> {
    let [batch, tokens, heads, head_dim] = *queries.meta.shape().as_slice() else { return None };
    let geometry = Geometry::new(cache, [batch, tokens, heads * head_dim])?;
    if queries.dtype != DType::BF16 || batch * tokens > MAX_ROWS || geometry.head_dim != head_dim {
        return None;
    }
    let queries = into_contiguous(queries);
    let stored = cache.position + tokens;
    let parts = stored.div_ceil(PART_KEYS).clamp(1, MAX_PARTS);
    // A tile is never shared.
    let part_len = stored.div_ceil(parts).next_multiple_of(PLANE as usize);
    let (group, places) = (heads / geometry.key_value, batch * tokens * heads);
    let out = empty_bf16(&queries, vec![batch, tokens, heads * head_dim]);
    let whole = parts == 1;
    // Nothing is written to them where one part is the whole.
    let lens = if whole { [1, 1] } else { [places * parts * head_dim, places * parts * 2] };
    let [partial, statistics] = lens.map(|len| out.client.empty(len * size_of::<f32>()));
    let root_scale = (1.0 / (head_dim as f64).sqrt()).sqrt() as f32;
    attention::attend::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_3d(parts as u32, geometry.key_value as u32, (batch * tokens) as u32),
        CubeDim::new_2d(PLANE, ATTENDING_PLANES),
        words(&queries),
        words(&cache.keys),
        words(&cache.keys),
        words(&cache.values),
        halves(&out),
        array(&partial, lens[0]),
        array(&statistics, lens[1]),
        root_scale,
        cache.position as u32,
        geometry.capacity as u32,
        part_len as u32,
        parts as u32,
        Attended {
            key_value: geometry.key_value as u32,
            group: group as u32,
            head_dim: head_dim as u32,
            tokens: tokens as u32,
            planes: ATTENDING_PLANES,
            pairs: (head_dim as u32 / 2).div_ceil(PLANE),
            whole,
        },
    );
    if !whole {
        attention::join_parts::launch::<CudaRuntime>(
            &out.client,
            CubeCount::new_1d((places as u32).div_ceil(PLANES)),
            CubeDim::new_2d(PLANE, PLANES),
            array(&partial, lens[0]),
            array(&statistics, lens[1]),
            halves(&out),
            parts as u32,
            places as u32,
            group as u32,
            head_dim as u32,
        );
    }
    Some(out)
}

/// RMSNorm, then `silu(gate) · up`: `[…, inner]` → `[…, outputs]`.
pub(super) fn gated(x: CudaTensor, norm: Norm, gate: CudaTensor, up: CudaTensor) -> Option<CudaTensor> {
    let rows = Rows::new(x).filter(Rows::can_be_staged)?;
    let norm = norm.checked(rows.inner)?;
    let ((gate, outputs), (up, up_outputs)) = (matrix(gate, rows.inner)?, matrix(up, rows.inner)?);
    if outputs != up_outputs {
        return None;
    }
    let out = rows.output(outputs);
    linear::normed_gated::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_1d(normalising_cubes(outputs as u32)),
        CubeDim::new_1d(PLANES * PLANE),
        words(&rows.x),
        words(&norm.weight),
        words(&gate),
        words(&up),
        halves(&out),
        norm.eps,
        outputs as u32,
        rows.rows as u32,
        rows.eights(),
        PLANES,
        // Two rows of weights are loaded at once.
        4,
    );
    Some(out)
}

/// The product with a weight `[outputs, inner]`, to which `residual` is added where there is one.
pub(super) fn linear_added(x: CudaTensor, weight: CudaTensor, residual: Option<CudaTensor>) -> Option<CudaTensor> {
    let rows = Rows::new(x)?;
    let (weight, outputs) = matrix(weight, rows.inner)?;
    let out = rows.output(outputs);
    if let Some(residual) = &residual
        && (residual.dtype != DType::BF16 || residual.meta.shape() != out.meta.shape())
    {
        return None;
    }
    let adds = residual.is_some();
    let residual = residual.map_or_else(|| out.clone(), into_contiguous);
    linear::linear_added::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_1d((outputs as u32).div_ceil(PLANES)),
        CubeDim::new_1d(PLANES * PLANE),
        words(&rows.x),
        words(&weight),
        halves(&residual),
        halves(&out),
        outputs as u32,
        adds,
        rows.rows as u32,
        rows.eights(),
        PLANES,
        unroll(rows.eights()),
    );
    Some(out)
}

/// Returns whether a tensor is f32 or bf16, the types that the ops of many rows take.
fn is_wide_or_narrow(tensor: &CudaTensor) -> bool {
    matches!(tensor.dtype, DType::F32 | DType::BF16)
}

/// Returns contiguous memory of a tensor's own type.
fn empty_like(like: &CudaTensor, shape: Vec<usize>) -> CudaTensor {
    let bytes = shape.iter().product::<usize>() * like.dtype.size();
    let handle = like.client.empty(bytes);
    CudaTensor::new_contiguous(like.client.clone(), like.device.clone(), shape.into(), handle, like.dtype)
}

/// LayerNorm over the last dimension.
pub(super) fn layer_norm(x: CudaTensor, weight: CudaTensor, bias: CudaTensor, eps: f32) -> Option<CudaTensor> {
    let shape = x.meta.shape().to_vec();
    let channels = *shape.last()?;
    let fits = is_wide_or_narrow(&x)
        && [&weight, &bias].iter().all(|given| given.dtype == x.dtype && given.meta.shape().as_slice() == [channels]);
    let rows = elements(&x).checked_div(channels)?;
    if !fits || rows == 0 {
        return None;
    }
    let (x, weight, bias) = (into_contiguous(x), into_contiguous(weight), into_contiguous(bias));
    let out = empty_like(&x, shape);
    acoustic::layer_norm::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_1d(rows as u32),
        CubeDim::new_1d(PLANES * PLANE),
        halves(&x),
        halves(&weight),
        halves(&bias),
        halves(&out),
        eps,
        channels as u32,
        PLANES,
        x.dtype.into(),
    );
    Some(out)
}

/// The gate of `[…, 2·half]`, value half first.
pub(super) fn gate_halves(x: CudaTensor) -> Option<CudaTensor> {
    let mut shape = x.meta.shape().to_vec();
    let half = *shape.last()? / 2;
    *shape.last_mut()? = half;
    let count = shape.iter().product::<usize>();
    if !is_wide_or_narrow(&x) || count == 0 || elements(&x) != 2 * count || u32::try_from(2 * count).is_err() {
        return None;
    }
    let x = into_contiguous(x);
    let out = empty_like(&x, shape);
    acoustic::gate_halves::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_1d((count as u32).div_ceil(PLANES * PLANE)),
        CubeDim::new_1d(PLANES * PLANE),
        halves(&x),
        halves(&out),
        half as u32,
        count as u32,
        x.dtype.into(),
    );
    Some(out)
}

/// Snake of `[batch, channels, len]` with one alpha per channel.
pub(super) fn snake(x: CudaTensor, alpha: CudaTensor, eps: f32) -> Option<CudaTensor> {
    let [_, channels, len] = *x.meta.shape().as_slice() else { return None };
    let count = elements(&x);
    let fits = is_wide_or_narrow(&x)
        && alpha.dtype == x.dtype
        && alpha.meta.shape().as_slice() == [1, channels, 1]
        && count > 0
        && u32::try_from(count).is_ok();
    if !fits {
        return None;
    }
    let (x, alpha) = (into_contiguous(x), into_contiguous(alpha));
    let out = empty_like(&x, x.meta.shape().to_vec());
    acoustic::snake::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_1d((count as u32).div_ceil(PLANES * PLANE)),
        CubeDim::new_1d(PLANES * PLANE),
        halves(&x),
        halves(&alpha),
        halves(&out),
        eps,
        channels as u32,
        len as u32,
        count as u32,
        x.dtype.into(),
    );
    Some(out)
}

/// Heads in their own layout, rotated where there are tables: `[batch, tokens, heads·head_dim]` →
/// `[batch, heads, tokens, head_dim]`.
pub(super) fn split_heads(x: CudaTensor, heads: usize, tables: Option<(CudaTensor, CudaTensor)>) -> Option<CudaTensor> {
    let [batch, tokens, width] = *x.meta.shape().as_slice() else { return None };
    let count = batch * tokens * width;
    if !is_wide_or_narrow(&x) || count == 0 || heads == 0 || width % heads != 0 || u32::try_from(count).is_err() {
        return None;
    }
    let head_dim = width / heads;
    let rotary_dim = match &tables {
        None => 0,
        Some((cosines, sines)) => {
            let [rows, rotary_dim] = *cosines.meta.shape().as_slice() else { return None };
            let fits = rows == tokens
                && rotary_dim <= head_dim
                && rotary_dim % 2 == 0
                && sines.meta.shape() == cosines.meta.shape()
                && [cosines, sines].iter().all(|table| table.dtype == x.dtype);
            fits.then_some(rotary_dim)?
        }
    };
    let x = into_contiguous(x);
    let out = empty_like(&x, vec![batch, heads, tokens, head_dim]);
    // Without tables nothing of them is read; any buffer stands for them.
    let (cosines, sines) = tables
        .map_or_else(|| (x.clone(), x.clone()), |(cosines, sines)| (into_contiguous(cosines), into_contiguous(sines)));
    acoustic::split_heads::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_1d((count as u32).div_ceil(PLANES * PLANE)),
        CubeDim::new_1d(PLANES * PLANE),
        halves(&x),
        halves(&cosines),
        halves(&sines),
        halves(&out),
        tokens as u32,
        heads as u32,
        count as u32,
        head_dim as u32,
        rotary_dim as u32,
        x.dtype.into(),
    );
    Some(out)
}

/// The sum of two tensors, or `silu(a) · b`, of one shape in bf16.
pub(super) fn joined(a: CudaTensor, b: CudaTensor, joint: Joint) -> Option<CudaTensor> {
    let count = elements(&a);
    let fits = a.dtype == DType::BF16 && b.dtype == DType::BF16 && a.meta.shape() == b.meta.shape();
    if !fits || count == 0 || count % EIGHT != 0 {
        return None;
    }
    let (a, b) = (into_contiguous(a), into_contiguous(b));
    let out = empty_bf16(&a, a.meta.shape().to_vec());
    let eights = count / EIGHT;
    let units = (PLANES * PLANE) as usize;
    pointwise::join::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_1d(eights.div_ceil(units) as u32),
        CubeDim::new_1d(PLANES * PLANE),
        words(&a),
        words(&b),
        words(&out),
        eights as u32,
        joint,
    );
    Some(out)
}

/// Scale, causal mask and softmax of f32 scores, row by row. With `(first, queries)`, row `r` sees the keys up to number
/// `first + r % queries`.
pub(super) fn softmax(scores: CudaTensor, scale: f32, causal: Option<(usize, usize)>) -> Option<CudaTensor> {
    let shape = scores.meta.shape().to_vec();
    let keys = *shape.last()?;
    let rows = elements(&scores).checked_div(keys)?;
    if scores.dtype != DType::F32 || !scores.is_contiguous() || rows == 0 {
        return None;
    }
    let bytes = rows * keys * size_of::<f32>();
    let handle = scores.client.empty(bytes);
    let (client, device) = (scores.client.clone(), scores.device.clone());
    let out = CudaTensor::new_contiguous(client, device, shape.into(), handle, DType::F32);
    pointwise::softmax_rows::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_1d(rows as u32),
        CubeDim::new_1d(PLANES * PLANE),
        array(&scores.handle, rows * keys),
        array(&out.handle, rows * keys),
        scale,
        keys as u32,
        causal.map_or(0, |(first, _)| first) as u32,
        causal.map_or(1, |(_, queries)| queries) as u32,
        causal.is_some(),
        PLANES,
    );
    Some(out)
}

/// RMSNorm of any number of bf16 rows.
pub(super) fn normalise(x: CudaTensor, norm: Norm) -> Option<CudaTensor> {
    let shape: &[usize] = x.meta.shape();
    let (&inner, leading) = shape.split_last()?;
    let rows: usize = leading.iter().product();
    if x.dtype != DType::BF16 || inner == 0 || inner % EIGHT != 0 || rows == 0 {
        return None;
    }
    let norm = norm.checked(inner)?;
    let out = empty_bf16(&x, shape.to_vec());
    let x = into_contiguous(x);
    linear::normalise::launch::<CudaRuntime>(
        &out.client,
        CubeCount::new_1d(rows as u32),
        CubeDim::new_1d(PLANES * PLANE),
        words(&x),
        words(&norm.weight),
        words(&out),
        norm.eps,
        (inner / EIGHT) as u32,
        PLANES,
    );
    Some(out)
}

/// Candidates that a draw may have: more do not fit a unit's registers.
const MAX_CANDIDATES: usize = 32 * draw::UNITS as usize;

/// Draws one candidate; see [`try_draw`](crate::try_draw).
pub(super) fn draw(logits: CudaTensor, exponentials: CudaTensor, outcome: CudaTensor, draw: Draw) -> Option<()> {
    let Draw { slot, slots, candidates, skipped, top_k, filters, first_exponential, base, origin } = draw;
    let [rows, columns] = *logits.meta.shape().as_slice() else { return None };
    let [numbers] = *exponentials.meta.shape().as_slice() else { return None };
    let [places] = *outcome.meta.shape().as_slice() else { return None };
    let fits = logits.dtype == DType::BF16
        && exponentials.dtype == DType::F32
        && outcome.dtype == DType::I32
        && (1..=MAX_CANDIDATES).contains(&candidates)
        && (rows, columns) == (2, candidates + skipped)
        && first_exponential + candidates <= numbers
        && (slot < slots && places == 4 * slots)
        && exponentials.is_contiguous()
        && outcome.is_contiguous();
    if !fits {
        return None;
    }
    let logits = into_contiguous(logits);
    draw::draw::launch::<CudaRuntime>(
        &logits.client,
        CubeCount::new_1d(1),
        CubeDim::new_1d(draw::UNITS),
        halves(&logits),
        array(&exponentials.handle, numbers),
        array(&outcome.handle, places),
        columns as u32,
        skipped as u32,
        candidates as u32,
        top_k as u32,
        first_exponential as u32,
        slot as u32,
        slots as u32,
        base as u32,
        origin as u32,
        draw::Drawing { per_unit: (candidates as u32).div_ceil(draw::UNITS), filters },
    );
    Some(())
}

/// Returns contiguous memory for a bf16 tensor, on the device that `like` is on.
fn empty_bf16(like: &CudaTensor, shape: Vec<usize>) -> CudaTensor {
    let bytes = shape.iter().product::<usize>() * size_of::<half::bf16>();
    let handle = like.client.empty(bytes);
    CudaTensor::new_contiguous(like.client.clone(), like.device.clone(), shape.into(), handle, DType::BF16)
}

/// A contiguous bf16 tensor as `u32` pairs, alone or in eights.
fn words(tensor: &CudaTensor) -> ArrayArg<CudaRuntime> {
    array(&tensor.handle, elements(tensor) / 2)
}

/// A contiguous tensor value by value.
fn halves(tensor: &CudaTensor) -> ArrayArg<CudaRuntime> {
    array(&tensor.handle, elements(tensor))
}

fn elements(tensor: &CudaTensor) -> usize {
    tensor.meta.shape().iter().product()
}

/// `len` scalars of whatever type the kernel declares.
fn array(handle: &Handle, len: usize) -> ArrayArg<CudaRuntime> {
    // SAFETY: every caller passes as many scalars of the kernel's type as the buffer holds.
    unsafe { ArrayArg::from_raw_parts(handle.clone(), len) }
}

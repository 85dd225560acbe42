//! The key/value cache: a value that a forward writes to, sized once.

use burn::tensor::{Tensor, backend::Backend};

use crate::Width;

/// The geometry of a [`KvCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvCacheShape {
    /// Layers.
    pub layers: usize,
    /// Sequences decoded side by side.
    pub batch: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Positions that can be stored.
    pub capacity: usize,
    /// Values per head.
    pub head_dim: usize,
}

/// Keys and values of every layer, allocated once for the whole run; it never grows and never wraps.
#[derive(Clone, Debug)]
pub struct KvCache<B: Backend> {
    layers: Vec<LayerCache<B>>,
    len: usize,
    capacity: usize,
}

impl<B: Backend> KvCache<B> {
    /// Returns an empty cache.
    pub fn new(shape: KvCacheShape, width: Width, device: &B::Device) -> Self {
        let dims = [shape.batch, shape.kv_heads, shape.capacity, shape.head_dim];
        // Through one dimension: a device may pad the rows of several, and kernels write to rows without padding.
        let zeros = || {
            let zeros =
                Tensor::<B, 1>::zeros([dims.iter().product::<usize>()], (device, width.store_dtype::<B>(device)));
            Some(zeros.reshape(dims))
        };
        let layers = (0..shape.layers).map(|_| LayerCache { key: zeros(), value: zeros() }).collect();
        Self { layers, len: 0, capacity: shape.capacity }
    }

    /// Returns the number of positions stored.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no position is stored.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of positions that can be stored.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Forgets the positions from `len` on, which are then written again.
    ///
    /// # Panics
    /// If fewer are stored.
    pub fn truncate(&mut self, len: usize) {
        assert!(len <= self.len, "the key/value cache holds {} positions, not {len}", self.len);
        self.len = len;
    }

    /// Runs one forward's layers over the cache and then counts `tokens` more positions as stored.
    ///
    /// # Panics
    /// If the positions do not fit. Limits are checked before a run, so this is a bug in the caller.
    pub fn extend<T>(&mut self, tokens: usize, forward: impl FnOnce(&mut [LayerCache<B>], usize) -> T) -> T {
        assert!(
            self.len + tokens <= self.capacity,
            "the key/value cache holds {} of {} positions; {tokens} more do not fit",
            self.len,
            self.capacity
        );
        let result = forward(&mut self.layers, self.len);
        self.len += tokens;
        result
    }
}

/// Keys and values of one layer.
#[derive(Clone, Debug)]
pub struct LayerCache<B: Backend> {
    // Taken out while they are written, so that a backend sees one owner and writes in place.
    key: Option<Tensor<B, 4>>,
    value: Option<Tensor<B, 4>>,
}

impl<B: Backend> LayerCache<B> {
    /// Writes keys and values at `position`.
    ///
    /// # Shapes
    /// `key` and `value` `[batch, kv_heads, tokens, head_dim]`.
    pub fn append(&mut self, position: usize, key: Tensor<B, 4>, value: Tensor<B, 4>) {
        write(&mut self.key, position, key);
        write(&mut self.value, position, value);
    }

    /// Returns keys and values up to `end`.
    ///
    /// # Shapes
    /// `[batch, kv_heads, end, head_dim]`.
    pub fn stored(&self, end: usize) -> (Tensor<B, 4>, Tensor<B, 4>) {
        let (key, value) = self.whole();
        (key.clone().narrow(2, 0, end), value.clone().narrow(2, 0, end))
    }

    /// Returns keys and values with the room that is not filled yet.
    ///
    /// # Shapes
    /// `[batch, kv_heads, capacity, head_dim]`.
    pub fn whole(&self) -> (&Tensor<B, 4>, &Tensor<B, 4>) {
        const PUT_BACK: &str = "a write puts the tensor back";
        (self.key.as_ref().expect(PUT_BACK), self.value.as_ref().expect(PUT_BACK))
    }
}

fn write<B: Backend>(stored: &mut Option<Tensor<B, 4>>, position: usize, new: Tensor<B, 4>) {
    let [batch, heads, tokens, head_dim] = new.dims();
    let end = position + tokens;
    let tensor = stored.take().expect("the tensor is put back below");
    *stored = Some(tensor.slice_assign([0..batch, 0..heads, position..end, 0..head_dim], new));
}

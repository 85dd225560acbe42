//! The pieces of a pre-norm decoder layer that reads new positions into a cache.
//!
//! Each is one call, so that a kernel may do it at once; the plain form beside it is the same ops one by one.

use burn::tensor::{Tensor, backend::Backend};
use music3_kernels::{Norm, Preparation, Stored};

use crate::{
    LayerCache, RotaryTable, Width,
    layers::{Linear, RmsNorm},
    ops::{self, AttentionMask},
};

/// What leads from a layer's input to its queries, keys and values.
#[derive(Debug)]
pub struct Projections<'a, B: Backend> {
    /// In front of the projections, `[hidden]`.
    pub norm: &'a RmsNorm<B>,
    /// `[heads·head_dim, hidden]`
    pub query: &'a Linear<B>,
    /// `[kv_heads·head_dim, hidden]`
    pub key: &'a Linear<B>,
    /// `[kv_heads·head_dim, hidden]`
    pub value: &'a Linear<B>,
    /// Values per head.
    pub head_dim: usize,
    /// What is done to queries and keys of each head, if anything.
    pub preparation: Option<HeadPreparation<'a, B>>,
}

/// Norm and rotation of queries and keys.
#[derive(Debug)]
pub struct HeadPreparation<'a, B: Backend> {
    /// `[head_dim]`
    pub query_norm: &'a RmsNorm<B>,
    /// `[head_dim]`
    pub key_norm: &'a RmsNorm<B>,
    /// The rows of the new positions.
    pub rotary: &'a RotaryTable<B>,
}

impl<B: Backend> Projections<'_, B> {
    /// Reads new positions, whose keys and values go into the cache at `position`, and returns their causal attention over all
    /// that are stored then.
    ///
    /// # Shapes
    /// `hidden_states` `[batch, tokens, hidden]` → `[batch, tokens, heads·head_dim]`
    pub fn attend(&self, hidden_states: Tensor<B, 3>, cache: &mut LayerCache<B>, position: usize) -> Tensor<B, 3> {
        let attended = self.at_once(cache, position, |norm, projections, preparation, stored| {
            music3_kernels::try_attend_newest(&hidden_states, norm, projections, preparation, stored)
        });
        attended.unwrap_or_else(|| {
            let width = self.norm.width;
            attend_stored(self.read(hidden_states, cache, position), cache, position, width)
        })
    }

    /// Reads new positions: keys and values go into the cache at `position`, the queries are returned.
    ///
    /// # Shapes
    /// `hidden_states` `[batch, tokens, hidden]` → `[batch, tokens, heads, head_dim]`
    pub fn read(&self, hidden_states: Tensor<B, 3>, cache: &mut LayerCache<B>, position: usize) -> Tensor<B, 4> {
        let queries = self.at_once(cache, position, |norm, projections, preparation, stored| {
            music3_kernels::try_read_positions(&hidden_states, norm, projections, preparation, stored)
        });
        queries.unwrap_or_else(|| self.read_plainly(hidden_states, cache, position))
    }

    /// Calls a kernel with what it takes, where values are bf16.
    fn at_once<T>(
        &self,
        cache: &LayerCache<B>,
        position: usize,
        call: impl FnOnce(Norm<'_, B>, [&Tensor<B, 2>; 3], Option<Preparation<'_, B>>, &Stored<'_, B>) -> Option<T>,
    ) -> Option<T> {
        if self.norm.width != Width::Bf16 {
            return None;
        }
        let norm = self.norm.weight.val();
        let [query, key, value] = [self.query, self.key, self.value].map(|projection| projection.weight.val());
        self.with_preparation(|preparation| {
            let (keys, values) = cache.whole();
            let norm = Norm { weight: &norm, eps: self.norm.eps };
            call(norm, [&query, &key, &value], preparation, &Stored { keys, values, position })
        })
    }

    fn read_plainly(&self, hidden_states: Tensor<B, 3>, cache: &mut LayerCache<B>, position: usize) -> Tensor<B, 4> {
        let [batch, tokens, _] = hidden_states.dims();
        let width = self.norm.width;
        let hidden_states = self.norm.forward(hidden_states);
        let projected = [self.query, self.key, self.value].map(|projection| projection.forward(hidden_states.clone()));
        if width == Width::Bf16 {
            let [query, key, value] = projected.each_ref();
            let stored = self.with_preparation(|preparation| {
                let (keys, values) = cache.whole();
                let stored = Stored { keys, values, position };
                music3_kernels::try_store_positions([query, key, value], preparation, &stored)
            });
            if let Some(queries) = stored {
                return queries;
            }
        }
        let split = |x: Tensor<B, 3>| {
            let heads = x.dims()[2] / self.head_dim;
            x.reshape([batch, tokens, heads, self.head_dim])
        };
        let [mut query, mut key, value] = projected.map(split);
        if let Some(HeadPreparation { query_norm, key_norm, rotary }) = &self.preparation {
            // A table has one row per position, and positions are the third dimension there.
            query = rotary.apply(query_norm.forward(query).swap_dims(1, 2), width).swap_dims(1, 2);
            key = rotary.apply(key_norm.forward(key).swap_dims(1, 2), width).swap_dims(1, 2);
        }
        cache.append(position, key.swap_dims(1, 2), value.swap_dims(1, 2));
        query
    }

    /// Calls `with` with the preparation as a kernel takes it.
    fn with_preparation<T>(&self, with: impl FnOnce(Option<Preparation<'_, B>>) -> T) -> T {
        let Some(HeadPreparation { query_norm, key_norm, rotary }) = &self.preparation else { return with(None) };
        let (query, key) = (query_norm.weight.val(), key_norm.weight.val());
        let (cosines, sines) = (rotary.cos(), rotary.sin());
        with(Some(Preparation {
            query: Norm { weight: &query, eps: query_norm.eps },
            key: Norm { weight: &key, eps: key_norm.eps },
            cosines: &cosines,
            sines: &sines,
        }))
    }
}

/// Returns causal attention of the newest positions, which begin at `position`, over all that are stored.
///
/// # Shapes
/// `queries` `[batch, tokens, heads, head_dim]` → `[batch, tokens, heads·head_dim]`
pub fn attend_stored<B: Backend>(
    queries: Tensor<B, 4>,
    cache: &LayerCache<B>,
    position: usize,
    width: Width,
) -> Tensor<B, 3> {
    let (keys, values) = cache.whole();
    if width == Width::Bf16
        && let Some(attended) = music3_kernels::try_attend_stored(&queries, &Stored { keys, values, position })
    {
        return attended;
    }
    let [batch, tokens, heads, head_dim] = queries.dims();
    let (key, value) = cache.stored(position + tokens);
    let attended = ops::scaled_dot_product_attention(queries.swap_dims(1, 2), key, value, AttentionMask::Causal, width);
    attended.swap_dims(1, 2).reshape([batch, tokens, heads * head_dim])
}

/// Returns `silu(gate(n)) ⊙ up(n)` of the normalised input `n`; `silu` rounds before the product.
///
/// # Shapes
/// `[batch, tokens, hidden]` → `[batch, tokens, intermediate]`
pub fn gated<B: Backend>(
    norm: &RmsNorm<B>,
    gate: &Linear<B>,
    up: &Linear<B>,
    hidden_states: Tensor<B, 3>,
) -> Tensor<B, 3> {
    if norm.width == Width::Bf16 {
        let (weight, gate, up) = (norm.weight.val(), gate.weight.val(), up.weight.val());
        let norm = Norm { weight: &weight, eps: norm.eps };
        if let Some(gated) = music3_kernels::try_gated(&hidden_states, norm, &gate, &up) {
            return gated;
        }
    }
    let hidden_states = norm.forward(hidden_states);
    ops::silu_product(gate.forward(hidden_states.clone()), up.forward(hidden_states), norm.width)
}

//! Depth decoder: within one frame, from the language model's hidden state and the semantic code, it predicts the seven
//! residual codes one after another, and its hidden states join the language model's as the frame's condition.
//!
//! # Upstream
//! diffusers 0.42.1 `models/transformers/minimax_music3_rvq_depth_decoder.py`, `MiniMaxMusic3RVQDepthDecoder`.
//! Deviation: keys and values of earlier steps are kept ([`DepthDecoder::forward_cached`]) where upstream runs the
//! whole prefix again; attention is always the MATH form.
//!
//! # Formula
//! ```text
//! h ← inputs_embeds + pos_embedding[0..steps]
//! per layer:  h ← h + to_out · softmax(q kᵀ / √head_dim + causal) v,   q, k, v from RMSNorm(h); no rotary
//!             m ← RMSNorm(h);  h ← h + Wdown (silu(Wgate m) ⊙ Wup m)
//! hidden ← RMSNorm(h)       logits of codebook i ← audio_heads[i − 1] · hidden
//! ```
//!
//! # Tensors
//! ```text
//! audio_embeddings.weight                                    [audio_vocab_size·(num_codebooks − 1), hidden_size]
//! projection.weight                                          [hidden_size, hidden_size]
//! pos_embedding.weight                                       [max_position_embeddings, hidden_size]
//! layers.{i}.{input,post_attention}_layernorm.weight         [hidden_size]
//! layers.{i}.attn.to_{q,k,v,out}.weight                      [hidden_size, hidden_size]
//! layers.{i}.{gate,up}_proj.weight                           [intermediate_size, hidden_size]
//! layers.{i}.down_proj.weight                                [hidden_size, intermediate_size]
//! norm.weight                                                [hidden_size]
//! audio_heads.{i}.weight                                     [audio_vocab_size, hidden_size]
//! ```
//!
//! # Precision
//! Published in bf16. Heads run in the module's dtype; the caller widens their logits.

use burn::{
    module::Module,
    tensor::{Int, Tensor, backend::Backend},
};
use music3_nn::{
    KvCache, LayerCache, Width,
    decoder::{Projections, gated},
    kv_cache::KvCacheShape,
    layers::{Embedding, Linear, RmsNorm},
    ops,
};
use serde::Deserialize;

use crate::error::{ConfigError, refuse_remainder, refuse_zeros};

const COMPONENT: &str = "rvq_depth_decoder";

/// Upstream: `minimax_music3_rvq_depth_decoder.py:71`.
const RMS_NORM_EPS: f32 = 1e-6;

/// Dimensions of the depth decoder, as its `config.json` names them; missing keys take upstream's defaults.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DepthDecoderConfig {
    /// Width of the residual stream; the language model's.
    pub hidden_size: usize,
    /// Layers.
    pub num_layers: usize,
    /// Attention heads.
    pub num_attention_heads: usize,
    /// Width inside the feed-forward.
    pub intermediate_size: usize,
    /// Codes per residual codebook.
    pub audio_vocab_size: usize,
    /// Codebooks of a frame, the semantic one included.
    pub num_codebooks: usize,
    /// Rows of the position table.
    pub max_position_embeddings: usize,
}

impl Default for DepthDecoderConfig {
    fn default() -> Self {
        Self {
            hidden_size: 4096,
            num_layers: 4,
            num_attention_heads: 16,
            intermediate_size: 6144,
            audio_vocab_size: 1024,
            num_codebooks: 8,
            max_position_embeddings: 16,
        }
    }
}

impl DepthDecoderConfig {
    /// Checks that a module can be built from these values.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the key.
    pub fn validate(&self) -> Result<(), ConfigError> {
        refuse_zeros(
            COMPONENT,
            &[
                ("hidden_size", self.hidden_size),
                ("num_layers", self.num_layers),
                ("num_attention_heads", self.num_attention_heads),
                ("intermediate_size", self.intermediate_size),
                ("audio_vocab_size", self.audio_vocab_size),
                ("max_position_embeddings", self.max_position_embeddings),
            ],
        )?;
        if self.num_codebooks < 2 {
            return Err(ConfigError::Unsupported {
                component: COMPONENT,
                key: "num_codebooks",
                found: self.num_codebooks.to_string(),
                expected: "a semantic and at least one residual codebook",
            });
        }
        refuse_remainder(
            COMPONENT,
            ("hidden_size", self.hidden_size),
            ("num_attention_heads", self.num_attention_heads),
        )
    }

    /// Returns a module whose weights are drawn on first use unless they are loaded before.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn init<B: Backend>(&self, width: Width, device: &B::Device) -> Result<DepthDecoder<B>, ConfigError> {
        self.validate()?;
        let hidden = self.hidden_size;
        let residual = self.num_codebooks - 1;
        let linear = |inputs, outputs| Linear::new(inputs, outputs, width, device);
        Ok(DepthDecoder {
            audio_embeddings: Embedding::new(self.audio_vocab_size * residual, hidden, width, device),
            projection: linear(hidden, hidden),
            pos_embedding: Embedding::new(self.max_position_embeddings, hidden, width, device),
            layers: (0..self.num_layers).map(|_| DepthDecoderBlock::new(self, width, device)).collect(),
            norm: RmsNorm::new(hidden, RMS_NORM_EPS, width, device),
            audio_heads: (0..residual).map(|_| linear(hidden, self.audio_vocab_size)).collect(),
            audio_vocab_size: self.audio_vocab_size,
            cache_shape: KvCacheShape {
                layers: self.num_layers,
                batch: 1,
                kv_heads: self.num_attention_heads,
                capacity: self.max_position_embeddings,
                head_dim: hidden / self.num_attention_heads,
            },
            width,
        })
    }
}

/// The depth decoder with the embeddings and heads of the residual codebooks.
#[derive(Module, Debug)]
pub struct DepthDecoder<B: Backend> {
    /// `[audio_vocab_size·(num_codebooks − 1), hidden_size]`
    pub audio_embeddings: Embedding<B>,
    /// `[hidden_size, hidden_size]`
    pub projection: Linear<B>,
    /// `[max_position_embeddings, hidden_size]`
    pub pos_embedding: Embedding<B>,
    /// Layers, first to last.
    pub layers: Vec<DepthDecoderBlock<B>>,
    /// `[hidden_size]`
    pub norm: RmsNorm<B>,
    /// One `[audio_vocab_size, hidden_size]` per residual codebook.
    pub audio_heads: Vec<Linear<B>>,
    #[module(skip)]
    audio_vocab_size: usize,
    #[module(skip)]
    cache_shape: KvCacheShape,
    #[module(skip)]
    width: Width,
}

impl<B: Backend> DepthDecoder<B> {
    /// Returns the codebooks of a frame, the semantic one included.
    pub fn num_codebooks(&self) -> usize {
        self.audio_heads.len() + 1
    }

    /// Returns the codes per residual codebook.
    pub fn audio_vocab_size(&self) -> usize {
        self.audio_vocab_size
    }

    /// Returns the width its values are stored in.
    pub fn width(&self) -> Width {
        self.width
    }

    /// Returns an empty cache for `batch` sequences of at most `capacity` steps.
    ///
    /// # Panics
    /// If `capacity` is more than the position table has rows.
    pub fn cache(&self, batch: usize, capacity: usize) -> KvCache<B> {
        let positions = self.cache_shape.capacity;
        assert!(capacity <= positions, "{capacity} depth steps; the position table has {positions}");
        let device = self.norm.weight.val().device();
        KvCache::new(KvCacheShape { batch, capacity, ..self.cache_shape }, self.width, &device)
    }

    /// Returns the row of `audio_embeddings` that holds `code` of codebook `codebook` (1 for c1).
    pub fn embedding_row(&self, codebook: usize, code: usize) -> usize {
        code + (codebook - 1) * self.audio_vocab_size
    }

    /// Returns the hidden states of a whole sequence of projected embeddings.
    ///
    /// # Shapes
    /// `[batch, steps, hidden_size]` → the same
    ///
    /// # Panics
    /// If there are more steps than positions.
    pub fn forward(&self, inputs_embeds: Tensor<B, 3>) -> Tensor<B, 3> {
        let [batch, steps, _] = inputs_embeds.dims();
        self.forward_cached(inputs_embeds, &mut self.cache(batch, steps))
    }

    /// Returns the hidden states of the steps after those in `cache`, which then holds them too.
    ///
    /// # Shapes
    /// `[batch, steps, hidden_size]` → the same
    ///
    /// # Panics
    /// If the cache's capacity is exceeded.
    pub fn forward_cached(&self, inputs_embeds: Tensor<B, 3>, cache: &mut KvCache<B>) -> Tensor<B, 3> {
        self.extend(inputs_embeds.dims(), cache, |positions| ops::add(inputs_embeds, positions, self.width))
    }

    /// Projects embeddings and returns the hidden states of their steps, which come after those in `cache`.
    ///
    /// # Shapes
    /// `[batch, steps, hidden_size]` → the same
    ///
    /// # Panics
    /// If the cache's capacity is exceeded.
    pub fn read(&self, embeddings: Tensor<B, 3>, cache: &mut KvCache<B>) -> Tensor<B, 3> {
        self.extend(embeddings.dims(), cache, |positions| self.projection.forward_added(embeddings, positions))
    }

    /// Runs the layers on what `positioned` makes of the learned positions, `[1, steps, hidden_size]`.
    fn extend(
        &self,
        [_, steps, _]: [usize; 3],
        cache: &mut KvCache<B>,
        positioned: impl FnOnce(Tensor<B, 3>) -> Tensor<B, 3>,
    ) -> Tensor<B, 3> {
        cache.extend(steps, |caches, position| {
            // 1. Learned positions.
            let positions = self.pos_embedding.weight.val().narrow(0, position, steps).unsqueeze_dim(0);
            let mut hidden_states = positioned(positions);
            // 2. Layers and final norm.
            for (layer, cache) in self.layers.iter().zip(caches) {
                hidden_states = layer.forward(hidden_states, cache, position);
            }
            self.norm.forward(hidden_states)
        })
    }

    /// Returns the embeddings of residual codes, given by row of the table.
    ///
    /// # Shapes
    /// `[batch, codes]` → `[batch, codes, hidden_size]`
    pub fn embed(&self, rows: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        self.audio_embeddings.forward(rows)
    }
}

/// One layer of the depth decoder.
#[derive(Module, Debug)]
pub struct DepthDecoderBlock<B: Backend> {
    /// `[hidden_size]`
    pub input_layernorm: RmsNorm<B>,
    /// Causal attention.
    pub attn: DepthAttention<B>,
    /// `[hidden_size]`
    pub post_attention_layernorm: RmsNorm<B>,
    /// `[intermediate_size, hidden_size]`
    pub gate_proj: Linear<B>,
    /// `[intermediate_size, hidden_size]`
    pub up_proj: Linear<B>,
    /// `[hidden_size, intermediate_size]`
    pub down_proj: Linear<B>,
    #[module(skip)]
    width: Width,
}

impl<B: Backend> DepthDecoderBlock<B> {
    fn new(config: &DepthDecoderConfig, width: Width, device: &B::Device) -> Self {
        let (hidden, intermediate) = (config.hidden_size, config.intermediate_size);
        let linear = |inputs, outputs| Linear::new(inputs, outputs, width, device);
        Self {
            input_layernorm: RmsNorm::new(hidden, RMS_NORM_EPS, width, device),
            attn: DepthAttention {
                to_q: linear(hidden, hidden),
                to_k: linear(hidden, hidden),
                to_v: linear(hidden, hidden),
                to_out: linear(hidden, hidden),
                head_dim: hidden / config.num_attention_heads,
            },
            post_attention_layernorm: RmsNorm::new(hidden, RMS_NORM_EPS, width, device),
            gate_proj: linear(hidden, intermediate),
            up_proj: linear(hidden, intermediate),
            down_proj: linear(intermediate, hidden),
            width,
        }
    }

    fn forward(&self, hidden_states: Tensor<B, 3>, cache: &mut LayerCache<B>, position: usize) -> Tensor<B, 3> {
        // 1. Attention over the steps so far.
        let attended = self.attn.projections(&self.input_layernorm).attend(hidden_states.clone(), cache, position);
        let hidden_states = self.attn.to_out.forward_added(attended, hidden_states);
        // 2. Feed-forward.
        let fed = gated(&self.post_attention_layernorm, &self.gate_proj, &self.up_proj, hidden_states.clone());
        self.down_proj.forward_added(fed, hidden_states)
    }
}

/// Causal attention without rotation.
#[derive(Module, Debug)]
pub struct DepthAttention<B: Backend> {
    /// `[hidden_size, hidden_size]`
    pub to_q: Linear<B>,
    /// `[hidden_size, hidden_size]`
    pub to_k: Linear<B>,
    /// `[hidden_size, hidden_size]`
    pub to_v: Linear<B>,
    /// `[hidden_size, hidden_size]`
    pub to_out: Linear<B>,
    #[module(skip)]
    head_dim: usize,
}

impl<B: Backend> DepthAttention<B> {
    /// Returns what leads from the layer's input to queries, keys and values.
    fn projections<'a>(&'a self, norm: &'a RmsNorm<B>) -> Projections<'a, B> {
        let (query, key, value) = (&self.to_q, &self.to_k, &self.to_v);
        Projections { norm, query, key, value, head_dim: self.head_dim, preparation: None }
    }
}

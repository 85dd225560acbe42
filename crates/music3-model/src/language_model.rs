//! Language model: reads the prompt and then one audio frame at a time, and gives the hidden state that each frame's
//! codes are drawn from. It is the first stage of the pipeline.
//!
//! # Upstream
//! transformers 5.17 `models/qwen3/modeling_qwen3.py`, `Qwen3ForCausalLM`, as loaded by diffusers 0.42.1
//! `modular_pipelines/minimax_music3/encoders.py:248`. Deviations: positions are counted, not passed; no padding mask
//! (both guidance rows have one length); attention is always the MATH form.
//!
//! # Formula
//! ```text
//! h ← embed_tokens(ids)                                      or the caller's inputs_embeds
//! per layer:  a ← RMSNorm(h);  q, k, v ← Wq a, Wk a, Wv a;  q, k ← RoPE(RMSNorm(q)), RoPE(RMSNorm(k))  per head
//!             h ← h + Wo · softmax(q kᵀ / √head_dim + causal) v
//!             m ← RMSNorm(h);  h ← h + Wdown (silu(Wgate m) ⊙ Wup m)
//! hidden ← RMSNorm(h)       logits ← lm_head · hidden
//! ```
//!
//! # Tensors
//! ```text
//! model.embed_tokens.weight                                  [vocab_size, hidden_size]
//! model.layers.{i}.input_layernorm.weight                    [hidden_size]
//! model.layers.{i}.self_attn.q_proj.weight                   [num_attention_heads·head_dim, hidden_size]
//! model.layers.{i}.self_attn.{k,v}_proj.weight               [num_key_value_heads·head_dim, hidden_size]
//! model.layers.{i}.self_attn.o_proj.weight                   [hidden_size, num_attention_heads·head_dim]
//! model.layers.{i}.self_attn.{q,k}_norm.weight               [head_dim]
//! model.layers.{i}.post_attention_layernorm.weight           [hidden_size]
//! model.layers.{i}.mlp.{gate,up}_proj.weight                 [intermediate_size, hidden_size]
//! model.layers.{i}.mlp.down_proj.weight                      [hidden_size, intermediate_size]
//! model.norm.weight                                          [hidden_size]
//! lm_head.weight                                             [vocab_size, hidden_size]
//! ```
//!
//! # Precision
//! Published in bf16. Rotary tables are computed in f32 and then cast to the activations' dtype. `lm_head` runs in the
//! module's dtype; the caller widens its logits.

use std::ops::Range;

use burn::{
    module::Module,
    tensor::{Int, Tensor, backend::Backend},
};
use music3_nn::{
    KvCache, LayerCache, RotaryTable, Width,
    decoder::{HeadPreparation, Projections, gated},
    kv_cache::KvCacheShape,
    layers::{Embedding, Linear, RmsNorm},
};
use serde::Deserialize;

use crate::error::{ConfigError, refuse_remainder, refuse_zeros};

const COMPONENT: &str = "language_model";

/// Dimensions of the language model, as its `config.json` names them; missing keys take upstream's defaults.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct Qwen3Config {
    /// Rows of the embedding table and of the head.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width inside the feed-forward.
    pub intermediate_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; each serves a group of query heads.
    pub num_key_value_heads: usize,
    /// Values per head; not necessarily `hidden_size / num_attention_heads`.
    pub head_dim: usize,
    /// Added to the mean square inside every RMSNorm.
    pub rms_norm_eps: f64,
    /// Rotary base, where the file has it at the top level (older files).
    rope_theta: Option<f64>,
    /// Rotary settings (newer files).
    rope_parameters: Option<RopeParameters>,
    /// Activation of the feed-forward; only `silu` is supported.
    hidden_act: String,
    /// Whether the attention projections have biases; only `false` is supported.
    attention_bias: bool,
    /// Whether the head shares the embedding table; only `false` is supported.
    tie_word_embeddings: bool,
    /// Whether attention is windowed; only `false` is supported.
    use_sliding_window: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct RopeParameters {
    rope_theta: Option<f64>,
    rope_type: Option<String>,
}

/// transformers' default rotary base.
const DEFAULT_ROPE_THETA: f64 = 10_000.0;

impl Default for Qwen3Config {
    fn default() -> Self {
        Self {
            vocab_size: 151_936,
            hidden_size: 4096,
            intermediate_size: 22_016,
            num_hidden_layers: 32,
            num_attention_heads: 32,
            num_key_value_heads: 32,
            head_dim: 128,
            rms_norm_eps: 1e-6,
            rope_theta: None,
            rope_parameters: None,
            hidden_act: "silu".to_owned(),
            attention_bias: false,
            tie_word_embeddings: false,
            use_sliding_window: false,
        }
    }
}

impl Qwen3Config {
    /// Returns the rotary base, from whichever place the file has it in.
    pub fn rope_theta(&self) -> f64 {
        let newer = self.rope_parameters.as_ref().and_then(|rope| rope.rope_theta);
        newer.or(self.rope_theta).unwrap_or(DEFAULT_ROPE_THETA)
    }

    /// Checks that a module can be built from these values.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the key.
    pub fn validate(&self) -> Result<(), ConfigError> {
        refuse_zeros(
            COMPONENT,
            &[
                ("vocab_size", self.vocab_size),
                ("hidden_size", self.hidden_size),
                ("intermediate_size", self.intermediate_size),
                ("num_hidden_layers", self.num_hidden_layers),
                ("num_attention_heads", self.num_attention_heads),
                ("num_key_value_heads", self.num_key_value_heads),
                ("head_dim", self.head_dim),
            ],
        )?;
        refuse_remainder(
            COMPONENT,
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.num_key_value_heads),
        )?;
        refuse_remainder(COMPONENT, ("head_dim", self.head_dim), ("2, the halves that rotate", 2))?;
        if !(self.rms_norm_eps >= 0.0 && self.rms_norm_eps.is_finite()) {
            return Err(ConfigError::Unsupported {
                component: COMPONENT,
                key: "rms_norm_eps",
                found: self.rms_norm_eps.to_string(),
                expected: "a small number, not negative",
            });
        }
        let unsupported =
            |key, found: String, expected| Err(ConfigError::Unsupported { component: COMPONENT, key, found, expected });
        if self.hidden_act != "silu" {
            return unsupported("hidden_act", format!("`{}`", self.hidden_act), "`silu`");
        }
        if let Some(kind) = self.rope_parameters.as_ref().and_then(|rope| rope.rope_type.as_ref())
            && kind != "default"
        {
            return unsupported("rope_parameters.rope_type", format!("`{kind}`"), "`default`");
        }
        let flags = [
            ("attention_bias", self.attention_bias),
            ("tie_word_embeddings", self.tie_word_embeddings),
            ("use_sliding_window", self.use_sliding_window),
        ];
        match flags.iter().find(|(_, set)| *set) {
            Some(&(key, _)) => unsupported(key, "true".to_owned(), "false"),
            None => Ok(()),
        }
    }

    /// Returns a module whose weights are drawn on first use unless they are loaded before.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn init<B: Backend>(&self, width: Width, device: &B::Device) -> Result<Qwen3ForCausalLM<B>, ConfigError> {
        self.validate()?;
        let layers = (0..self.num_hidden_layers).map(|_| Qwen3DecoderLayer::new(self, width, device)).collect();
        Ok(Qwen3ForCausalLM {
            model: Qwen3Model {
                embed_tokens: Embedding::new(self.vocab_size, self.hidden_size, width, device),
                layers,
                norm: RmsNorm::new(self.hidden_size, self.rms_norm_eps as f32, width, device),
            },
            lm_head: Linear::new(self.hidden_size, self.vocab_size, width, device),
            cache_shape: KvCacheShape {
                layers: self.num_hidden_layers,
                batch: 1,
                kv_heads: self.num_key_value_heads,
                capacity: 0,
                head_dim: self.head_dim,
            },
            rope_theta: self.rope_theta(),
            width,
        })
    }
}

/// The language model with its head.
#[derive(Module, Debug)]
pub struct Qwen3ForCausalLM<B: Backend> {
    /// Embedding table, layers and final norm.
    pub model: Qwen3Model<B>,
    /// `[vocab_size, hidden_size]`
    pub lm_head: Linear<B>,
    #[module(skip)]
    cache_shape: KvCacheShape,
    #[module(skip)]
    rope_theta: f64,
    #[module(skip)]
    width: Width,
}

/// What one run of the language model carries from forward to forward.
#[derive(Clone, Debug)]
pub struct Qwen3State<B: Backend> {
    cache: KvCache<B>,
    rotary: RotaryTable<B>,
}

impl<B: Backend> Qwen3State<B> {
    /// Returns the number of positions read so far.
    pub fn position(&self) -> usize {
        self.cache.len()
    }

    /// Goes back to an earlier position; what was read from there on is forgotten.
    ///
    /// # Panics
    /// If it has not been reached.
    pub fn rewind(&mut self, position: usize) {
        self.cache.truncate(position);
    }
}

impl<B: Backend> Qwen3ForCausalLM<B> {
    /// Returns an empty state for `batch` sequences of at most `capacity` positions.
    pub fn state(&self, batch: usize, capacity: usize) -> Qwen3State<B> {
        let device = self.model.norm.weight.val().device();
        let shape = KvCacheShape { batch, capacity, ..self.cache_shape };
        Qwen3State {
            cache: KvCache::new(shape, self.width, &device),
            rotary: RotaryTable::new(shape.head_dim, self.rope_theta, capacity, self.width, &device),
        }
    }

    /// Returns the embeddings of `ids`.
    ///
    /// # Shapes
    /// `[batch, tokens]` → `[batch, tokens, hidden_size]`
    pub fn embed(&self, ids: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        self.model.embed_tokens.forward(ids)
    }

    /// Reads `inputs_embeds` at the positions after those in `state`, and returns the hidden states after the final
    /// norm. Called with a whole prompt it is the prefill, called with one position a decode step.
    ///
    /// # Shapes
    /// `[batch, tokens, hidden_size]` → the same
    ///
    /// # Panics
    /// If the state's capacity is exceeded.
    pub fn forward(&self, inputs_embeds: Tensor<B, 3>, state: &mut Qwen3State<B>) -> Tensor<B, 3> {
        let tokens = inputs_embeds.dims()[1];
        let rotary = &state.rotary;
        state.cache.extend(tokens, |caches, position| {
            let rotary = rotary.narrow(position, tokens);
            let mut hidden_states = inputs_embeds;
            for (layer, cache) in self.model.layers.iter().zip(caches) {
                hidden_states = layer.forward(hidden_states, &rotary, cache, position);
            }
            self.model.norm.forward(hidden_states)
        })
    }

    /// Returns the logits of all tokens, in the module's width.
    ///
    /// # Shapes
    /// `[batch, hidden_size]` → `[batch, vocab_size]`
    pub fn logits(&self, hidden_states: Tensor<B, 2>) -> Tensor<B, 2> {
        self.lm_head.forward(hidden_states)
    }

    /// Returns the logits of the tokens in `rows` only: the same values, without reading the rest of the head.
    ///
    /// # Shapes
    /// `[batch, hidden_size]` → `[batch, rows.len()]`
    pub fn logits_of(&self, hidden_states: Tensor<B, 2>, rows: Range<usize>) -> Tensor<B, 2> {
        self.lm_head.forward_rows(hidden_states, rows)
    }
}

/// The language model without its head.
#[derive(Module, Debug)]
pub struct Qwen3Model<B: Backend> {
    /// `[vocab_size, hidden_size]`
    pub embed_tokens: Embedding<B>,
    /// Decoder layers, first to last.
    pub layers: Vec<Qwen3DecoderLayer<B>>,
    /// `[hidden_size]`
    pub norm: RmsNorm<B>,
}

/// One decoder layer.
#[derive(Module, Debug)]
pub struct Qwen3DecoderLayer<B: Backend> {
    /// `[hidden_size]`
    pub input_layernorm: RmsNorm<B>,
    /// Grouped-query attention.
    pub self_attn: Qwen3Attention<B>,
    /// `[hidden_size]`
    pub post_attention_layernorm: RmsNorm<B>,
    /// Gated feed-forward.
    pub mlp: Qwen3Mlp<B>,
    #[module(skip)]
    width: Width,
}

impl<B: Backend> Qwen3DecoderLayer<B> {
    fn new(config: &Qwen3Config, width: Width, device: &B::Device) -> Self {
        let norm = || RmsNorm::new(config.hidden_size, config.rms_norm_eps as f32, width, device);
        Self {
            input_layernorm: norm(),
            self_attn: Qwen3Attention::new(config, width, device),
            post_attention_layernorm: norm(),
            mlp: Qwen3Mlp {
                gate_proj: Linear::new(config.hidden_size, config.intermediate_size, width, device),
                up_proj: Linear::new(config.hidden_size, config.intermediate_size, width, device),
                down_proj: Linear::new(config.intermediate_size, config.hidden_size, width, device),
            },
            width,
        }
    }

    fn forward(
        &self,
        hidden_states: Tensor<B, 3>,
        rotary: &RotaryTable<B>,
        cache: &mut LayerCache<B>,
        position: usize,
    ) -> Tensor<B, 3> {
        // 1. Attention over everything read so far, this position included.
        let projections = self.self_attn.projections(&self.input_layernorm, rotary);
        let attended = projections.attend(hidden_states.clone(), cache, position);
        let hidden_states = self.self_attn.o_proj.forward_added(attended, hidden_states);
        // 2. Feed-forward.
        let Qwen3Mlp { gate_proj, up_proj, down_proj } = &self.mlp;
        let fed = gated(&self.post_attention_layernorm, gate_proj, up_proj, hidden_states.clone());
        down_proj.forward_added(fed, hidden_states)
    }
}

/// Grouped-query attention with normalised queries and keys.
#[derive(Module, Debug)]
pub struct Qwen3Attention<B: Backend> {
    /// `[num_attention_heads·head_dim, hidden_size]`
    pub q_proj: Linear<B>,
    /// `[num_key_value_heads·head_dim, hidden_size]`
    pub k_proj: Linear<B>,
    /// `[num_key_value_heads·head_dim, hidden_size]`
    pub v_proj: Linear<B>,
    /// `[hidden_size, num_attention_heads·head_dim]`
    pub o_proj: Linear<B>,
    /// `[head_dim]`
    pub q_norm: RmsNorm<B>,
    /// `[head_dim]`
    pub k_norm: RmsNorm<B>,
    #[module(skip)]
    head_dim: usize,
}

impl<B: Backend> Qwen3Attention<B> {
    fn new(config: &Qwen3Config, width: Width, device: &B::Device) -> Self {
        let (hidden, head_dim) = (config.hidden_size, config.head_dim);
        let kv_dim = config.num_key_value_heads * head_dim;
        let query_dim = config.num_attention_heads * head_dim;
        let norm = || RmsNorm::new(head_dim, config.rms_norm_eps as f32, width, device);
        Self {
            q_proj: Linear::new(hidden, query_dim, width, device),
            k_proj: Linear::new(hidden, kv_dim, width, device),
            v_proj: Linear::new(hidden, kv_dim, width, device),
            o_proj: Linear::new(query_dim, hidden, width, device),
            q_norm: norm(),
            k_norm: norm(),
            head_dim,
        }
    }

    /// Returns what leads from the layer's input to queries, keys and values: projections, norms per head, rotation.
    fn projections<'a>(&'a self, norm: &'a RmsNorm<B>, rotary: &'a RotaryTable<B>) -> Projections<'a, B> {
        Projections {
            norm,
            query: &self.q_proj,
            key: &self.k_proj,
            value: &self.v_proj,
            head_dim: self.head_dim,
            preparation: Some(HeadPreparation { query_norm: &self.q_norm, key_norm: &self.k_norm, rotary }),
        }
    }
}

/// Gated feed-forward: `down(silu(gate(x)) ⊙ up(x))`, where `silu` rounds before the product.
#[derive(Module, Debug)]
pub struct Qwen3Mlp<B: Backend> {
    /// `[intermediate_size, hidden_size]`
    pub gate_proj: Linear<B>,
    /// `[intermediate_size, hidden_size]`
    pub up_proj: Linear<B>,
    /// `[hidden_size, intermediate_size]`
    pub down_proj: Linear<B>,
}

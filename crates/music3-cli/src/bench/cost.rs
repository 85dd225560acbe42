//! The least that a call must read and compute, from the configuration: each weight, stored key and value and input read
//! once, products and attention counted, everything of less order left out.

use std::ops::AddAssign;

use music3::ModelConfigs;
use music3_audio::WindowPlan;
use music3_model::{ConditionMixConfig, DepthDecoderConfig, Qwen3Config, Transformer1DModelConfig, VocoderConfig};
use music3_text::token_ids::{AUDIO_END, SEMANTIC_CODE_OFFSET, SEMANTIC_CODES};
use serde::Serialize;

/// The conditional and the unconditional row.
const ROWS: usize = 2;

/// What a call reads and computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Cost {
    /// Bytes of weights read.
    pub(super) weight_bytes: f64,
    /// Bytes of keys, values and inputs read.
    pub(super) state_bytes: f64,
    /// Floating-point operations, multiplications and additions counted apart.
    pub(super) flop: f64,
}

impl Cost {
    /// Returns all bytes read.
    pub(super) fn bytes(&self) -> f64 {
        self.weight_bytes + self.state_bytes
    }

    fn times(self, count: usize) -> Self {
        let count = count as f64;
        Self { weight_bytes: self.weight_bytes * count, state_bytes: self.state_bytes * count, flop: self.flop * count }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.weight_bytes += other.weight_bytes;
        self.state_bytes += other.state_bytes;
        self.flop += other.flop;
    }
}

/// Values in the matrices of all layers of the language model, and in its norms.
fn language_model_values(config: &Qwen3Config) -> (usize, usize) {
    let (hidden, inner) = (config.hidden_size, config.num_attention_heads * config.head_dim);
    let kv = config.num_key_value_heads * config.head_dim;
    let matrices = 2 * hidden * inner + 2 * hidden * kv + 3 * hidden * config.intermediate_size;
    let norms = 2 * hidden + 2 * config.head_dim;
    (config.num_hidden_layers * matrices, config.num_hidden_layers * norms + hidden)
}

/// One decode step of both rows after `context` positions, with the head over the end token and the semantic codes.
pub(super) fn decode_step(config: &Qwen3Config, context: usize, value_bytes: usize) -> Cost {
    let (matrices, norms) = language_model_values(config);
    let rows = (SEMANTIC_CODE_OFFSET + SEMANTIC_CODES - AUDIO_END) as usize;
    let head = rows * config.hidden_size;
    let kv = config.num_key_value_heads * config.head_dim;
    let inner = config.num_attention_heads * config.head_dim;
    let layers = config.num_hidden_layers;
    Cost {
        weight_bytes: ((matrices + norms + head) * value_bytes) as f64,
        state_bytes: (layers * 2 * ROWS * kv * context * value_bytes) as f64,
        flop: (2 * ROWS) as f64 * (matrices + head) as f64 + (4 * ROWS * layers * inner * (context + 1)) as f64,
    }
}

/// Both rows of a prompt; the head is not computed.
pub(super) fn prefill(config: &Qwen3Config, tokens: usize, value_bytes: usize) -> Cost {
    let (matrices, norms) = language_model_values(config);
    let inner = config.num_attention_heads * config.head_dim;
    // A token sees those before it and itself.
    let seen = (tokens * (tokens + 1) / 2) as f64;
    Cost {
        weight_bytes: ((matrices + norms) * value_bytes) as f64,
        state_bytes: (ROWS * tokens * config.hidden_size * value_bytes) as f64,
        flop: (2 * ROWS * tokens) as f64 * matrices as f64
            + (4 * ROWS * config.num_hidden_layers * inner) as f64 * seen,
    }
}

/// The residual codes of one frame: the first step reads two tokens, the others one.
pub(super) fn depth_frame(config: &DepthDecoderConfig, value_bytes: usize) -> Cost {
    let (hidden, steps) = (config.hidden_size, config.num_codebooks - 1);
    let layers = config.num_layers * (4 * hidden * hidden + 3 * hidden * config.intermediate_size);
    let norms = config.num_layers * 2 * hidden + hidden;
    let projection = hidden * hidden;
    let head = config.audio_vocab_size * hidden;
    let tokens = steps + 1;
    // Before step s, s + 1 positions are stored, none before the first.
    let stored: usize = (2..tokens).sum();
    let seen = tokens * (tokens + 1) / 2;
    let values = steps * (layers + norms + projection + head);
    Cost {
        weight_bytes: (values * value_bytes) as f64,
        state_bytes: (config.num_layers * 2 * ROWS * hidden * stored * value_bytes) as f64,
        flop: (2 * ROWS) as f64 * (tokens * (layers + projection) + steps * head) as f64
            + (4 * ROWS * config.num_layers * hidden * seen) as f64,
    }
}

/// One forward of the transformer.
pub(super) fn transformer(config: &Transformer1DModelConfig, rows: usize, latents: usize, value_bytes: usize) -> Cost {
    let dim = config.num_attention_heads * config.attention_head_dim;
    let concat = 2 * config.in_channels + config.condition_dim;
    let block = 4 * dim * dim + 3 * dim * config.ff_inner_dim;
    let block_vectors = 4 * dim + 2 * config.ff_inner_dim + dim;
    let time = dim * config.fourier_embedding_dim + dim * dim;
    let ends = concat * concat + concat * dim + dim * config.in_channels + config.in_channels * config.in_channels;
    let values = config.num_layers * (block + block_vectors) + time + 2 * dim + config.fourier_embedding_dim / 2 + ends;
    let tokens = latents + 1;
    let products = config.num_layers * block * tokens + ends * latents + time;
    Cost {
        weight_bytes: (values * value_bytes) as f64,
        state_bytes: (rows * latents * (config.in_channels + config.condition_dim) * value_bytes) as f64,
        flop: (2 * rows) as f64 * products as f64
            + (4 * rows * config.num_layers * dim) as f64 * (tokens * tokens) as f64,
    }
}

/// The condition of one window.
pub(super) fn condition(config: &ConditionMixConfig, frames: usize, value_bytes: usize) -> Cost {
    let (hidden, layers) = (config.condition_hidden_dim, config.num_condition_layers);
    let weight = 3 * config.out_dim * hidden;
    Cost {
        weight_bytes: ((weight + config.out_dim + layers + 1) * value_bytes) as f64,
        state_bytes: (frames * layers * hidden * value_bytes) as f64,
        flop: 2.0 * (frames * (weight + layers * hidden)) as f64,
    }
}

/// The samples of one window; both streams.
pub(super) fn vocoder(config: &VocoderConfig, latents: usize, value_bytes: usize) -> Cost {
    let (input, hidden) = (config.decoder_input_dim, config.decoder_hidden_dim);
    let first = config.latent_channels / 2 * input + 7 * input * hidden;
    let (mut values, mut vectors) = (first, input + hidden);
    let (mut products, mut length) = (first * latents, latents);
    for (index, &ratio) in config.upsampling_ratios.iter().enumerate() {
        let (inputs, outputs) = (hidden >> index, hidden >> (index + 1));
        // Each input is spread over twice as many taps as there are outputs for it.
        let spread = inputs * outputs * 2 * ratio;
        // Three units of a seven-tap and a one-tap convolution.
        let units = 3 * 8 * outputs * outputs;
        products += spread * length;
        length = length * ratio - ratio % 2;
        products += units * length;
        values += spread + units;
        // Biases and the alphas of the activations.
        vectors += inputs + outputs + 3 * 4 * outputs;
    }
    let last = hidden >> config.upsampling_ratios.len();
    Cost {
        weight_bytes: ((values + vectors + 8 * last + 1) * value_bytes) as f64,
        state_bytes: (config.latent_channels * latents * value_bytes) as f64,
        flop: (2 * ROWS) as f64 * (products + 7 * last * length) as f64,
    }
}

/// A song: what was asked for and what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SongSize {
    pub(super) prompt_tokens: usize,
    pub(super) frames: usize,
    pub(super) steps: usize,
    /// Bytes of a stored value in the autoregressive and in the acoustic half.
    pub(super) value_bytes: (usize, usize),
}

/// All stages of a song.
pub(super) fn song(configs: &ModelConfigs, size: SongSize) -> Cost {
    let (autoregressive, acoustic) = size.value_bytes;
    let mut cost = prefill(&configs.language_model, size.prompt_tokens, autoregressive);
    // The step that only moves the state past the prompt is one more than there are frames; the last one's code is not
    // read back, and the head runs once on what the prefill left.
    for frame in 0..size.frames {
        cost += decode_step(&configs.language_model, size.prompt_tokens + frame, autoregressive);
    }
    cost += depth_frame(&configs.rvq_depth_decoder, autoregressive).times(size.frames + 1);
    for window in WindowPlan::new(size.frames, &configs.latent_rates()).windows() {
        cost += condition(&configs.condition_encoder, window.frames.len(), autoregressive);
        cost += transformer(&configs.transformer, ROWS, window.latents, acoustic).times(size.steps);
        cost += vocoder(&configs.vocoder, window.latents, acoustic);
    }
    cost
}

#[cfg(test)]
mod tests {
    use music3::{ModelConfigs, synth::Dims};

    use super::*;

    fn published() -> ModelConfigs {
        ModelConfigs::of_dims(Dims::Published).expect("the published dimensions")
    }

    /// Within one in ten thousand of a count made by hand.
    fn assert_near(found: f64, by_hand: f64) {
        assert!((found / by_hand - 1.0).abs() < 1e-4, "{found} is not about {by_hand}");
    }

    #[test]
    fn a_decode_step_reads_the_layers_the_audio_rows_and_the_cache() {
        let config = published().language_model;
        // A layer: 2·4096·4096 + 2·4096·1024 + 3·4096·12288 = 192 937 984; 36 of them 6 945 767 424. The head: 16 389 rows
        // of 4096, 67 129 344. In bf16 14.026 GB.
        let cost = decode_step(&config, 512, 2);
        assert_near(cost.weight_bytes, 2.0 * (6_945_767_424.0 + 67_129_344.0 + 36.0 * 8448.0 + 4096.0));
        assert_near(cost.weight_bytes, 14.026e9);
        // 36 layers, keys and values, 2 rows, 8 heads of 128, 512 positions, 2 bytes: 151 MB.
        assert_eq!(cost.state_bytes, 150_994_944.0);
        // 4 · 7.0129e9 for the products; 4 · 2 · 36 · 4096 · 513 for the attention.
        assert_near(cost.flop, 28.0516e9 + 0.6051e9);
    }

    #[test]
    fn a_prefill_reads_the_layers_once() {
        let config = published().language_model;
        let cost = prefill(&config, 100, 2);
        assert_near(cost.weight_bytes, 13.8922e9);
        // 400 · 6.945767e9, and 4 · 2 · 36 · 4096 · 5050 for the attention.
        assert_near(cost.flop, 2.778307e12 + 5.9572e9);
    }

    #[test]
    fn a_frame_of_the_depth_decoder_reads_its_layers_seven_times() {
        let config = published().rvq_depth_decoder;
        // Layers 4 · (4·4096² + 3·4096·6144) = 570 425 344, projection 16 777 216, a head 4 194 304, norms 36 864:
        // 7 · 591 433 728 values in bf16.
        let cost = depth_frame(&config, 2);
        assert_eq!(cost.weight_bytes, 14.0 * 591_433_728.0);
        // 27 stored positions, 4 layers, keys and values, 2 rows of 4096.
        assert_eq!(cost.state_bytes, (27 * 4 * 2 * 2 * 4096 * 2) as f64);
        // 4 · (8 · 587 202 560 + 7 · 4 194 304), and 4 · 2 · 4 · 4096 · 36 for the attention.
        assert_eq!(cost.flop, 4.0 * (4_697_620_480.0 + 29_360_128.0) + 4_718_592.0);
    }

    #[test]
    fn the_transformer_reads_what_is_stored() {
        let config = published().transformer;
        let cost = transformer(&config, 2, 688, 4);
        // The published files hold 9 727 623 680 bytes of it.
        assert_eq!(cost.weight_bytes, 9_727_623_680.0);
        // Blocks 36 · 67 108 864 · 689, ends (2304² + 2304·2048 + 2048·128 + 128²) · 688, time 4 718 592: 4 times that;
        // attention 4 · 2 · 36 · 2048 · 689².
        assert_near(cost.flop, 4.0 * (1.664568e12 + 7.0903e9) + 2.80003e11);
    }

    #[test]
    fn the_condition_encoder_mixes_and_convolves() {
        let config = published().condition_encoder;
        let cost = condition(&config, 200, 2);
        assert_eq!(cost.weight_bytes, 2.0 * (25_165_824.0 + 2048.0 + 9.0));
        assert_eq!(cost.state_bytes, 13_107_200.0);
        assert_eq!(cost.flop, 2.0 * 200.0 * (25_165_824.0 + 32_768.0));
    }

    #[test]
    fn the_vocoder_reads_what_is_folded() {
        let config = published().vocoder;
        let cost = vocoder(&config, 344, 4);
        // By hand: first 64·1024 + 7·1024·1536 = 11 075 584; spreads 1536·768·16 + 768·384·16 + 384·192·8 + 192·96·4 =
        // 24 256 512; units 24·(768² + 384² + 192² + 96²) = 18 800 640; last 7·96 = 672; biases and alphas: 2560 in front,
        // 2880 + 13 · 1440 = 21 600 in the blocks, 97 behind.
        assert_eq!(cost.weight_bytes, 4.0 * (11_075_584.0 + 24_256_512.0 + 18_800_640.0 + 672.0 + 24_257.0));
        // Per latent: 11 075 584; 18 874 368 + 8·14 155 776; 8·4 718 592 + 64·3 538 944; 64·589 824 + 256·884 736;
        // 256·73 728 + 512·221 184; 512·672: 804 143 104 in all.
        assert_near(cost.flop, 4.0 * 344.0 * 804_143_104.0);
    }

    #[test]
    fn a_song_is_the_sum_of_its_parts() {
        let configs = published();
        let size = SongSize { prompt_tokens: 100, frames: 250, steps: 30, value_bytes: (2, 4) };
        let cost = song(&configs, size);
        // Two windows, of 200 and 150 frames: 689 and 516 latents.
        let windows: f64 =
            [689, 516].iter().map(|&latents| transformer(&configs.transformer, 2, latents, 4).flop).sum();
        let rest = cost.flop - 30.0 * windows;
        assert!(rest > 0.0 && rest < 0.2 * cost.flop, "{rest} of {}", cost.flop);
        let steps: f64 = (100..350).map(|context| decode_step(&configs.language_model, context, 2).bytes()).sum();
        assert!(cost.bytes() > steps + 251.0 * 8.28e9 && cost.bytes() < 1.2 * (steps + 251.0 * 8.28e9 + 60.0 * 9.73e9));
    }
}

//! What a run will need, from the configurations alone: memory per stage and arithmetic.

use burn::tensor::{DType, backend::Backend};
use music3_audio::WindowPlan;
use music3_nn::Width;
use music3_weights::{Checkpoint, Component};

use crate::{configs::ModelConfigs, error::Stage, precision::Precision};

/// Room for what a formula leaves out: allocator slack, read buffers, the program itself.
const OVERHEAD_BYTES: u64 = 300 << 20;

/// How a backend stores bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bf16Storage {
    /// In two bytes a value.
    Native,
    /// In f32, which it widens to: four bytes a value.
    Widened,
}

impl Bf16Storage {
    /// Asks backend `B`.
    pub fn of<B: Backend>(device: &B::Device) -> Self {
        match Width::Bf16.store_dtype::<B>(device) {
            DType::BF16 => Self::Native,
            _ => Self::Widened,
        }
    }

    fn bytes(self, width: Width) -> u64 {
        match (self, width) {
            (Self::Native, Width::Bf16) => 2,
            (Self::Native, Width::F32) | (Self::Widened, _) => 4,
        }
    }
}

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSize {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Frames at most.
    pub max_frames: usize,
    /// Euler steps per window.
    pub steps: usize,
}

/// Memory and arithmetic of one stage.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct StageEstimate {
    /// The stage.
    pub stage: Stage,
    /// Weights as they are stored in memory.
    pub weight_bytes: u64,
    /// Caches and intermediate values at their largest.
    pub work_bytes: u64,
    /// Floating-point operations, multiplications and additions counted apart.
    pub flop: f64,
}

/// Memory and arithmetic of a run. Stages are loaded and dropped in turn, so the peak is the largest stage.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// The stages in the order they run.
    pub stages: [StageEstimate; 3],
}

impl Estimate {
    /// Estimates a run on a backend that stores bf16 in the given way.
    pub fn new(
        checkpoint: &Checkpoint,
        configs: &ModelConfigs,
        precision: Precision,
        size: RunSize,
        storage: Bf16Storage,
    ) -> Self {
        let sizes = Sizes {
            configs,
            size,
            autoregressive_bytes: storage.bytes(precision.autoregressive()),
            acoustic_bytes: storage.bytes(precision.acoustic()),
            parameters: &|component| checkpoint.component(component).summary().parameters,
        };
        Self { stages: [sizes.autoregressive(), sizes.flow(), sizes.vocoder()] }
    }

    /// Returns the estimate of the acoustic half alone: the autoregressive stage needs nothing, and what it left,
    /// `kept_bytes` on the host, stays beside the others.
    #[must_use]
    pub fn of_rendering(mut self, kept_bytes: u64) -> Self {
        let [autoregressive, acoustic @ ..] = &mut self.stages;
        *autoregressive = StageEstimate { weight_bytes: 0, work_bytes: 0, flop: 0.0, ..*autoregressive };
        acoustic.iter_mut().for_each(|stage| stage.work_bytes += kept_bytes);
        self
    }

    /// Returns the stage that needs most memory and its need.
    pub fn peak(&self) -> (Stage, u64) {
        let need = |stage: &StageEstimate| stage.weight_bytes + stage.work_bytes + OVERHEAD_BYTES;
        let mut peak = (self.stages[0].stage, need(&self.stages[0]));
        for stage in &self.stages[1..] {
            if need(stage) > peak.1 {
                peak = (stage.stage, need(stage));
            }
        }
        peak
    }

    /// Returns the floating-point operations of all stages.
    pub fn flop(&self) -> f64 {
        self.stages.iter().map(|stage| stage.flop).sum()
    }
}

struct Sizes<'a> {
    configs: &'a ModelConfigs,
    size: RunSize,
    autoregressive_bytes: u64,
    acoustic_bytes: u64,
    parameters: &'a dyn Fn(Component) -> u64,
}

impl Sizes<'_> {
    fn autoregressive(&self) -> StageEstimate {
        let lm = &self.configs.language_model;
        let depth = &self.configs.rvq_depth_decoder;
        let positions = self.size.prompt_tokens + self.size.max_frames + 1;
        let kv_values = 4 * lm.num_hidden_layers * lm.num_key_value_heads * lm.head_dim * positions;
        let hiddens = self.size.max_frames * depth.num_codebooks * lm.hidden_size;
        // Both rows of the prompt inside one feed-forward, in f32: gate, up, and their product.
        let prefill = 4 * 6 * self.size.prompt_tokens * lm.intermediate_size;
        let weights = (self.parameters)(Component::LanguageModel) + (self.parameters)(Component::RvqDepthDecoder);
        // Per position and row: the layers' weights once, of the head only its audio rows.
        let tables = 2 * lm.vocab_size * lm.hidden_size;
        let per_position = (self.parameters)(Component::LanguageModel).saturating_sub(tables as u64) as f64
            + (16_385 * lm.hidden_size) as f64;
        let tables = (depth.audio_vocab_size * (depth.num_codebooks - 1) * depth.hidden_size) as u64;
        let per_depth_step = (self.parameters)(Component::RvqDepthDecoder).saturating_sub(2 * tables) as f64;
        let flop = 4.0 * per_position * positions as f64
            + 4.0 * per_depth_step * (depth.num_codebooks * (self.size.max_frames + 1)) as f64;
        StageEstimate {
            stage: Stage::Autoregressive,
            weight_bytes: weights * self.autoregressive_bytes,
            work_bytes: (kv_values + hiddens) as u64 * self.autoregressive_bytes + prefill as u64,
            flop,
        }
    }

    fn flow(&self) -> StageEstimate {
        let transformer = &self.configs.transformer;
        let plan = WindowPlan::new(self.size.max_frames, &self.configs.latent_rates());
        let windows = plan.windows().len();
        let tokens = plan.windows().iter().map(|window| window.latents + 1).max().unwrap_or(1);
        let dim = transformer.num_attention_heads * transformer.attention_head_dim;
        // Both rows in f32: the two halves of a feed-forward with their product, and one block's scores.
        let feed_forward = 4 * 2 * tokens * (6 * transformer.ff_inner_dim + 8 * dim);
        let scores = 4 * 3 * 2 * transformer.num_attention_heads * tokens * tokens;
        let parameters = (self.parameters)(Component::Transformer);
        let hiddens = self.size.max_frames
            * self.configs.rvq_depth_decoder.num_codebooks
            * self.configs.language_model.hidden_size;
        let condition_encoder = (self.parameters)(Component::ConditionEncoder) * self.autoregressive_bytes;
        let attention = 8.0 * (tokens * tokens * dim * transformer.num_layers) as f64;
        let per_step = 4.0 * parameters as f64 * tokens as f64 + attention;
        StageEstimate {
            stage: Stage::Flow,
            weight_bytes: parameters * self.acoustic_bytes + condition_encoder,
            work_bytes: (feed_forward + scores) as u64 + hiddens as u64 * self.autoregressive_bytes,
            flop: per_step * (self.size.steps * windows) as f64,
        }
    }

    fn vocoder(&self) -> StageEstimate {
        let vocoder = &self.configs.vocoder;
        let plan = WindowPlan::new(self.size.max_frames, &self.configs.latent_rates());
        let latents = plan.windows().iter().map(|window| window.latents).max().unwrap_or(1);
        let (mut length, mut widest, mut flop) = (latents, 0, 0.0);
        for (index, ratio) in vocoder.upsampling_ratios.iter().enumerate() {
            let inputs = vocoder.decoder_hidden_dim >> index;
            let outputs = inputs / 2;
            // The transposed convolution, then three units of a seven-tap and a one-tap convolution; both streams.
            flop += 4.0 * (inputs * outputs * 2 * ratio * length) as f64;
            length *= ratio;
            flop += 4.0 * (24 * outputs * outputs * length) as f64;
            widest = widest.max(2 * outputs * length);
        }
        StageEstimate {
            stage: Stage::Vocoder,
            weight_bytes: (self.parameters)(Component::Vocoder) * self.acoustic_bytes,
            // A residual, its padded copy, a sum and its next term, and Snake's three intermediates, in f32.
            work_bytes: (4 * 7 * widest + 8 * length * plan.windows().len()) as u64,
            flop: flop * plan.windows().len() as f64,
        }
    }
}

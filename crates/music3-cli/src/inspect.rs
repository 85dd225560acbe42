//! `music3 inspect`: what a checkpoint folder holds, from its configurations and headers alone.

use std::{path::Path, process::ExitCode};

use music3::{Bf16Storage, Estimate, ModelConfigs, Precision, RunSize, Stage, demo::Demo};
use music3_text::{PromptTokenizer, TextError};
use music3_weights::{Checkpoint, CheckpointSummary, Component, WeightsError};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    args::InspectArgs,
    demo_args::DemoArg,
    failure::{Failure, chain},
    figures,
    generate::no_such_folder,
    terminal::answer,
};

/// The song that memory is estimated for: a minute from a prompt of usual length.
const USUAL: RunSize = RunSize { prompt_tokens: 400, max_frames: 1500, steps: 30 };

/// Shows a checkpoint.
pub(crate) fn run(args: InspectArgs) -> Result<ExitCode, Failure> {
    let folder = match args.folder {
        None => music3::demo::unpack(args.demo.map_or(Demo::Tunes, DemoArg::demo))?,
        Some(folder) if folder.exists() => folder,
        Some(folder) => return Err(no_such_folder(&folder)),
    };
    let inspected = Inspected::of(&folder)?;
    if args.json { answer(inspected.to_json()) } else { answer(inspected.text()) }?;
    // The table is shown either way; a checkpoint that does not load is a failure all the same.
    match inspected.problems() {
        problems if problems.is_empty() => Ok(ExitCode::SUCCESS),
        problems => Err(Failure::run(problems.join("\n"))),
    }
}

/// What was found.
struct Inspected {
    summary: CheckpointSummary,
    configs: ModelConfigs,
    raw_configs: Map<String, Value>,
    memory: Vec<Memory>,
    /// Why the tensors do not fit the configurations, if they do not.
    problems: Option<WeightsError>,
    /// Why the tokenizer is not this model's, if it is not.
    tokenizer: Option<TextError>,
}

/// Memory of a run.
#[derive(Serialize)]
struct Memory {
    precision: Precision,
    /// Which backends store bf16 so.
    backends: &'static str,
    peak_bytes: u64,
    peak_stage: Stage,
    weight_bytes: Vec<u64>,
}

impl Inspected {
    fn of(folder: &Path) -> Result<Self, Failure> {
        let checkpoint = Checkpoint::open(folder).map_err(music3::SongError::from)?;
        let configs = ModelConfigs::read(&checkpoint)?;
        let memory = [Precision::Mixed, Precision::F32, Precision::Bf16].into_iter().flat_map(|precision| {
            let kinds = [(Bf16Storage::Native, "flex, cuda"), (Bf16Storage::Widened, "ndarray")];
            kinds.map(|(storage, backends)| {
                let estimate = Estimate::new(&checkpoint, &configs, precision, USUAL, storage);
                let (peak_stage, peak_bytes) = estimate.peak();
                let weight_bytes = estimate.stages.iter().map(|stage| stage.weight_bytes).collect();
                Memory { precision, backends, peak_bytes, peak_stage, weight_bytes }
            })
        });
        let raw_configs = Component::ALL
            .map(|component| (component.folder().to_owned(), checkpoint.component(component).config().clone()));
        Ok(Self {
            memory: memory.collect(),
            summary: checkpoint.summary(),
            tokenizer: PromptTokenizer::from_file(checkpoint.tokenizer().join("tokenizer.json")).err(),
            raw_configs: raw_configs.into_iter().collect(),
            problems: checkpoint.plans().err(),
            configs,
        })
    }

    fn text(&self) -> String {
        let mut lines = vec![self.summary.to_string()];
        let bytes = figures::bytes(self.summary.bytes());
        lines.push(match &self.problems {
            None => format!("{bytes}; every tensor is in its place"),
            Some(_) => format!("{bytes}; the tensors do not fit the configurations"),
        });
        if self.tokenizer.is_some() {
            lines.push("the tokenizer is not this model's".to_owned());
        }
        lines.push("\ndimensions".to_owned());
        lines.extend(self.dimensions());
        let (seconds, steps) = (USUAL.max_frames / 25, USUAL.steps);
        lines.push(format!("\nmemory for {seconds} s of music, {steps} steps; stages are loaded in turn"));
        lines.push(format!(
            "  {:<10} {:<11} {:>9}  {:<21} weights of each stage",
            "precision", "backend", "peak", "in the"
        ));
        for memory in &self.memory {
            let Memory { precision, backends, peak_bytes, peak_stage, weight_bytes } = memory;
            let weights: Vec<String> = weight_bytes.iter().map(|&bytes| figures::bytes(bytes)).collect();
            lines.push(format!(
                "  {:<10} {backends:<11} {:>9}  {:<21} {}",
                precision.to_string(),
                figures::bytes(*peak_bytes),
                peak_stage.to_string(),
                weights.join(" + ")
            ));
        }
        lines.push(self.together());
        lines.join("\n")
    }

    /// Why no stage can be made smaller, in the figures of this checkpoint.
    fn together(&self) -> String {
        let parameters = |component| self.summary.components.iter().find(|one| one.component == component);
        let half: u64 = [Component::LanguageModel, Component::RvqDepthDecoder]
            .into_iter()
            .filter_map(|component| Some(parameters(component)?.parameters))
            .sum();
        format!(
            "  language model and depth decoder make each frame together and cannot be loaded in turn: {} in bf16; \
             ndarray\n  stores f32 and needs {} for them",
            figures::bytes(half * 2),
            figures::bytes(half * 4)
        )
    }

    /// All that keeps the checkpoint from being loaded.
    fn problems(&self) -> Vec<String> {
        let weights = self.problems.iter().map(|error| chain(error));
        weights.chain(self.tokenizer.iter().map(|error| chain(error))).collect()
    }

    fn dimensions(&self) -> [String; 5] {
        let ModelConfigs { language_model: lm, rvq_depth_decoder: depth, .. } = &self.configs;
        let ModelConfigs { condition_encoder: condition, transformer, vocoder, .. } = &self.configs;
        let line = |component: Component, text: String| format!("  {:<18} {text}", component.folder());
        [
            line(
                Component::LanguageModel,
                format!(
                    "{} layers, hidden {}, {} query and {} key/value heads of {}, feed-forward {}, {} tokens",
                    lm.num_hidden_layers,
                    lm.hidden_size,
                    lm.num_attention_heads,
                    lm.num_key_value_heads,
                    lm.head_dim,
                    lm.intermediate_size,
                    lm.vocab_size
                ),
            ),
            line(
                Component::RvqDepthDecoder,
                format!(
                    "{} layers, hidden {}, {} heads, feed-forward {}, {} codebooks, {} codes in c1 and up",
                    depth.num_layers,
                    depth.hidden_size,
                    depth.num_attention_heads,
                    depth.intermediate_size,
                    depth.num_codebooks,
                    depth.audio_vocab_size
                ),
            ),
            line(
                Component::ConditionEncoder,
                format!(
                    "{} hidden states of {}, out {}",
                    condition.num_condition_layers, condition.condition_hidden_dim, condition.out_dim
                ),
            ),
            line(
                Component::Transformer,
                format!(
                    "{} layers, {} heads of {}, feed-forward {}, {} latent channels, condition {}",
                    transformer.num_layers,
                    transformer.num_attention_heads,
                    transformer.attention_head_dim,
                    transformer.ff_inner_dim,
                    transformer.in_channels,
                    transformer.condition_dim
                ),
            ),
            line(
                Component::Vocoder,
                format!(
                    "hidden {}, upsampling {:?}, {} Hz",
                    vocoder.decoder_hidden_dim, vocoder.upsampling_ratios, vocoder.sampling_rate
                ),
            ),
        ]
    }

    fn to_json(&self) -> String {
        let value = serde_json::json!({
            "checkpoint": self.summary,
            "bytes": self.summary.bytes(),
            "tensors": self.summary.tensors(),
            "parameters": self.summary.parameters(),
            "configs": self.raw_configs,
            "memory": self.memory,
            "memory_is_for": { "seconds": USUAL.max_frames / 25, "steps": USUAL.steps },
            "problems": self
                .problems
                .iter()
                .flat_map(|error| error.problems())
                .map(ToString::to_string)
                .chain(self.tokenizer.iter().map(|error| chain(error)))
                .collect::<Vec<_>>(),
        });
        format!("{value:#}")
    }
}

//! What one call of each benchmark does.

use std::time::Instant;

use burn::tensor::{DType, Tensor, TensorData, backend::Backend};
use music3::{
    ControlTokens, Sampler, SongError, SongRequest, Stage,
    autoregressive::{AutoregressiveHalf, Picker, depth_cache, depth_frame},
    flow::{Flow, FlowOptions},
    rng::TorchGenerator,
    vocode::vocode,
};
use music3_nn::{Width, ops};
use music3_text::PromptTokenizer;
use music3_weights::Component;

use super::{
    args::{BenchCommand, SongArgs},
    cost::{self, Cost, SongSize},
    setup::Builder,
    timing::{Call, Outcome, SongOutcome, StageTime, finish},
};
use crate::{
    failure::Failure,
    generate::{DEMO_CAPTION, DEMO_LYRICS},
};

/// The conditional and the unconditional row.
const ROWS: usize = 2;

/// Positions that a context is filled with at once, so that what is computed on the way stays small.
const FILLED_AT_ONCE: usize = 512;

/// A call, and what it costs at least.
pub(super) struct Work<'a> {
    pub(super) call: Box<Call<'a>>,
    pub(super) cost: Box<dyn Fn(&Outcome) -> Cost>,
    /// What was timed, in words and numbers.
    pub(super) what: serde_json::Value,
    /// The widths that the modules are stored in.
    pub(super) widths: Vec<Width>,
}

/// Builds what a benchmark needs.
pub(super) fn prepare<B: Backend>(
    command: &BenchCommand,
    builder: &mut Builder<'_, B>,
) -> Result<Work<'static>, Failure> {
    let seed = command.common().seed;
    B::seed(&builder.device, seed);
    match command {
        BenchCommand::Dit(args) => dit(builder, args.rows, args.latents),
        BenchCommand::Lm(args) => match args.prefill {
            Some(tokens) => prefill(builder, tokens),
            None => decode_step(builder, args.context, seed),
        },
        BenchCommand::Depth(_) => depth(builder, seed),
        BenchCommand::Condition(args) => condition(builder, args.frames),
        BenchCommand::Vocoder(args) => vocoder(builder, args.latents),
        BenchCommand::Song(args) => song(builder, args),
    }
}

fn dit<B: Backend>(builder: &mut Builder<'_, B>, rows: usize, latents: usize) -> Result<Work<'static>, Failure> {
    let (config, width) = (builder.configs.transformer.clone(), builder.precision.acoustic());
    let module = config.init(width, &builder.device).map_err(SongError::from)?;
    let module = builder.fill(module, Component::Transformer, width)?.with_joined_projections();
    let noise = builder.input([rows, config.in_channels, latents], width);
    let condition = builder.input([rows, latents, config.condition_dim], width);
    let time =
        Tensor::<B, 1>::from_data(TensorData::from(vec![0.5_f32; rows].as_slice()), (&builder.device, DType::F32));
    let time = ops::round(time, width);
    let cost = cost::transformer(&config, rows, latents, builder.value_bytes(width));
    let rotary = module.rotary(latents + 1, &builder.device);
    let call = move || {
        drop(module.forward_rotated(noise.clone(), time.clone(), condition.clone(), &rotary));
        Ok(Outcome::default())
    };
    let what = serde_json::json!({ "component": "dit", "call": "one forward", "rows": rows, "latents": latents });
    Ok(work(call, cost, what, width))
}

fn prefill<B: Backend>(builder: &mut Builder<'_, B>, tokens: usize) -> Result<Work<'static>, Failure> {
    let (config, width) = (builder.configs.language_model.clone(), builder.precision.autoregressive());
    let module = config.init(width, &builder.device).map_err(SongError::from)?;
    let module = builder.fill(module, Component::LanguageModel, width)?;
    let embeds = builder.input([ROWS, tokens, config.hidden_size], width);
    let mut state = module.state(ROWS, tokens);
    let cost = cost::prefill(&config, tokens, builder.value_bytes(width));
    let call = move || {
        state.rewind(0);
        drop(module.forward(embeds.clone(), &mut state));
        Ok(Outcome::default())
    };
    let what = serde_json::json!({
        "component": "lm", "call": "reading a prompt, without the head", "rows": ROWS, "tokens": tokens
    });
    Ok(work(call, cost, what, width))
}

fn decode_step<B: Backend>(builder: &mut Builder<'_, B>, context: usize, seed: u64) -> Result<Work<'static>, Failure> {
    let (config, width) = (builder.configs.language_model.clone(), builder.precision.autoregressive());
    let module = config.init(width, &builder.device).map_err(SongError::from)?;
    let depth = builder.configs.rvq_depth_decoder.init(width, &builder.device).map_err(SongError::from)?;
    let half = AutoregressiveHalf {
        language_model: builder.fill(module, Component::LanguageModel, width)?,
        // Only named: nothing of it is used, so none of its weights are drawn.
        rvq_depth_decoder: depth,
    };
    let mut state = half.language_model.state(ROWS, context + 1);
    let mut filled = 0;
    while filled < context {
        let tokens = FILLED_AT_ONCE.min(context - filled);
        drop(half.language_model.forward(builder.input([ROWS, tokens, config.hidden_size], width), &mut state));
        filled += tokens;
    }
    finish::<B>(&builder.device)?;
    let feedback = builder.input([ROWS, 1, config.hidden_size], width);
    let sampler = Sampler::new(TorchGenerator::new(seed), config.vocab_size);
    let mut step = 0;
    let mut picker = Picker::choose(&half.rvq_depth_decoder, sampler, &(), &builder.device);
    let cost = cost::decode_step(&config, context, builder.value_bytes(width));
    let call = move || {
        state.rewind(context);
        let hidden = half.language_model.forward(feedback.clone(), &mut state);
        picker.begin(step);
        step += 1;
        picker.semantic(half.semantic_logits(hidden.squeeze_dim(1)), &mut ())?;
        let pending = picker.end();
        picker.codes(pending)?;
        Ok(Outcome::default())
    };
    let what = serde_json::json!({
        "component": "lm", "call": "one decode step, the head over the audio rows and the draw", "rows": ROWS,
        "context": context
    });
    Ok(work(call, cost, what, width))
}

fn depth<B: Backend>(builder: &mut Builder<'_, B>, seed: u64) -> Result<Work<'static>, Failure> {
    let (config, width) = (builder.configs.rvq_depth_decoder.clone(), builder.precision.autoregressive());
    let module = config.init(width, &builder.device).map_err(SongError::from)?;
    let module = builder.fill(module, Component::RvqDepthDecoder, width)?;
    let last_hidden = builder.input([ROWS, config.hidden_size], width);
    let embedding = builder.input([ROWS, 1, config.hidden_size], width);
    let sampler = Sampler::new(TorchGenerator::new(seed), builder.configs.language_model.vocab_size);
    let mut step = 0;
    let mut picker = Picker::choose(&module, sampler, &(), &builder.device);
    let mut cache = depth_cache(&module);
    let cost = cost::depth_frame(&config, builder.value_bytes(width));
    let call = move || {
        picker.begin(step);
        step += 1;
        let mut pick = |codebook, logits| picker.residual(codebook, logits, &mut ());
        depth_frame(&module, &mut cache, last_hidden.clone(), embedding.clone(), &mut pick)?;
        // A frame without a semantic code is no whole frame, so the picker would take it for the song's end.
        if let Some(pending) = picker.end() {
            pending.wait().map_err(Failure::run)?;
        }
        Ok(Outcome::default())
    };
    let what = serde_json::json!({
        "component": "depth", "call": "one frame with its draws", "rows": ROWS, "steps": config.num_codebooks - 1
    });
    Ok(work(call, cost, what, width))
}

fn condition<B: Backend>(builder: &mut Builder<'_, B>, frames: usize) -> Result<Work<'static>, Failure> {
    let (config, width) = (builder.configs.condition_encoder.clone(), builder.precision.autoregressive());
    let module = config.init(width, &builder.device).map_err(SongError::from)?;
    let module = builder.fill(module, Component::ConditionEncoder, width)?;
    let hiddens = builder.input([1, frames, config.num_condition_layers * config.condition_hidden_dim], width);
    let cost = cost::condition(&config, frames, builder.value_bytes(width));
    let call = move || {
        drop(module.forward(hiddens.clone()));
        Ok(Outcome::default())
    };
    Ok(work(
        call,
        cost,
        serde_json::json!({ "component": "condition", "call": "one forward", "frames": frames }),
        width,
    ))
}

fn vocoder<B: Backend>(builder: &mut Builder<'_, B>, latents: usize) -> Result<Work<'static>, Failure> {
    let (config, width) = (builder.configs.vocoder.clone(), builder.precision.acoustic());
    let module = config.init(width, &builder.device).map_err(SongError::from)?;
    let module = builder.fill(module, Component::Vocoder, width)?;
    let input = builder.input([1, config.latent_channels, latents], width);
    let cost = cost::vocoder(&config, latents, builder.value_bytes(width));
    let call = move || {
        drop(module.forward(input.clone()));
        Ok(Outcome::default())
    };
    Ok(work(
        call,
        cost,
        serde_json::json!({ "component": "vocoder", "call": "one forward", "latents": latents }),
        width,
    ))
}

/// A whole song. All components stay loaded, so it takes the memory of all stages together.
fn song<B: Backend>(builder: &mut Builder<'_, B>, args: &SongArgs) -> Result<Work<'static>, Failure> {
    let (seed, steps) = (args.common.seed, args.steps);
    let request = SongRequest { max_seconds: args.seconds, steps, seed, ..SongRequest::new(DEMO_CAPTION, DEMO_LYRICS) };
    let max_frames = request.validate()?;
    let tokenizer = PromptTokenizer::from_file(builder.tokenizer()?.join("tokenizer.json")).map_err(SongError::from)?;
    let prompt = tokenizer.encode(&request.caption, &request.lyrics, ControlTokens::Refuse).map_err(SongError::from)?;
    let (half, flow, vocoder) = components(builder)?;
    let (configs, device) = (builder.configs.clone(), builder.device.clone());
    let (rates, vocab_size) = (configs.latent_rates(), configs.language_model.vocab_size);
    let (autoregressive, acoustic) = (builder.precision.autoregressive(), builder.precision.acoustic());
    let value_bytes = (builder.value_bytes(autoregressive), builder.value_bytes(acoustic));
    let call = move || {
        let mut sampler = Sampler::new(TorchGenerator::new(seed), vocab_size);
        let mut stages = Vec::with_capacity(3);
        let mut start = Instant::now();
        let mut ended = |stage: Stage| -> Result<(), Failure> {
            finish::<B>(&device)?;
            stages.push(StageTime { stage, seconds: start.elapsed().as_secs_f64() });
            // As between the stages of a song whose modules come and go.
            B::memory_cleanup(&device);
            start = Instant::now();
            Ok(())
        };
        let frames = half.run(&prompt, max_frames, &mut sampler, &mut ())?;
        ended(Stage::Autoregressive)?;
        let made = frames.frame_hiddens.dims()[1];
        let latents =
            flow.run(frames.frame_hiddens, FlowOptions { steps, ..FlowOptions::default() }, &mut sampler, &mut ())?;
        ended(Stage::Flow)?;
        let audio = vocode(&vocoder, latents, &rates, &mut ())?;
        ended(Stage::Vocoder)?;
        let song = SongOutcome {
            prompt_tokens: prompt.conditional.len(),
            frames: made,
            audio_seconds: audio.duration_secs(),
            stages,
        };
        Ok(Outcome { song: Some(song) })
    };
    let cost = move |outcome: &Outcome| match &outcome.song {
        Some(SongOutcome { prompt_tokens, frames, .. }) => {
            cost::song(&configs, SongSize { prompt_tokens: *prompt_tokens, frames: *frames, steps, value_bytes })
        }
        None => Cost::default(),
    };
    let what = serde_json::json!({
        "component": "song", "call": "a whole song", "seconds": args.seconds, "steps": steps, "max_frames": max_frames
    });
    Ok(Work { call: Box::new(call), cost: Box::new(cost), what, widths: widths([autoregressive, acoustic]) })
}

/// All components of a song.
type Components<B> = (AutoregressiveHalf<B>, Flow<B>, music3_model::Vocoder<B>);

fn components<B: Backend>(builder: &mut Builder<'_, B>) -> Result<Components<B>, Failure> {
    let configs = builder.configs.clone();
    let (autoregressive, acoustic) = (builder.precision.autoregressive(), builder.precision.acoustic());
    let device = builder.device.clone();
    let module = configs.language_model.init(autoregressive, &device).map_err(SongError::from)?;
    let language_model = builder.fill(module, Component::LanguageModel, autoregressive)?;
    let module = configs.rvq_depth_decoder.init(autoregressive, &device).map_err(SongError::from)?;
    let rvq_depth_decoder = builder.fill(module, Component::RvqDepthDecoder, autoregressive)?;
    let module = configs.condition_encoder.init(autoregressive, &device).map_err(SongError::from)?;
    let condition_encoder = builder.fill(module, Component::ConditionEncoder, autoregressive)?;
    let module = configs.transformer.init(acoustic, &device).map_err(SongError::from)?;
    let transformer = builder.fill(module, Component::Transformer, acoustic)?.with_joined_projections();
    let module = configs.vocoder.init(acoustic, &device).map_err(SongError::from)?;
    let vocoder = builder.fill(module, Component::Vocoder, acoustic)?;
    Ok((AutoregressiveHalf { language_model, rvq_depth_decoder }, Flow { condition_encoder, transformer }, vocoder))
}

/// A call whose cost does not depend on what came of it.
fn work(
    call: impl FnMut() -> Result<Outcome, Failure> + 'static,
    cost: Cost,
    what: serde_json::Value,
    width: Width,
) -> Work<'static> {
    Work { call: Box::new(call), cost: Box::new(move |_| cost), what, widths: vec![width] }
}

fn widths([first, second]: [Width; 2]) -> Vec<Width> {
    if first == second { vec![first] } else { vec![first, second] }
}

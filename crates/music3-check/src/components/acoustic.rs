//! Transformer and vocoder, whole and in parts.

use burn::tensor::backend::Backend;
use music3_model::{
    Transformer1DModelConfig, VocoderConfig,
    transformer::TransformerBlockConfig,
    vocoder::{Snake1d, VocoderBlockConfig},
};
use music3_nn::{RotaryTable, Width};
use music3_weights::Component;
use serde::Deserialize;

use super::{Computed, Context};
use crate::{CheckError, judge::Answers, values::Values};

/// Upstream: `transformer_minimax_music3.py:42`.
const ROPE_THETA: f64 = 10_000.0;

/// The part of a block's case that is not the block's: upstream hands the rotary tables in.
#[derive(Deserialize)]
struct BlockRotary {
    rotary_dim: usize,
}

pub(super) fn transformer_block<B: Backend>(context: &Context<'_, B>) -> Result<Computed, CheckError> {
    let (width, device) = (context.acoustic(), context.device);
    let config: TransformerBlockConfig = context.case.config_as()?;
    let BlockRotary { rotary_dim } = context.case.config_as()?;
    let part = (Component::Transformer, "transformer_blocks.{i}");
    let block = context.load_part(config.init::<B>(width, device), part, width)?;
    let mut answers = Answers::new();
    for label in context.case.labels("in.")? {
        let input = context.input::<3>(&format!("in.{label}"), config.dim, width)?;
        let tokens = input.dims()[1];
        let rotary = RotaryTable::new(rotary_dim, ROPE_THETA, tokens, width, device);
        // Upstream's tables are f32 in every dtype and are cast where they are used.
        let tables = RotaryTable::<B>::new(rotary_dim, ROPE_THETA, tokens, Width::F32, device);
        answers.insert(format!("cos_{label}"), Values::of(tables.cos(), Width::F32));
        answers.insert(format!("sin_{label}"), Values::of(tables.sin(), Width::F32));
        answers.insert(label, Values::of(block.forward(input, &rotary), width));
    }
    Ok(answers.into())
}

pub(super) fn transformer<B: Backend>(context: &Context<'_, B>) -> Result<Computed, CheckError> {
    let (case, width) = (context.case, context.acoustic());
    let config: Transformer1DModelConfig = case.config_as()?;
    let module = config.init::<B>(width, context.device).map_err(|source| case.config_error(source))?;
    let module = context.load(module, Component::Transformer, width)?;
    let mut answers = Answers::new();
    for label in case.labels("in.latents_")? {
        let [latents_name, condition_name, timestep_name] =
            ["latents", "condition", "timestep"].map(|input| format!("in.{input}_{label}"));
        let latents = case.input::<B, 3>(&latents_name, width, context.device)?;
        let condition = context.input::<3>(&condition_name, config.condition_dim, width)?;
        let timestep = case.input::<B, 1>(&timestep_name, width, context.device)?;
        let [batch, _, length] = latents.dims();
        case.expect_dim(&latents_name, &latents.dims(), (1, config.in_channels))?;
        case.expect_dim(&condition_name, &condition.dims(), (0, batch))?;
        case.expect_dim(&condition_name, &condition.dims(), (1, length))?;
        case.expect_dim(&timestep_name, &timestep.dims(), (0, batch))?;
        answers.insert(label, Values::of(module.forward(latents, timestep, condition), width));
    }
    Ok(answers.into())
}

pub(super) fn snake<B: Backend>(context: &Context<'_, B>) -> Result<Computed, CheckError> {
    let (case, width) = (context.case, context.acoustic());
    let alpha = case.stored("w.alpha")?;
    let [_, channels, _] = *alpha.shape() else {
        return Err(case.wrong_shape("w.alpha", alpha.shape(), "[1, channels, 1]".to_owned()));
    };
    let module = Snake1d::<B>::new(channels, width, context.device);
    let module = context.load_part(module, (Component::Vocoder, "snake_out"), width)?;
    let answers = context.each_input::<3>(width, |name, input| {
        case.expect_dim(name, &input.dims(), (1, channels))?;
        Ok(module.forward(input))
    })?;
    Ok(answers.into())
}

pub(super) fn vocoder_block<B: Backend>(context: &Context<'_, B>) -> Result<Computed, CheckError> {
    let (case, width) = (context.case, context.acoustic());
    let config: VocoderBlockConfig = case.config_as()?;
    let block = config.init::<B>(width, context.device);
    let block = context.load_part(block, (Component::Vocoder, "blocks.{i}"), width)?;
    let answers = context.each_input::<3>(width, |name, input| {
        case.expect_dim(name, &input.dims(), (1, config.input_dim))?;
        Ok(block.forward(input))
    })?;
    Ok(answers.into())
}

pub(super) fn vocoder<B: Backend>(context: &Context<'_, B>) -> Result<Computed, CheckError> {
    let (case, width) = (context.case, context.acoustic());
    let config: VocoderConfig = case.config_as()?;
    let module = config.init::<B>(width, context.device).map_err(|source| case.config_error(source))?;
    let module = context.load(module, Component::Vocoder, width)?;
    let answers = context.each_input::<3>(width, |name, input| {
        case.expect_dim(name, &input.dims(), (1, config.latent_channels))?;
        Ok(module.forward(input))
    })?;
    Ok(answers.into())
}

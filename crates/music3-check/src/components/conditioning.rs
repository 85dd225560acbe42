//! Condition encoder and depth decoder: one forward per input.

use burn::tensor::backend::Backend;
use music3_model::{ConditionMixConfig, DepthDecoderConfig};
use music3_weights::Component;

use super::{Computed, Context};
use crate::CheckError;

pub(super) fn condition_encoder<B: Backend>(context: &Context<'_, B>) -> Result<Computed, CheckError> {
    let width = context.autoregressive();
    let config: ConditionMixConfig = context.case.config_as()?;
    let module = config.init::<B>(width, context.device).map_err(|source| context.case.config_error(source))?;
    let module = context.load(module, Component::ConditionEncoder, width)?;
    let hidden = config.num_condition_layers * config.condition_hidden_dim;
    let answers = context.each_input::<3>(width, |name, input| {
        context.case.expect_dim(name, &input.dims(), (2, hidden))?;
        Ok(module.forward(input))
    })?;
    Ok(answers.into())
}

pub(super) fn rvq_depth_decoder<B: Backend>(context: &Context<'_, B>) -> Result<Computed, CheckError> {
    let width = context.autoregressive();
    let config: DepthDecoderConfig = context.case.config_as()?;
    let module = config.init::<B>(width, context.device).map_err(|source| context.case.config_error(source))?;
    let module = context.load(module, Component::RvqDepthDecoder, width)?;
    let answers = context.each_input::<3>(width, |name, input| {
        let [_, steps, _] = input.dims();
        context.case.expect_dim(name, &input.dims(), (2, config.hidden_size))?;
        match steps <= config.max_position_embeddings {
            true => Ok(module.forward(input)),
            false => {
                let expected = format!("at most {} steps", config.max_position_embeddings);
                Err(context.case.wrong_shape(name, &input.dims(), expected))
            }
        }
    })?;
    Ok(answers.into())
}

//! The language model: a prefill, then decode steps through the cache.

use burn::tensor::{Tensor, backend::Backend};
use music3_model::{Qwen3Config, Qwen3ForCausalLM};
use music3_weights::Component;

use super::{Computed, Context};
use crate::{CheckError, judge::Answers, values::Values};

pub(super) fn language_model<B: Backend>(context: &Context<'_, B>) -> Result<Computed, CheckError> {
    let (case, width) = (context.case, context.autoregressive());
    let config: Qwen3Config = case.config_as()?;
    let module = config.init::<B>(width, context.device).map_err(|source| case.config_error(source))?;
    let module = context.load(module, Component::LanguageModel, width)?;
    let mut answers = Answers::new();
    for label in case.labels("in.ids_")? {
        let (ids_name, embeds_name) = (format!("in.ids_{label}"), format!("in.decode_embeds_{label}"));
        let ids = case.int_input::<B, 2>(&ids_name, context.device)?;
        case.expect_ids(&ids_name, config.vocab_size)?;
        let embeds = context.input::<4>(&embeds_name, config.hidden_size, width)?;
        case.expect_dim(&embeds_name, &embeds.dims(), (1, ids.dims()[0]))?;
        case.expect_dim(&embeds_name, &embeds.dims(), (2, 1))?;
        let (hidden, logits) = prefill_and_decode(&module, module.embed(ids), embeds);
        answers.insert(format!("hidden_{label}"), Values::of(hidden, width));
        answers.insert(format!("logits_{label}"), Values::of(logits, width));
    }
    Ok(answers.into())
}

/// `[batch, tokens, hidden]` and `[steps, batch, 1, hidden]` → the hidden states of all positions and the logits of the
/// last position of the prefill and of every step.
fn prefill_and_decode<B: Backend>(
    module: &Qwen3ForCausalLM<B>,
    prompt: Tensor<B, 3>,
    steps: Tensor<B, 4>,
) -> (Tensor<B, 3>, Tensor<B, 3>) {
    let [batch, tokens, hidden_size] = prompt.dims();
    let mut state = module.state(batch, tokens + steps.dims()[0]);
    let (mut hiddens, mut logits) = (Vec::new(), Vec::new());
    let decode = steps.iter_dim(0).map(|embeds| embeds.reshape([batch, 1, hidden_size]));
    for embeds in std::iter::once(prompt).chain(decode) {
        let hidden = module.forward(embeds, &mut state);
        let last = hidden.dims()[1] - 1;
        logits.push(module.logits(hidden.clone().narrow(1, last, 1).reshape([batch, hidden_size])));
        hiddens.push(hidden);
    }
    (Tensor::cat(hiddens, 1), Tensor::stack(logits, 0))
}

//! One runner per component: builds the module from a case, runs it on the case's inputs, names its outputs.

mod acoustic;
mod conditioning;
mod depth_loop;
pub(crate) mod flow;
mod language_model;
mod sampling;
mod schedule;
mod tables;
mod text;

use std::ops::ControlFlow;

use burn::{
    module::Module,
    tensor::{Tensor, backend::Backend},
};
use music3::Precision;
use music3_nn::Width;
use music3_weights::{Component, Plan, Prefixed, TensorSource, WeightsError, load_module};
use serde_json::Value;

use crate::{
    CheckError,
    case::{CaseFile, wrap},
    judge::Answers,
    kind::CaseKind,
    row::Row,
    values::Values,
};

/// What a runner computed.
pub(crate) enum Computed {
    /// Tensors, compared with the case's.
    Tensors {
        /// The outputs by name.
        answers: Answers,
        /// What was compared apart from tensors.
        rows: Vec<Row>,
    },
    /// Strings or tables, compared already.
    Table {
        /// One row per table.
        rows: Vec<Row>,
        /// The answers in the case's own form.
        answers: Value,
    },
}

impl From<Answers> for Computed {
    fn from(answers: Answers) -> Self {
        Self::Tensors { answers, rows: Vec::new() }
    }
}

/// A case on its way through a backend.
pub(crate) struct Context<'a, B: Backend> {
    pub(crate) case: &'a CaseFile,
    pub(crate) precision: Precision,
    pub(crate) device: &'a B::Device,
}

/// Runs every component but whole pipelines.
pub(crate) fn compute<B: Backend>(context: &Context<'_, B>) -> Result<Computed, CheckError> {
    context.refuse_unexpected_weights()?;
    match context.case.kind() {
        CaseKind::ConditionEncoder => conditioning::condition_encoder(context),
        CaseKind::RvqDepthDecoder => conditioning::rvq_depth_decoder(context),
        CaseKind::DepthLoop => depth_loop::depth_loop(context),
        CaseKind::LanguageModel => language_model::language_model(context),
        CaseKind::TransformerBlock => acoustic::transformer_block(context),
        CaseKind::Transformer => acoustic::transformer(context),
        CaseKind::Snake => acoustic::snake(context),
        CaseKind::VocoderBlock => acoustic::vocoder_block(context),
        CaseKind::Vocoder => acoustic::vocoder(context),
        CaseKind::GuidedLogits => sampling::guided_logits(context.case),
        CaseKind::SampleProbs => sampling::sample_probs(context.case),
        CaseKind::Schedule => schedule::schedule(context),
        CaseKind::Flow => flow::flow(context),
        CaseKind::PromptStrings => text::prompt_strings(context.case),
        CaseKind::PromptTokenIds => text::prompt_token_ids(context.case),
        CaseKind::Windows => tables::windows(context.case),
        CaseKind::NearestIndex => tables::nearest_index(context),
        CaseKind::Durations => tables::durations(context.case),
        CaseKind::Pipeline => unreachable!("captures are replayed, not computed"),
    }
}

impl<B: Backend> Context<'_, B> {
    fn autoregressive(&self) -> Width {
        self.precision.autoregressive()
    }

    fn acoustic(&self) -> Width {
        self.precision.acoustic()
    }

    /// Fills a whole component from the tensors `w.*`, all of which it must use.
    fn load<M: Module<B>>(&self, module: M, component: Component, width: Width) -> Result<M, CheckError> {
        let source = self.case.tensors()?.with_prefix("w.");
        self.load_from(module, (component, &self.case.config()), &source, width)
    }

    /// Fills a component from given tensors, all of which it must use.
    fn load_from<M: Module<B>>(
        &self,
        module: M,
        (component, config): (Component, &Value),
        source: &Prefixed<'_>,
        width: Width,
    ) -> Result<M, CheckError> {
        let plan = Plan::new(component, config, source).map_err(|error| wrap(self.case.path(), error))?;
        load(module, &plan, source, width).map_err(|error| wrap(self.case.path(), error))
    }

    /// Fills a part of a component from the tensors `w.*`, all of which it must use.
    fn load_part<M: Module<B>>(
        &self,
        module: M,
        (component, part): (Component, &str),
        width: Width,
    ) -> Result<M, CheckError> {
        let source = self.case.tensors()?.with_prefix("w.");
        let plan =
            Plan::for_part::<B, M>(component, part, &module, &source).map_err(|source| self.part_error(source))?;
        load(module, &plan, &source, width).map_err(|source| self.part_error(source))
    }

    /// A part's problems are told in the words of the component it is a part of, and the case is for the part.
    fn part_error(&self, source: WeightsError) -> CheckError {
        CheckError::Part { path: self.case.path().to_owned(), part: self.case.kind().name(), source }
    }

    /// Returns an input whose last dimension must be `last`.
    fn input<const D: usize>(&self, name: &str, last: usize, width: Width) -> Result<Tensor<B, D>, CheckError> {
        let tensor = self.case.input::<B, D>(name, width, self.device)?;
        let shape = tensor.dims();
        match shape[D - 1] == last {
            true => Ok(tensor),
            false => Err(self.case.wrong_shape(name, &shape, format!("{D} dimensions, the last of {last}"))),
        }
    }

    /// Runs a module on every input `in.<x>` and names the result `<x>`.
    fn each_input<const D: usize>(
        &self,
        width: Width,
        forward: impl Fn(&str, Tensor<B, D>) -> Result<Tensor<B, D>, CheckError>,
    ) -> Result<Answers, CheckError> {
        let mut answers = Answers::new();
        for label in self.case.labels("in.")? {
            let name = format!("in.{label}");
            let input = self.case.input(&name, width, self.device)?;
            answers.insert(label, Values::of(forward(&name, input)?, width));
        }
        Ok(answers)
    }

    /// Refuses weights where nothing is there to be filled: they would silently not be used.
    fn refuse_unexpected_weights(&self) -> Result<(), CheckError> {
        let without = [CaseKind::GuidedLogits, CaseKind::SampleProbs, CaseKind::Schedule];
        if !without.contains(&self.case.kind()) {
            return Ok(());
        }
        match self.case.labels("w.")?.first() {
            None => Ok(()),
            Some(label) => Err(CheckError::Name {
                path: self.case.path().with_extension("safetensors"),
                name: format!("w.{label}"),
                problem: "this component has no weights",
            }),
        }
    }
}

fn load<B: Backend, M: Module<B>>(
    module: M,
    plan: &Plan,
    source: &dyn TensorSource,
    width: Width,
) -> Result<M, WeightsError> {
    load_module::<B, M>(module, plan, source, width, &mut |_| ControlFlow::Continue(()))
}

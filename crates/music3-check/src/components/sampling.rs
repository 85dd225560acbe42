//! Guidance, candidate filter and the probabilities of a draw, all on the host.

use music3::sampling::{guided_candidates, sample_probabilities};

use super::Computed;
use crate::{CheckError, case::CaseFile, judge::Answers, values::Values};

pub(super) fn guided_logits(case: &CaseFile) -> Result<Computed, CheckError> {
    let (scale, candidates, kept): (f32, usize, usize) =
        (case.value("cfg_scale")?, case.value("cfg_top_k")?, case.value("sampling_top_k")?);
    let mut answers = Answers::new();
    for label in case.labels("in.cond_")? {
        let (conditional, shape) = case.floats(&format!("in.cond_{label}"))?;
        let name = format!("in.uncond_{label}");
        let (unconditional, other) = case.floats(&name)?;
        case.expect_same(&name, &other, &shape)?;
        if shape.last() != Some(&conditional.len()) {
            return Err(case.wrong_shape(&name, &other, "one row".to_owned()));
        }
        let guided = guided_candidates(&conditional, &unconditional, scale, candidates);
        let probabilities = sample_probabilities(&guided, kept);
        answers.insert(format!("guided_{label}"), Values::f32(guided, shape.clone()));
        answers.insert(format!("probs_{label}"), Values::f32(probabilities, shape));
    }
    Ok(answers.into())
}

pub(super) fn sample_probs(case: &CaseFile) -> Result<Computed, CheckError> {
    let mut answers = Answers::new();
    for label in case.labels("in.")? {
        let (logits, shape) = case.floats(&format!("in.{label}"))?;
        let width = shape.last().copied().unwrap_or(0).max(1);
        let rows = logits.chunks(width);
        let probabilities = rows.flat_map(|row| sample_probabilities(row, music3::sampling::SAMPLING_TOP_K)).collect();
        answers.insert(format!("probs_{label}"), Values::f32(probabilities, shape));
    }
    Ok(answers.into())
}

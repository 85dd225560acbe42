//! Times, Euler steps and guidance of the flow.

use burn::tensor::backend::Backend;
use music3::schedule::{Schedule, guide};
use music3_nn::Width;

use super::{Computed, Context};
use crate::{CheckError, judge::Answers, values::Values};

/// The steps of the schedule whose Euler steps a case records.
const EULER_STEPS: usize = 7;

pub(super) fn schedule<B: Backend>(context: &Context<'_, B>) -> Result<Computed, CheckError> {
    let case = context.case;
    let mut answers = Answers::new();
    for label in case.labels("out.timesteps_")?.into_iter().chain(case.labels("out.sigmas_")?) {
        let steps: usize = label.parse().ok().filter(|steps| *steps > 0).ok_or_else(|| {
            let problem = "expected a number of steps after `timesteps_` or `sigmas_`";
            crate::CheckError::Name { path: case.path().to_owned(), name: label.clone(), problem }
        })?;
        let schedule = Schedule::new(steps);
        let values = |values: &[f32]| Values::f32(values.to_vec(), [values.len()]);
        answers.insert(format!("timesteps_{label}"), values(schedule.timesteps()));
        answers.insert(format!("sigmas_{label}"), values(schedule.sigmas()));
    }
    for (dtype, width) in [("f32", Width::F32), ("bf16", Width::Bf16)] {
        if case.holds(&format!("in.x_{dtype}")) {
            euler_steps(context, (dtype, width), &mut answers)?;
        }
        if case.holds(&format!("in.cond_{dtype}")) {
            let input = |name: &str| case.input::<B, 3>(&format!("in.{name}_{dtype}"), width, context.device);
            let (conditional, unconditional) = (input("cond")?, input("uncond")?);
            case.expect_same(&format!("in.uncond_{dtype}"), &unconditional.dims(), &conditional.dims())?;
            let scale: f32 = case.value("guidance_scale")?;
            let guided = guide(conditional, unconditional, scale, width);
            answers.insert(format!("guided_{dtype}"), Values::of(guided, width));
        }
    }
    Ok(answers.into())
}

fn euler_steps<B: Backend>(
    context: &Context<'_, B>,
    (dtype, width): (&str, Width),
    answers: &mut Answers,
) -> Result<(), CheckError> {
    let case = context.case;
    let schedule = Schedule::new(EULER_STEPS);
    let mut latents = case.input::<B, 3>(&format!("in.x_{dtype}"), width, context.device)?;
    for step in 0..EULER_STEPS {
        let name = format!("in.v_{dtype}_{step}");
        let velocity = case.input::<B, 3>(&name, width, context.device)?;
        case.expect_same(&name, &velocity.dims(), &latents.dims())?;
        latents = schedule.step(step, latents, velocity, width);
        answers.insert(format!("x_{dtype}_{step}"), Values::of(latents.clone(), width));
    }
    Ok(())
}

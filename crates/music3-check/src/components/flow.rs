//! The acoustic half from frame hiddens to audio, with the noise of every window given.

use burn::tensor::{Tensor, backend::Backend};
use music3::{
    Listener, Tap,
    flow::{Flow, FlowOptions, NoiseSource},
    vocode::vocode,
};
use music3_audio::WindowPlan;
use music3_model::{ConditionMixConfig, Transformer1DModelConfig, VocoderConfig};
use music3_nn::Width;
use music3_weights::Component;

use super::{Computed, Context};
use crate::{
    CheckError,
    judge::{Answers, judge_ints},
    row::Row,
    values::Values,
};

pub(super) fn flow<B: Backend>(context: &Context<'_, B>) -> Result<Computed, CheckError> {
    let case = context.case;
    let (first, second) = (context.autoregressive(), context.acoustic());
    let encoder: ConditionMixConfig = case.config_of("condition_encoder")?;
    let transformer: Transformer1DModelConfig = case.config_of("transformer")?;
    let vocoder: VocoderConfig = case.config_of("vocoder")?;
    refuse_other_components(context)?;
    let configured = |source| case.config_error(source);
    let (channels, device) = (transformer.in_channels, context.device);
    let flow = Flow {
        condition_encoder: load(
            context,
            encoder.init(first, device).map_err(configured)?,
            Component::ConditionEncoder,
        )?,
        transformer: load(context, transformer.init(second, device).map_err(configured)?, Component::Transformer)?,
    };
    let vocoder = load(context, vocoder.init(second, device).map_err(configured)?, Component::Vocoder)?;

    let rates = encoder.latent_rates();
    let hidden = encoder.num_condition_layers * encoder.condition_hidden_dim;
    let frame_hiddens = context.input::<3>("in.frame_hiddens", hidden, first)?;
    let plan = WindowPlan::new(frame_hiddens.dims()[1].max(1), &rates);
    let mut noise = GivenNoise(Vec::new());
    for (window, planned) in plan.windows().iter().enumerate() {
        let name = format!("in.noise_{window}");
        let (values, shape) = case.floats(&name)?;
        case.expect_same(&name, &shape, &[1, channels, planned.latents])?;
        noise.0.push(values);
    }
    let options = FlowOptions { steps: case.value("steps")?, guidance_scale: case.value("guidance_scale")? };
    let mut recorder = Recorder { answers: Answers::new(), width: second };
    let latents = flow.run(frame_hiddens, options, &mut noise, &mut recorder).map_err(|error| case.stopped(error))?;
    let audio = vocode(&vocoder, latents, &rates, &mut recorder).map_err(|error| case.stopped(error))?;
    let mut answers = recorder.answers;
    answers.insert("audios".to_owned(), audio_values(&audio));
    Ok(Computed::Tensors { answers, rows: window_rows(context, &plan)? })
}

/// `[1, 2, samples]`
pub(crate) fn audio_values(audio: &music3_audio::StereoAudio) -> Values {
    let [left, right] = audio.channels();
    Values::f32([left.as_slice(), right].concat(), [1, 2, audio.samples()])
}

fn load<B: Backend, M: burn::module::Module<B>>(
    context: &Context<'_, B>,
    module: M,
    component: Component,
) -> Result<M, CheckError> {
    let width = match component {
        Component::ConditionEncoder => context.autoregressive(),
        _ => context.acoustic(),
    };
    let source = context.case.tensors()?.with_prefix(format!("w.{component}."));
    context.load_from(module, (component, &context.case.part_config(component.folder())), &source, width)
}

/// Refuses weights of no component, which would silently not be used.
fn refuse_other_components<B: Backend>(context: &Context<'_, B>) -> Result<(), CheckError> {
    let known = ["condition_encoder.", "transformer.", "vocoder."];
    let labels = context.case.labels("w.")?;
    match labels.iter().find(|label| !known.iter().any(|prefix| label.starts_with(prefix))) {
        None => Ok(()),
        Some(label) => Err(CheckError::Name {
            path: context.case.path().with_extension("safetensors"),
            name: format!("w.{label}"),
            problem: "expected w.condition_encoder., w.transformer. or w.vocoder.",
        }),
    }
}

/// Compares what the JSON says about windows with the windows that are run.
fn window_rows<B: Backend>(context: &Context<'_, B>, plan: &WindowPlan) -> Result<Vec<Row>, CheckError> {
    let windows = plan.windows();
    let starts: Vec<i64> = windows.iter().map(|window| window.frames.start as i64).collect();
    let overlaps: Vec<i64> = windows.iter().map(|window| window.overlap as i64).collect();
    let mut rows = Vec::new();
    for (name, ours) in [("chunk_starts", starts), ("overlaps", overlaps)] {
        let Some(upstream) = context.case.optional::<Vec<i64>>(name)? else { continue };
        let row = Row { shape: vec![upstream.len()], ..Row::new(name, "json", "int") };
        rows.push(match ours.len() == upstream.len() {
            true => judge_ints(row, &ours, &upstream),
            false => row.failed(format!("{} windows, expected {}", ours.len(), upstream.len())),
        });
    }
    Ok(rows)
}

/// Noise that was recorded.
pub(crate) struct GivenNoise(pub(crate) Vec<Vec<f32>>);

impl NoiseSource for GivenNoise {
    fn noise(&mut self, window: usize, _len: usize, _width: Width) -> Vec<f32> {
        std::mem::take(&mut self.0[window])
    }
}

/// Keeps what passes through the flow, under the names of case files.
struct Recorder {
    answers: Answers,
    width: Width,
}

impl<B: Backend> Listener<B> for Recorder {
    fn tap(&mut self, tap: Tap<'_, B>) {
        let mut keep = |name: String, tensor: &Tensor<B, 3>| {
            self.answers.insert(name, Values::of(tensor.clone(), self.width));
        };
        match tap {
            Tap::Condition { window, tensor } => keep(format!("condition_{window}"), tensor),
            Tap::Velocity { window, step, tensor } => keep(format!("velocity_{window}_{step}"), tensor),
            Tap::Latents { window, step, tensor } => keep(format!("latents_{window}_{step}"), tensor),
            Tap::LatentChunk { window, tensor } => keep(format!("latent_chunk_{window}"), tensor),
            _ => {}
        }
    }
}

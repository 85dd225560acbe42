"""Flow cases: frame hiddens to latents and audio through upstream's own steps, with the noise of each window given."""

from contextlib import ExitStack
from types import SimpleNamespace
from unittest.mock import patch

import torch
from diffusers import MiniMaxMusic3ConditionEncoder, MiniMaxMusic3Transformer1DModel, MiniMaxMusic3Vocoder
from diffusers.guiders import ClassifierFreeGuidance
from diffusers.modular_pipelines.minimax_music3 import before_denoise, decoders, denoise
from diffusers.modular_pipelines.modular_pipeline import PipelineState

from cases import DTYPES, Case, Draw, load, seeded_weights
from schedule import scheduler

CLASSES = {
    "condition_encoder": MiniMaxMusic3ConditionEncoder,
    "transformer": MiniMaxMusic3Transformer1DModel,
    "vocoder": MiniMaxMusic3Vocoder,
}
# Strides whose product is 512, the published hop: the crops between windows are counted in it.
CONFIG = {
    "condition_encoder": {"condition_hidden_dim": 5, "out_dim": 7},
    "transformer": {
        "in_channels": 4,
        "condition_dim": 7,
        "num_layers": 2,
        "num_attention_heads": 3,
        "attention_head_dim": 10,
        "ff_inner_dim": 22,
        "rotary_dim": 6,
        "fourier_embedding_dim": 14,
    },
    "vocoder": {
        "latent_channels": 4,
        "decoder_input_dim": 6,
        "decoder_hidden_dim": 16,
        "upsampling_ratios": [8, 8, 4, 2],
        "sampling_rate": 44100,
    },
}
LATENTS = ("condition_", "velocity_", "latents_", "latent_chunk_")
EVERYTHING = (*LATENTS, "audios")
# Audio is most of the size of a file, so none here has that of more than one window; a whole run does.
RUNS = [
    ("one_window.mixed", "mixed", 11, 4, EVERYTHING),
    ("one_window.f32", "f32", 1, 2, EVERYTHING),
    ("one_window.bf16", "bf16", 3, 3, EVERYTHING),
    ("two_windows.mixed", "mixed", 201, 2, LATENTS),
    ("two_windows.bf16", "bf16", 201, 2, LATENTS),
    ("three_windows.f32", "f32", 301, 2, LATENTS),
]


def drawn(offset):
    draw = Draw(offset)
    channels, condition = draw.choice([2, 6]), draw.choice([9, 11])
    config = {
        "condition_encoder": {"condition_hidden_dim": draw.choice([3, 6]), "out_dim": condition},
        "transformer": {
            **CONFIG["transformer"],
            "in_channels": channels,
            "condition_dim": condition,
            "num_layers": draw.choice([1, 3]),
            "num_attention_heads": draw.choice([1, 5]),
            "ff_inner_dim": draw.choice([25, 31]),
        },
        "vocoder": {
            **CONFIG["vocoder"],
            "latent_channels": channels,
            "upsampling_ratios": draw.choice([[8, 8, 4, 2], [4, 8, 2, 8], [2, 4, 8, 8]]),
        },
    }
    frames, steps = draw.choice([101, 199, 200, 201, 255, 301, 330]), draw.choice([2, 5])
    return config, [(f"s{offset}.{dtype}", dtype, frames, steps, EVERYTHING) for dtype in ("mixed", "f32", "bf16")]


def widths(dtype):
    """The dtype of each module: `mixed` is a condition encoder in bf16 and an acoustic half in f32."""
    mixed = {"condition_encoder": "bf16", "transformer": "f32", "vocoder": "f32"}
    return mixed if dtype == "mixed" else dict.fromkeys(CLASSES, dtype)


def build(config):
    def components(dtype, weights):
        modules = {}
        for name, upstream in CLASSES.items():
            own = {key.removeprefix(f"{name}."): value for key, value in weights.items() if key.startswith(f"{name}.")}
            # A mixed case has no second pass: its weights already are in the dtypes to compute in.
            width = next(iter(own.values())).dtype if dtype is None else dtype
            modules[name] = load(upstream(**config[name]), own, width)
        return SimpleNamespace(
            **modules,
            scheduler=scheduler(),
            guider=ClassifierFreeGuidance(guidance_scale=1.7),
            num_channels_latents=config["transformer"]["in_channels"],
            latent_hop_length=512,
            _execution_device="cpu",
        )

    return components


class Recorder:
    """Names what upstream's steps compute as they compute it."""

    def __init__(self):
        self.outputs = {}
        self.overlaps = []
        self.steps_done = 0

    def step(self, wrapped):
        def record(velocity, timestep, latents, **options):
            result = wrapped(velocity, timestep, latents, **options)
            place = f"{len(self.overlaps)}_{self.steps_done}"
            self.outputs[f"velocity_{place}"] = velocity.clone()
            # Cloned, because the next step overwrites the overlap in place.
            self.outputs[f"latents_{place}"] = result[0].clone()
            self.steps_done += 1
            return result

        return record

    def update(self, wrapped):
        def record(step, components, block_state, k):
            result = wrapped(step, components, block_state, k)
            self.outputs[f"condition_{k}"] = block_state.condition.clone()
            self.outputs[f"latent_chunk_{k}"] = block_state.latent_chunks[k].clone()
            self.overlaps.append(block_state.overlap)
            self.steps_done = 0
            return result

        return record


def run(components, given, steps):
    """Upstream's steps from frame hiddens to audio. Returns their state and the recorder."""
    recorder, noise = Recorder(), iter(given[f"noise_{k}"].clone() for k in range(len(given) - 1))
    state = PipelineState()
    state.set("frame_hiddens", given["frame_hiddens"])
    state.set("num_inference_steps", steps)
    state.set("output_type", "pt")
    state.set("generator", None)

    def given_noise(shape, generator, device, dtype):
        drawn_noise = next(noise)
        assert tuple(drawn_noise.shape) == tuple(shape) and drawn_noise.dtype == dtype
        return drawn_noise

    update_step = denoise.MiniMaxMusic3ChunkUpdateStep
    loop = denoise.MiniMaxMusic3ChunkDenoiseStep()
    loop.set_progress_bar_config(disable=True)
    with ExitStack() as patches:
        patches.enter_context(patch.object(denoise, "randn_tensor", given_noise))
        patches.enter_context(patch.object(components.scheduler, "step", recorder.step(components.scheduler.step)))
        patches.enter_context(patch.object(update_step, "__call__", recorder.update(update_step.__call__)))
        for step in (before_denoise.MiniMaxMusic3PrepareChunksStep(), loop, decoders.MiniMaxMusic3VocoderDecodeStep()):
            components, state = step(components, state)
    recorder.outputs["audios"] = state.get("audios")
    return state, recorder


def draw_inputs(draw, config, frames, width):
    hidden = config["condition_encoder"]["condition_hidden_dim"]
    given = {"frame_hiddens": draw.normal(1, frames, 8 * hidden).to(DTYPES[width["condition_encoder"]])}
    starts = [0] if frames <= 200 else range(0, frames - 100, 100)
    for k, start in enumerate(starts):
        latents = min(200, frames - start) * 441 // 128
        noise = draw.normal(1, config["transformer"]["in_channels"], latents)
        given[f"noise_{k}"] = noise.to(DTYPES[width["transformer"]])
    return given


def main(out_dir, offset=0):
    config, runs = drawn(offset) if offset else (CONFIG, RUNS)
    for index, (label, dtype, frames, steps, kept) in enumerate(runs):
        seed = 9505 + index + 100 * offset
        draw, width = Draw(seed), widths(dtype)
        weights = {
            f"{name}.{key}": value
            for name, upstream in CLASSES.items()
            for key, value in seeded_weights(upstream(**config[name]), draw, DTYPES[width[name]]).items()
        }
        given = draw_inputs(draw, config, frames, width)
        case = Case("flow", config, dtype, seed, frames=frames, steps=steps, guidance_scale=1.7)

        def forward(components, inputs):
            state, recorder = run(components, inputs, steps)
            case.header |= {"chunk_starts": state.get("chunk_starts"), "overlaps": recorder.overlaps}
            return {name: value for name, value in recorder.outputs.items() if name.startswith(kept)}

        case.evaluate(weights, given, build(config), forward)
        case.write(out_dir, f"flow.{label}")

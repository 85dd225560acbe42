"""Schedule cases: timesteps and sigmas of N steps, seven Euler steps, and guidance, each in f32 and bf16."""

from types import SimpleNamespace

import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from diffusers.guiders import ClassifierFreeGuidance
from diffusers.modular_pipelines.minimax_music3.denoise import MiniMaxMusic3ChunkSetTimestepsStep

from cases import DTYPES, Case, Draw

STEPS = [1, 2, 3, 7, 8, 10, 20, 30, 50, 100]
EULER_STEPS = 7


def scheduler():
    """Upstream's scheduler as the pipeline uses it: times from 0, noise, to 1, data, and no shift."""
    return FlowMatchEulerDiscreteScheduler(num_train_timesteps=1, shift=1.0, invert_sigmas=True)


def set_timesteps(steps):
    components = SimpleNamespace(scheduler=scheduler(), _execution_device="cpu")
    MiniMaxMusic3ChunkSetTimestepsStep()(components, SimpleNamespace(num_inference_steps=steps), 0)
    return components.scheduler


def main(out_dir, offset=0):
    draw = Draw(offset)
    guidance_scale = draw.choice([1.3, 1.7, 2.5]) if offset else 1.7
    tried = sorted({4 + offset, 11 * offset, 30 + offset, 60 - offset}) if offset else STEPS
    shape = (1, draw.choice([5, 9]), draw.choice([33, 47])) if offset else (1, 6, 43)
    seed = 9000 + 100 * offset
    draw = Draw(seed)
    case = Case("schedule", {}, "f32", seed, guidance_scale=guidance_scale)
    for steps in tried:
        made = set_timesteps(steps)
        case.store("out", {f"timesteps_{steps}": made.timesteps, f"sigmas_{steps}": made.sigmas})
    for label, dtype in DTYPES.items():
        x = draw.normal(*shape).to(dtype)
        case.store("in", {f"x_{label}": x})
        made = set_timesteps(EULER_STEPS)
        for k, timestep in enumerate(made.timesteps):
            velocity = draw.normal(*shape, scale=1.5).to(dtype)
            x = made.step(velocity, timestep, x, return_dict=False)[0]
            case.store("in", {f"v_{label}_{k}": velocity})
            case.store("out", {f"x_{label}_{k}": x})
        cond, uncond = draw.normal(*shape).to(dtype), draw.normal(*shape).to(dtype)
        guider = ClassifierFreeGuidance(guidance_scale=guidance_scale)
        guider.set_state(step=0, num_inference_steps=EULER_STEPS, timestep=torch.zeros(()))
        case.store("in", {f"cond_{label}": cond, f"uncond_{label}": uncond})
        case.store("out", {f"guided_{label}": guider.forward(cond, uncond)[0]})
    case.write(out_dir, f"schedule.{f's{offset}' if offset else 'published'}.f32")

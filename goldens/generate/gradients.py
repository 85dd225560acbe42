"""Torch's gradients of a tiny transformer, of a loss over its velocity, for every parameter and input."""

import json

import torch
from diffusers import MiniMaxMusic3Transformer1DModel
from safetensors.torch import save_file

from cases import Draw, load, seeded_weights

SEED = 9100
CONFIG = {
    "in_channels": 5,
    "condition_dim": 7,
    "num_layers": 2,
    "num_attention_heads": 3,
    "attention_head_dim": 6,
    "ff_inner_dim": 11,
    "rotary_dim": 4,
    "fourier_embedding_dim": 10,
}
BATCH, LENGTH = 2, 9
TIMES = [0.25, 0.8]


def main(out_dir):
    draw = Draw(SEED)
    weights = seeded_weights(MiniMaxMusic3Transformer1DModel(**CONFIG), draw, torch.float32)
    given = {
        "latents": draw.normal(BATCH, CONFIG["in_channels"], LENGTH),
        "condition": draw.normal(BATCH, LENGTH, CONFIG["condition_dim"]),
        "timestep": torch.tensor(TIMES),
        "target": draw.normal(BATCH, CONFIG["in_channels"], LENGTH),
    }
    tensors = {f"w.{name}": value for name, value in weights.items()}
    tensors |= {f"in.{name}": value for name, value in given.items()}
    tensors |= {f"out.{name}": value for name, value in answers(weights, given, torch.float32).items()}
    # The same in f64: how far torch's own f32 is from what it should be.
    exact = answers(weights, given, torch.float64)
    tensors |= {f"out_f64.{name}": value.to(torch.float32) for name, value in exact.items()}
    tensors = {name: value.detach().clone().contiguous() for name, value in sorted(tensors.items())}
    # One note: the order of several would differ from run to run.
    made = {"config": CONFIG, "seed": SEED, "script": "goldens/generate/gradients.py", "torch": torch.__version__}
    save_file(tensors, str(out_dir / "transformer.safetensors"), metadata={"made": json.dumps(made)})
    print(f"  transformer: {len(tensors)} tensors, loss {float(tensors['out.loss']):.6f}")


def answers(weights, given, dtype):
    """The loss, and its gradient by every parameter and by latents and condition."""
    with torch.enable_grad():
        module = load(MiniMaxMusic3Transformer1DModel(**CONFIG), weights, dtype).requires_grad_(True)
        latents, condition = (given[name].to(dtype).clone().detach().requires_grad_(True) for name in ("latents", "condition"))
        velocity = module(latents, given["timestep"].to(dtype), condition).sample
        loss = ((velocity - given["target"].to(dtype)) ** 2).mean()
        loss.backward()
    gradients = {f"grad.{name}": parameter.grad for name, parameter in module.named_parameters()}
    missing = [name for name, gradient in gradients.items() if gradient is None]
    assert not missing, f"no gradient reaches {missing}"
    return {**gradients, "grad_in.latents": latents.grad, "grad_in.condition": condition.grad, "loss": loss.reshape(1)}

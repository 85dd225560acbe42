"""Diffusion transformer cases: one forward at several lengths, batches and times."""

import torch
from diffusers import MiniMaxMusic3Transformer1DModel

from cases import DTYPES, Case, Draw, load, seeded_weights

# Times of a 30-step run and its ends; 0.03333336 is what upstream's schedule holds instead of 1/30.
TIMES = [0.0, 0.03333336, 0.5, 1.0]
CONFIGS = [
    (
        "three_heads",
        {
            "in_channels": 6,
            "condition_dim": 14,
            "num_layers": 3,
            "num_attention_heads": 3,
            "attention_head_dim": 10,
            "ff_inner_dim": 22,
            "rotary_dim": 4,
            "fourier_embedding_dim": 16,
        },
        [(1, 1), (1, 3), (3, 17), (2, 86)],
    ),
    (
        "five_heads",
        {
            "in_channels": 8,
            "condition_dim": 19,
            "num_layers": 2,
            "num_attention_heads": 5,
            "attention_head_dim": 8,
            "ff_inner_dim": 34,
            "rotary_dim": 8,
            "fourier_embedding_dim": 18,
        },
        [(2, 3), (1, 201)],
    ),
]


def drawn(offset):
    draw = Draw(offset)
    head_dim = draw.choice([10, 14, 18])
    config = {
        "in_channels": draw.choice([4, 12, 20]),
        "condition_dim": draw.choice([9, 13, 23]),
        "num_layers": draw.choice([1, 2, 4]),
        "num_attention_heads": draw.choice([3, 5, 7]),
        "attention_head_dim": head_dim,
        "ff_inner_dim": draw.choice([26, 39, 57]),
        "rotary_dim": draw.choice([2, 6, head_dim]),
        "fourier_embedding_dim": draw.choice([22, 32]),
    }
    return [(f"s{offset}", config, [(1, 1), (3, draw.choice([2, 5, 31])), (2, draw.choice([64, 87, 129]))])]


def build(config):
    return lambda dtype, weights: load(MiniMaxMusic3Transformer1DModel(**config), weights, dtype)


def forward(module, given):
    outputs = {}
    for x in [name.removeprefix("latents_") for name in given if name.startswith("latents_")]:
        outputs[x] = module(given[f"latents_{x}"], given[f"timestep_{x}"], given[f"condition_{x}"]).sample
    return outputs


def main(out_dir, offset=0):
    for index, (label, config, shapes) in enumerate(drawn(offset) if offset else CONFIGS):
        for dtype in DTYPES:
            seed = 4000 + index + 100 * offset
            draw = Draw(seed)
            case = Case("transformer", config, dtype, seed)
            weights = seeded_weights(MiniMaxMusic3Transformer1DModel(**config), draw, DTYPES[dtype])
            inputs = {}
            for number, (batch, length) in enumerate(shapes):
                x = f"x_b{batch}_l{length}"
                times = [TIMES[(number + row) % len(TIMES)] for row in range(batch)]
                inputs[f"latents_{x}"] = draw.normal(batch, config["in_channels"], length)
                inputs[f"condition_{x}"] = draw.normal(batch, length, config["condition_dim"])
                inputs[f"timestep_{x}"] = torch.tensor(times)
            inputs = {name: value.to(DTYPES[dtype]) for name, value in inputs.items()}
            case.evaluate(weights, inputs, build(config), forward)
            case.write(out_dir, f"transformer.{label}.{dtype}")

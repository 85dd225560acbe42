"""Condition encoder cases: the layer mix, the convolution and the nearest resampling to latents."""

from diffusers import MiniMaxMusic3ConditionEncoder

from cases import DTYPES, Case, Draw, load, seeded_weights

# 32 frames resample to 110 latents, where only the f32 index rule picks upstream's frame for latent 55.
CONFIGS = [
    ("hidden6", {"condition_hidden_dim": 6, "out_dim": 5}, [(1, 1), (3, 2), (1, 32), (1, 101), (1, 201)]),
    (
        "rates",
        {
            "condition_hidden_dim": 10,
            "num_condition_layers": 8,
            "out_dim": 13,
            "input_sampling_rate": 16000,
            "input_hop_length": 640,
            "output_sampling_rate": 48000,
            "output_hop_length": 480,
        },
        [(1, 1), (3, 17), (1, 32)],
    ),
]


def drawn(offset):
    draw = Draw(offset)
    config = {"condition_hidden_dim": draw.choice([9, 14, 21]), "out_dim": draw.choice([7, 11, 15])}
    odd = draw.choice([63, 59, 77, 111, 199])
    return [(f"s{offset}", config, [(1, 1), (1, 32), (3, odd), (1, 201)])]


def build(config):
    return lambda dtype, weights: load(MiniMaxMusic3ConditionEncoder(**config), weights, dtype)


def main(out_dir, offset=0):
    for index, (label, config, shapes) in enumerate(drawn(offset) if offset else CONFIGS):
        for dtype in DTYPES:
            seed = 1000 + index + 100 * offset
            draw = Draw(seed)
            case = Case("condition_encoder", config, dtype, seed)
            module = MiniMaxMusic3ConditionEncoder(**config)
            weights = seeded_weights(module, draw, DTYPES[dtype])
            width = module.config.num_condition_layers * config["condition_hidden_dim"]
            inputs = {
                f"x_b{batch}_f{frames}": draw.normal(batch, frames, width).to(DTYPES[dtype])
                for batch, frames in shapes
            }
            case.evaluate(
                weights, inputs, build(config), lambda module, given: {x: module(value) for x, value in given.items()}
            )
            case.write(out_dir, f"condition_encoder.{label}.{dtype}")

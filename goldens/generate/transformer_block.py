"""One diffusion transformer block, with the rotary tables it is given."""

import torch
from diffusers.models.transformers import transformer_minimax_music3 as upstream

from cases import DTYPES, Case, Draw, load, seeded_weights

CONFIGS = [
    ("partial", {"dim": 30, "heads": 3, "head_dim": 10, "ff_inner_dim": 22, "rotary_dim": 4}, [(1, 1), (3, 2), (2, 87)]),
    # The block's inner width need not be its outer one, and every dimension of a head may rotate.
    ("full", {"dim": 26, "heads": 5, "head_dim": 14, "ff_inner_dim": 33, "rotary_dim": 14}, [(1, 4), (1, 201)]),
]


def drawn(offset):
    draw = Draw(offset)
    head_dim = draw.choice([10, 14, 22])
    config = {
        "dim": draw.choice([21, 32, 45]),
        "heads": draw.choice([1, 3, 7]),
        "head_dim": head_dim,
        "ff_inner_dim": draw.choice([19, 38, 51]),
        "rotary_dim": draw.choice([2, 6, head_dim]),
    }
    return [(f"s{offset}", config, [(1, 1), (3, draw.choice([3, 17, 33])), (1, draw.choice([65, 128, 201]))])]


def block(config):
    return upstream.MiniMaxMusic3TransformerBlock(*(config[key] for key in ("dim", "heads", "head_dim", "ff_inner_dim")))


def build(config):
    def modules(dtype, weights):
        rotary = upstream.MiniMaxMusic3RotaryEmbedding(config["rotary_dim"])
        return rotary, load(block(config), weights, dtype)

    return modules


def forward(modules, given):
    rotary, transformer_block = modules
    outputs = {}
    for x, hidden_states in given.items():
        tables = rotary(hidden_states.shape[1], torch.device("cpu"))
        outputs[x] = transformer_block(hidden_states, tables)
        outputs[f"cos_{x}"], outputs[f"sin_{x}"] = tables
    return outputs


def main(out_dir, offset=0):
    for index, (label, config, shapes) in enumerate(drawn(offset) if offset else CONFIGS):
        for dtype in DTYPES:
            seed = 4500 + index + 100 * offset
            draw = Draw(seed)
            case = Case("transformer_block", config, dtype, seed)
            weights = seeded_weights(block(config), draw, DTYPES[dtype])
            inputs = {
                f"x_b{batch}_t{tokens}": draw.normal(batch, tokens, config["dim"]).to(DTYPES[dtype])
                for batch, tokens in shapes
            }
            case.evaluate(weights, inputs, build(config), forward)
            case.write(out_dir, f"transformer_block.{label}.{dtype}")

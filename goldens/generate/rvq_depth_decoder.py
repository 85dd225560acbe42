"""Depth decoder cases: its transformer alone, on sequences that are already projected."""

from diffusers import MiniMaxMusic3RVQDepthDecoder

from cases import DTYPES, Case, Draw, load, seeded_weights

CONFIGS = [
    (
        "five_heads",
        {"hidden_size": 30, "num_layers": 2, "num_attention_heads": 5, "intermediate_size": 46, "audio_vocab_size": 13},
        [(1, 1), (3, 2), (2, 8), (1, 16)],
    ),
    (
        # Heads of 11: an odd width, which a kernel may not assume away.
        "odd_heads",
        {
            "hidden_size": 33,
            "num_layers": 3,
            "num_attention_heads": 3,
            "intermediate_size": 50,
            "audio_vocab_size": 17,
            "num_codebooks": 8,
            "max_position_embeddings": 19,
        },
        [(2, 1), (1, 7), (3, 19)],
    ),
]


def drawn(offset):
    draw = Draw(offset)
    heads, head_dim = draw.choice([3, 5, 7]), draw.choice([10, 9, 14])
    config = {
        "hidden_size": heads * head_dim,
        "num_layers": draw.choice([1, 2, 4]),
        "num_attention_heads": heads,
        "intermediate_size": draw.choice([38, 53, 76]),
        "audio_vocab_size": draw.choice([11, 19, 23]),
        "max_position_embeddings": 16,
    }
    return [(f"s{offset}", config, [(2, 1), (2, 8), (5, draw.choice([3, 11, 16]))])]


def build(config):
    return lambda dtype, weights: load(MiniMaxMusic3RVQDepthDecoder(**config), weights, dtype)


def main(out_dir, offset=0):
    for index, (label, config, shapes) in enumerate(drawn(offset) if offset else CONFIGS):
        for dtype in DTYPES:
            seed = 2000 + index + 100 * offset
            draw = Draw(seed)
            case = Case("rvq_depth_decoder", config, dtype, seed)
            weights = seeded_weights(MiniMaxMusic3RVQDepthDecoder(**config), draw, DTYPES[dtype])
            inputs = {
                f"x_b{batch}_t{steps}": draw.normal(batch, steps, config["hidden_size"]).to(DTYPES[dtype])
                for batch, steps in shapes
            }
            case.evaluate(
                weights, inputs, build(config), lambda module, given: {x: module(value) for x, value in given.items()}
            )
            case.write(out_dir, f"rvq_depth_decoder.{label}.{dtype}")

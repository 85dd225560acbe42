"""One vocoder block: snake, transposed convolution and three residual units, at even strides, odd ones and one."""

import math

from diffusers.models.autoencoders.minimax_music3_vocoder import MiniMaxMusic3VocoderBlock

from cases import DTYPES, Case, Draw, load, seeded_weights

# (input_dim, output_dim, stride), with the shapes tried on each. A stride of one shortens its input, so it needs two.
BLOCKS = [
    ("stride8", (14, 6, 8), [(1, 1), (2, 5)]),
    ("stride3", (10, 7, 3), [(1, 1), (3, 11)]),
    ("stride1", (9, 5, 1), [(1, 2), (2, 30)]),
]


def drawn(offset):
    draw = Draw(offset)
    dims = (draw.choice([8, 11, 18]), draw.choice([4, 5, 9]), draw.choice([1, 2, 5, 6, 7]))
    return [(f"s{offset}", dims, [(1, 2), (3, draw.choice([9, 20, 37]))])]


def main(out_dir, offset=0):
    for index, (label, dims, shapes) in enumerate(drawn(offset) if offset else BLOCKS):
        for dtype in DTYPES:
            seed = 5500 + index + 100 * offset
            draw = Draw(seed)
            config = dict(zip(("input_dim", "output_dim", "stride"), dims))
            # Not an argument of upstream's block, which derives it.
            config["padding"] = math.ceil(config["stride"] / 2)
            assert MiniMaxMusic3VocoderBlock(*dims).conv_t1.padding == (config["padding"],)
            case = Case("vocoder_block", config, dtype, seed)
            weights = seeded_weights(MiniMaxMusic3VocoderBlock(*dims), draw, DTYPES[dtype])
            inputs = {
                f"x_b{batch}_l{length}": draw.normal(batch, dims[0], length).to(DTYPES[dtype])
                for batch, length in shapes
            }
            case.evaluate(
                weights,
                inputs,
                lambda width, given: load(MiniMaxMusic3VocoderBlock(*dims), given, width),
                lambda module, given: {x: module(value) for x, value in given.items()},
            )
            case.write(out_dir, f"vocoder_block.{label}.{dtype}")

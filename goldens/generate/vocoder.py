"""Vocoder cases: latents to a stereo waveform, with the published strides and with odd ones."""

from diffusers import MiniMaxMusic3Vocoder

from cases import DTYPES, Case, Draw, load, seeded_weights

CONFIGS = [
    (
        "hop512",
        {
            "latent_channels": 6,
            "decoder_input_dim": 10,
            "decoder_hidden_dim": 32,
            "upsampling_ratios": [8, 8, 4, 2],
            "sampling_rate": 44100,
        },
        [(1, 1), (2, 3)],
    ),
    (
        "odd_strides",
        {
            "latent_channels": 10,
            "decoder_input_dim": 14,
            "decoder_hidden_dim": 24,
            "upsampling_ratios": [3, 1, 5],
            "sampling_rate": 44100,
        },
        [(1, 1), (3, 2), (1, 17), (1, 86)],
    ),
]


def drawn(offset):
    draw = Draw(offset)
    config = {
        "latent_channels": draw.choice([2, 14, 18]),
        "decoder_input_dim": draw.choice([11, 13, 22]),
        "decoder_hidden_dim": draw.choice([16, 40, 48]),
        "upsampling_ratios": draw.choice([[2, 7, 1], [5, 4], [3, 3, 2], [4, 1, 6]]),
        "sampling_rate": 44100,
    }
    return [(f"s{offset}", config, [(1, 1), (3, 5), (1, draw.choice([29, 40, 61]))])]


def build(config):
    return lambda dtype, weights: load(MiniMaxMusic3Vocoder(**config), weights, dtype)


def main(out_dir, offset=0):
    for index, (label, config, shapes) in enumerate(drawn(offset) if offset else CONFIGS):
        for dtype in DTYPES:
            seed = 5000 + index + 100 * offset
            draw = Draw(seed)
            case = Case("vocoder", config, dtype, seed)
            weights = seeded_weights(MiniMaxMusic3Vocoder(**config), draw, DTYPES[dtype])
            inputs = {
                f"x_b{batch}_l{length}": draw.normal(batch, config["latent_channels"], length).to(DTYPES[dtype])
                for batch, length in shapes
            }
            case.evaluate(
                weights, inputs, build(config), lambda module, given: {x: module(value) for x, value in given.items()}
            )
            case.write(out_dir, f"vocoder.{label}.{dtype}")

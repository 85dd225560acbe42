"""Snake cases: usual alphas, and alphas so small that the 1e-9 beside them decides the result."""

import torch
from diffusers.models.autoencoders.minimax_music3_vocoder import MiniMaxMusic3Snake1d

from cases import DTYPES, Case, Draw, load


def usual(draw, batch, channels, length):
    alpha = draw.normal(1, channels, 1, scale=0.4, mean=1.0)
    alpha[0, -1] = -0.7
    return alpha, draw.normal(batch, channels, length, scale=2.0)


def near_zero(draw, batch, channels, length):
    """Inputs of about 1e8, at which even these alphas bend the line."""
    small = torch.tensor([0.0, 3e-10, 1e-9, 2e-9, 5e-9])
    return small.repeat(channels)[:channels].reshape(1, channels, 1), draw.normal(batch, channels, length, scale=3e8)


CASES = [("usual", usual, (3, 7, 101)), ("near_zero", near_zero, (2, 5, 33))]


def drawn(offset):
    draw = Draw(offset)
    shape = (draw.choice([1, 2, 5]), draw.choice([6, 9, 11]), draw.choice([1, 63, 130]))
    return [(f"usual_s{offset}", usual, shape), (f"near_zero_s{offset}", near_zero, shape)]


def main(out_dir, offset=0):
    for index, (label, make, shape) in enumerate(drawn(offset) if offset else CASES):
        for dtype in DTYPES:
            seed = 6000 + index + 100 * offset
            alpha, x = make(Draw(seed), *shape)
            case = Case("snake", {"channels": shape[1]}, dtype, seed)
            case.evaluate(
                {"alpha": alpha.to(DTYPES[dtype])},
                {"x": x.to(DTYPES[dtype])},
                lambda width, weights: load(MiniMaxMusic3Snake1d(shape[1]), weights, width),
                lambda module, given: {"x": module(given["x"])},
            )
            case.write(out_dir, f"snake.{label}.{dtype}")

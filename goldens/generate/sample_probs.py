"""Sampling cases: the probabilities that upstream's top-k sampler passes to its draw, on usual and on broken logits."""

from unittest.mock import patch

import torch
from diffusers.modular_pipelines.minimax_music3 import encoders

from cases import Case, Draw

NAN, INF = torch.nan, torch.inf


def logits_to_try(draw, width):
    """Label and logits, `[rows, width]`. Broken entries stand at places that leave the rest of the row in play."""
    holes = draw.normal(3, width, scale=2.0)
    holes[0, 5], holes[1, 2:40], holes[2, :] = NAN, NAN, NAN
    infinite = draw.normal(3, width, scale=2.0)
    infinite[0, 3], infinite[1, ::2], infinite[2, [1, 8]] = INF, -INF, INF
    infinite[2, 9:30] = -INF
    mixed = draw.normal(1, width)
    mixed[0, [0, 4, 11]] = torch.tensor([NAN, INF, -INF])
    mostly = torch.full((1, width), -INF)
    mostly[0, 10:17] = draw.normal(7)
    return {
        "spread": draw.normal(3, width, scale=2.0),
        "ties": draw.normal(2, width, scale=2.0).to(torch.bfloat16).float(),
        "coarse": draw.normal(2, width).round(),
        "equal": torch.full((1, width), 0.25),
        "nan": holes,
        "inf": infinite,
        "nan_and_inf": mixed,
        "seven_finite": mostly,
        "all_excluded": torch.full((1, width), -INF),
        "huge": draw.normal(1, width, scale=1e8),
        "n1": draw.normal(2, 1),
        "n17": draw.normal(3, 17),
        "n49": draw.normal(1, 49),
        "n50": draw.normal(1, 50),
        "n51": draw.normal(1, 51),
    }


def sampled_probs(logits):
    seen = []

    def keep(probs, count, generator=None):
        seen.append(probs)
        return torch.zeros(probs.shape[0], count, dtype=torch.long)

    with patch.object(torch, "multinomial", keep):
        encoders._sample_top_k(logits, None)
    return seen[0]


def main(out_dir, offset=0):
    width = Draw(offset).choice([211, 640, 1024]) if offset else 333
    seed = 8000 + 100 * offset
    case = Case("sample_probs", {}, "f32", seed)
    for x, logits in logits_to_try(Draw(seed), width).items():
        case.store("in", {x: logits})
        case.store("out", {f"probs_{x}": sampled_probs(logits)})
    case.write(out_dir, f"sample_probs.{f's{offset}' if offset else 'rows'}.f32")

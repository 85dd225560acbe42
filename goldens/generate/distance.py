"""Prints how far two recordings of the same codes and noise are apart, stage by stage.

usage: distance.py CAPTURE OTHER        (two .safetensors files, such as song_replay and song_cpu)
"""

import sys

import torch
from safetensors.torch import load_file

STAGES = {
    "language model": ("lm_",),
    "depth decoder": ("depth_", "frame_hiddens"),
    "condition encoder": ("condition_",),
    "transformer": ("velocity_", "latent"),
    "vocoder": ("waveform_", "audios"),
}


def main(first, second):
    one, two = load_file(first), load_file(second)
    print(f"{'stage':18} {'outputs':>7} {'values':>10} {'identical':>10} {'mean |d|':>9} {'max |d|':>9}")
    for stage, prefixes in STAGES.items():
        pairs = [(one[name], two[name]) for name in sorted(one) if name.startswith(prefixes) and name in two]
        if not pairs:
            continue
        values = sum(a.numel() for a, _ in pairs)
        equal = sum(int((a == b).sum()) for a, b in pairs)
        # In f64: a difference of two bf16 values is rounded otherwise.
        distances = [(a.double() - b.double()).abs() for a, b in pairs]
        mean, largest = max(d.mean().item() for d in distances), max(d.max().item() for d in distances)
        print(f"{stage:18} {len(pairs):7} {values:10} {100 * equal / values:8.3f} % {mean:9.2e} {largest:9.2e}")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main(*sys.argv[1:3])

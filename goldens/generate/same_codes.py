"""Makes a song with this port's kernels and one with plain tensor ops (`--reference`), and compares their codes.

usage: same_codes.py MUSIC3 WORK GENERATE OPTION...

Says how many codes were compared and how far the hidden states are apart, and ends with 1 if a code differs.
"""

import os
import subprocess
import sys

import torch
from safetensors.torch import load_file


def frames(program, work, name, options):
    """The codes and hidden states of a song."""
    path = os.path.join(work, f"{name}.frames")
    outputs = ["--save-codes", path, "--output", os.path.join(work, f"{name}.wav"), "--no-recipe"]
    subprocess.run([program, "generate", *options, *outputs, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    return load_file(path)


def main(program, work, *options):
    kernels = frames(program, work, "kernels", options)
    plain = frames(program, work, "plain", [*options, "--reference"])
    for name, ours in kernels.items():
        other = plain[name]
        about = f"{name} {list(ours.shape)}: {'equal' if torch.equal(ours, other) else 'different'}"
        if ours.shape == other.shape and ours.is_floating_point():
            apart = (ours.float() - other.float()).abs()
            about += f", {float((ours == other).double().mean()):.3%} identical, at most {float(apart.max()):.2e} apart"
        print(about)
    return 0 if torch.equal(kernels["codes"], plain["codes"]) else 1


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))

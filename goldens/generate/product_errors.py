"""Errors of torch's f32 products on a GPU against f64, on the operands of our own product test.

usage: product_errors.py STEPS_LOG        (what `cargo test --features cuda --test steps products -- --nocapture` printed)

The test prints `product ROWS INNER COLUMNS KIND: rms X, worst Y`; this draws the same operands, multiplies them with TF32
off, and prints both errors side by side. Exits with 1 where a strict product's rms error is more than 2 times torch's or
its largest more than 4 times.
"""

import re
import sys

import numpy as np
import torch

LINE = re.compile(r"product (\d+) (\d+) (\d+) strict: rms ([0-9.e+-]+), worst ([0-9.e+-]+)")
SEEDS = (61, 62)


def drawn(rows, columns, seed):
    """Values of the test's linear congruential generator, 65 536 at a time."""
    count, block = rows * columns, 1 << 16
    # state after k steps is a^k s + c (a^k - 1) / (a - 1), modulo 2^32.
    multipliers, offsets = np.empty(block, np.uint32), np.empty(block, np.uint32)
    a, c = 1, 0
    for index in range(block):
        a, c = a * 1_664_525 % 2**32, (c * 1_664_525 + 1_013_904_223) % 2**32
        multipliers[index], offsets[index] = a, c
    state = np.uint32((seed * 2_654_435_761 + 12_345) % 2**32)
    values = np.empty(-(-count // block) * block, np.uint32)
    for start in range(0, len(values), block):
        values[start : start + block] = multipliers * state + offsets
        state = values[start + block - 1]
    values = (values[:count] >> 8).astype(np.float64) / 2**23 - 1
    return torch.from_numpy(values.astype(np.float32).reshape(rows, columns)).cuda()


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    np.seterr(over="ignore")
    worst_rms = worst_max = 0.0
    shapes = {match.groups() for match in LINE.finditer(open(sys.argv[1], encoding="utf-8").read())}
    for rows, inner, columns, rms, largest in sorted(shapes, key=lambda shape: tuple(map(float, shape))):
        a, b = (drawn(int(n), int(inner), seed) for n, seed in zip((rows, columns), SEEDS))
        exact = a.double() @ b.double().T
        apart = ((a @ b.T).double() - exact) / exact.square().mean().sqrt()
        theirs_rms, theirs_max = apart.square().mean().sqrt().item(), apart.abs().max().item()
        ratios = float(rms) / theirs_rms if theirs_rms else 0.0, float(largest) / theirs_max if theirs_max else 0.0
        worst_rms, worst_max = max(worst_rms, ratios[0]), max(worst_max, ratios[1])
        print(
            f"{rows}x{inner}x{columns}: ours {rms} {largest}, torch {theirs_rms:.2e} {theirs_max:.2e},"
            f" ratios {ratios[0]:.2f} {ratios[1]:.2f}"
        )
    print(f"{len(shapes)} shapes: rms at most {worst_rms:.2f} times torch's (2 may), largest {worst_max:.2f} (4 may)")
    sys.exit(not shapes or worst_rms > 2 or worst_max > 4)


if __name__ == "__main__":
    main()

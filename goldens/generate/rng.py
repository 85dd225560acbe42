"""What torch's CPU generator draws: exponential and normal numbers, codes, and mixed sequences.

Writes goldens/rng/torch.json; floats are stored as the integers of their f32 bits.
    python goldens/generate/rng.py
Needs a processor on which torch uses AVX2 or better for normal numbers and does not use MKL for exponential ones (not
an Intel processor); it checks both.
"""

import json
import pathlib

import torch

OUT = pathlib.Path(__file__).resolve().parent.parent / "rng" / "torch.json"
SEEDS = [0, 1, 42, 2**32 - 1, 2**32 + 7, 2**63 + 11, -1]
LENGTHS = [1, 2, 15, 16, 17, 31, 32, 100, 1031]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# The mixed sequence: every kind of draw after every other, odd counts of short draws included.
MIXED = [
    ("f32", 1), ("exponential", 3), ("f32", 2), ("f32", 16), ("bf16", 3), ("f32", 1), ("bf16", 16), ("bf16", 5),
    ("multinomial", 40), ("bf16", 35), ("f32", 15), ("multinomial", 7), ("f32", 31), ("bf16", 1), ("exponential", 1000),
    ("f32", 19), ("bf16", 17), ("f32", 4),
]


def bits(tensor):
    return tensor.float().view(torch.int32).tolist()


def generator(seed):
    return torch.Generator("cpu").manual_seed(seed)


def weights(draw, columns):
    """Integers that both sides make: some zero, exact in f32 as multiples of 2^-12."""
    column = torch.arange(columns)
    weight = (column * 7919 + draw * 104729) % 97 - 48
    return weight.clamp(min=0).float() * 2.0**-12


def candidates(draw, row):
    """Fifty of the row's columns, with the weights of fifty columns."""
    columns = [4001 * k + draw for k in range(50)]
    probs = torch.zeros(row)
    probs[columns] = weights(draw, 50) + 2.0**-12
    return probs


def draw_mixed(seed):
    g, steps = generator(seed), []
    for index, (kind, count) in enumerate(MIXED):
        if kind == "exponential":
            values = bits(torch.empty(count).exponential_(1, generator=g))
        elif kind == "multinomial":
            values = [int(torch.multinomial(weights(index, count), 1, generator=g))]
        else:
            values = bits(torch.randn(count, generator=g, dtype=DTYPES[kind]))
        steps.append({"kind": kind, "count": count, "values": values})
    return steps


def main():
    torch.set_num_threads(1)
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        raise SystemExit("torch does not use AVX2 on this machine: its normal numbers are others")
    probe = torch.empty(2).exponential_(1, generator=generator(0)).tolist()
    if [round(value, 4) for value in probe] != [3.5083, 1.2304]:
        raise SystemExit("torch draws exponentials through MKL on this machine: they are others")

    g = generator(3)
    codes = [int(torch.multinomial(weights(draw, 1024), 1, generator=g)) for draw in range(200)]
    sparse = [int(torch.multinomial(candidates(draw, 200_000), 1, generator=g)) for draw in range(20)]
    # The radius of a bf16 number has 256 values and its angle too: many blocks meet most pairs. Kept as a sum of bits
    # in each of the sixteen places.
    many = {
        name: torch.randn(16 * 50_000, generator=generator(9), dtype=dtype).float().view(torch.int32).view(-1, 16)
        .to(torch.int64).sum(0).tolist()
        for name, dtype in DTYPES.items()
    }
    golden = {
        "torch": torch.__version__.split("+")[0],
        "exponential": [
            # The seed as torch takes it, modulo 2^64.
            {"seed": seed % 2**64, "values": bits(torch.empty(24).exponential_(1, generator=generator(seed)))}
            for seed in SEEDS
        ],
        "normal": [
            {"dtype": name, "count": count, "values": bits(torch.randn(count, generator=generator(5), dtype=dtype))}
            for name, dtype in DTYPES.items()
            for count in LENGTHS
        ],
        "many_normal": many,
        "multinomial": {"columns": 1024, "codes": codes, "row": 200_000, "sparse_codes": sparse,
                        "next": bits(torch.randn(16, generator=g))},
        "mixed": [{"seed": seed, "steps": draw_mixed(seed)} for seed in (11, 12)],
    }
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

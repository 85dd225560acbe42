"""Makes the op tables: what torch answers, op by op, to inputs that `tests/ops` draws again for itself.

usage: ops.py [OUT_DIR]        (default: ../ops)

Inputs are not stored. Each is drawn from its name by integer arithmetic and exact or once-rounded f32 operations, which
any language repeats to the bit (`Draw` here, `tests/ops/draw.rs` there). A file holds `out.<name>` in the dtype that
torch computed. One thread computes, and a second run writes the same bytes.
"""

import math
import sys
from pathlib import Path

import numpy
import torch
import torch.nn.functional as F
from diffusers.models.normalization import RMSNorm
from diffusers.models.transformers.transformer_minimax_music3 import (
    MiniMaxMusic3RotaryEmbedding,
    _apply_partial_rotary_emb,
)
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm, Qwen3RotaryEmbedding

torch.set_num_threads(1)
torch.set_grad_enabled(False)

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
SIZES = [1, 7, 64, 1000, 4096]
WORD = 0xFFFFFFFFFFFFFFFF


def words(name, count):
    """64-bit words: SplitMix64, seeded by the FNV-1a hash of the name."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x100000001B3) & WORD
    with numpy.errstate(over="ignore"):
        z = numpy.uint64(seed) + numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return z ^ (z >> numpy.uint64(31))


def from_bits(bits):
    return torch.from_numpy(numpy.asarray(bits, dtype=numpy.uint32).view(numpy.float32).copy())


class Draw:
    """Inputs of one dtype."""

    def __init__(self, dtype):
        self.dtype = DTYPES[dtype]

    def normal(self, name, *shape, scale=1.0, mean=0.0):
        """Nearly normal values, deviation 1.155 times `scale`: the sum of a word's four 16-bit parts."""
        drawn = words(name, math.prod(shape))
        shifts = [numpy.uint64(shift) for shift in (0, 16, 32, 48)]
        parts = sum(((drawn >> shift) & numpy.uint64(0xFFFF)).astype(numpy.int64) for shift in shifts)
        values = (parts - 131070).astype(numpy.float32) * numpy.float32(2.0**-15)
        values = values * numpy.float32(scale) + numpy.float32(mean)
        return torch.from_numpy(values.reshape(shape)).to(self.dtype)

    def integers(self, name, count, high):
        return [int(word % numpy.uint64(high)) for word in words(name, count)]

    def any_bits(self, name, count):
        """Values of any bit pattern of the dtype."""
        drawn = (words(name, count) >> numpy.uint64(32)).astype(numpy.uint32)
        return from_bits(drawn & numpy.uint32(0xFFFFFFFF if self.dtype == torch.float32 else 0xFFFF0000)).to(self.dtype)

    def edges(self):
        """Zeros, subnormals, the ends of the range, neighbours of one, powers of two, infinities, NaN; both signs."""
        grid = 16 if self.dtype == torch.bfloat16 else 0
        one, smallest, largest, infinity = (bits >> grid for bits in (0x3F800000, 0x00800000, 0x7F7FFFFF, 0x7F800000))
        powers = [(127 + power << 23) >> grid for power in (-126, -64, -8, -1, 1, 7, 8, 24, 63, 127)]
        magnitudes = [
            0, 1, 2, smallest // 2, smallest - 1, smallest, smallest + 1, one - 1, one, one + 1, one + 2, *powers,
            one + 5, one + smallest // 2, largest - 1, largest, infinity,
        ]
        sign = 0x80000000 >> grid
        bits = magnitudes + [magnitude | sign for magnitude in magnitudes] + [infinity + smallest // 2]
        return from_bits([value << grid for value in bits]).to(self.dtype)


def rounding():
    """f32 values to round, and for each whether torch rounds it away from zero: the rest follows from the bits."""
    tops = sorted({*range(0, 128, 9), 1, 2, 3, 62, 63, 64, 65, 125, 126, 127})
    lows = [0, 1, 2, 0x7FF0, 0x7FF8, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0x8002, 0x8007, 0x8008, 0x8010, 0xC000, 0xFFFE]
    lows.append(0xFFFF)
    top, low = numpy.array(tops, dtype=numpy.uint32), numpy.array(lows, dtype=numpy.uint32)
    exponents = numpy.arange(256, dtype=numpy.uint32)
    grid = (exponents[:, None, None] << 23) | (top[None, :, None] << 16) | low[None, None, :]
    grid = grid.reshape(-1)
    every_low = numpy.uint32(0x3F810000) + numpy.arange(65536, dtype=numpy.uint32)
    drawn = (words("rounding", 200_000) >> numpy.uint64(32)).astype(numpy.uint32)
    bits = numpy.concatenate([grid, grid | numpy.uint32(0x80000000), every_low, drawn])
    rounded = from_bits(bits).to(torch.bfloat16)
    nan = torch.isnan(from_bits(bits)).numpy()
    assert (torch.isnan(rounded).numpy() == nan).all()
    away = rounded.view(torch.int16).numpy().view(numpy.uint16).astype(numpy.int64) - (bits >> 16).astype(numpy.int64)
    away = numpy.where(nan, 0, away)
    assert set(away) == {0, 1}
    return {"away_from_zero": torch.from_numpy(numpy.packbits(away.astype(numpy.uint8), bitorder="little"))}


UNARY = {
    "neg": torch.neg,
    "silu": F.silu,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "recip": torch.reciprocal,
    "square": lambda x: x.pow(2),
    "mul_scalar_inv_sqrt_8": lambda x: x * 8**-0.5,
    "mul_scalar_1_7": lambda x: x * 1.7,
    "mul_scalar_2_pi": lambda x: x * (2 * math.pi),
    "mul_scalar_1_5": lambda x: x * 1.5,
    "add_scalar_1e_9": lambda x: x + 1e-9,
}


def unary(dtype):
    """Every bf16 value in the order of its bits; in f32 usual values, values of any bits and the edges."""
    draw = Draw(dtype)
    if dtype == "bf16":
        x = from_bits(numpy.arange(65536, dtype=numpy.uint32) << numpy.uint32(16)).to(torch.bfloat16)
    else:
        x = torch.cat([draw.normal("unary.usual", 1000, scale=3.0), draw.any_bits("unary.any", 1000), draw.edges()])
    return {name: op(x) for name, op in UNARY.items()}


def binary(dtype):
    """Edges against edges, values of any bits, and values near each other in size, of which sums cancel."""
    draw = Draw(dtype)
    edges = draw.edges()
    count = len(edges)
    near = draw.normal("binary.near", 1500, scale=2.0)
    a = [edges.repeat_interleave(count), draw.any_bits("binary.a", 1500), draw.normal("binary.c", 1500), near]
    b = [edges.repeat(count), draw.any_bits("binary.b", 1500), draw.normal("binary.d", 1500), near.roll(1)]
    a, b = torch.cat(a), torch.cat(b)
    row, column = draw.normal("binary.row", 3, 1, 5), draw.normal("binary.column", 1, 4, 5)
    ops = {"add": torch.add, "sub": torch.sub, "mul": torch.mul}
    pairs = {name: op(a, b) for name, op in ops.items()}
    return pairs | {f"{name}_broadcast": op(row, column) for name, op in ops.items()}


def rows_of(draw, name, size):
    """Rows to normalise; where there are several, also zeros, values so small that epsilon matters, and an offset."""
    count = min(64, 4096 // size)
    x = Draw("f32").normal(f"{name}.x", count, size, scale=1.7)
    if count > 3:
        x[0] = 0
        x[1] = x[1] * 2.0**-10
        x[2] = x[2] + 3.0
    return x.to(draw.dtype)


def normalisations(dtype):
    draw, outputs = Draw(dtype), {}
    for size in SIZES:
        name = f"norm_{size}"
        x = rows_of(draw, name, size)
        weight = draw.normal(f"{name}.weight", size, scale=0.3, mean=1.0)
        bias = draw.normal(f"{name}.bias", size, scale=0.3)
        diffusers_norm, qwen_norm = RMSNorm(size, eps=1e-6).to(x.dtype), Qwen3RMSNorm(size, eps=1e-6).to(x.dtype)
        for norm in (diffusers_norm, qwen_norm):
            norm.weight.copy_(weight)
        outputs[f"rms_norm_{size}"] = diffusers_norm(x)
        assert torch.equal(diffusers_norm(x), qwen_norm(x)), "upstream's two forms agree to the bit"
        outputs[f"layer_norm_{size}"] = F.layer_norm(x, [size], weight, bias, 1e-5)
        logits = draw.normal(f"softmax_{size}.x", x.shape[0], size, scale=4.0)
        if logits.shape[0] > 3:
            # Every second value masked, all of them masked, equal values.
            logits[0, ::2] = -math.inf
            logits[1] = -math.inf
            logits[2] = 3.0
        outputs[f"softmax_{size}"] = torch.softmax(logits, dim=-1)
    # As the condition encoder asks: one row of eight. (Over a dimension that is not the last, torch's CPU kernel for
    # bf16 also rounds the exponentials before it divides.)
    logits = draw.normal("softmax_layers.x", 40, 8)
    outputs["softmax_layers"] = torch.stack([torch.softmax(row, dim=0) for row in logits])
    return outputs


def sums(dtype):
    draw = Draw(dtype)
    outputs = {"sum_dim_7_embeddings": draw.normal("sum_7.x", 3, 7, 400, scale=0.9).sum(dim=1, keepdim=True)}
    for size in SIZES:
        outputs[f"sum_dim_{size}"] = draw.normal(f"sum_{size}.x", 40, size, scale=0.9).sum(dim=-1, keepdim=True)
    layers, weights = draw.normal("mix.x", 2, 5, 8, 96, scale=0.9), draw.normal("mix.weights", 8, scale=0.1, mean=0.125)
    # Upstream's tensor is [batch, layers, hidden, frames].
    mixed = torch.einsum("blht,l->bht", layers.permute(0, 2, 3, 1).contiguous(), weights)
    return outputs | {"mix_layers": mixed.transpose(1, 2).contiguous()}


def products(dtype):
    draw, outputs = Draw(dtype), {}
    few_rows = [(2, 1, 5), (1, 7, 33), (3, 64, 131), (2, 1000, 513), (2, 4096, 301)]
    for rows, inner, out in [*few_rows, (17, 77, 130), (21, 1000, 65), (19, 4096, 23)]:
        name = f"linear_{rows}_{inner}_{out}"
        x, weight = draw.normal(f"{name}.x", rows, inner), draw.normal(f"{name}.weight", out, inner, scale=inner**-0.5)
        outputs[name] = F.linear(x, weight)
        outputs[f"{name}_bias"] = F.linear(x, weight, draw.normal(f"{name}.bias", out, scale=0.7))
    for batch, rows, inner, columns in [(1, 5, 7, 3), (3, 11, 64, 13), (2, 6, 1000, 29)]:
        name = f"matmul_{batch}_{rows}_{inner}_{columns}"
        a = draw.normal(f"{name}.a", batch, rows, inner)
        b = draw.normal(f"{name}.b", batch, inner, columns, scale=inner**-0.5)
        outputs[name] = torch.matmul(a, b)
    return outputs


def convolutions(dtype):
    draw, outputs = Draw(dtype), {}
    for taps, dilation in [(1, 1), (3, 1), (3, 3), (3, 9), (7, 1), (7, 3), (7, 9)]:
        name = f"conv1d_{taps}_{dilation}"
        x = draw.normal(f"{name}.x", 2, 13, 41)
        weight = draw.normal(f"{name}.weight", 11, 13, taps, scale=(13 * taps) ** -0.5)
        geometry = {"padding": dilation * (taps - 1) // 2, "dilation": dilation}
        outputs[f"{name}_bias"] = F.conv1d(x, weight, draw.normal(f"{name}.bias", 11, scale=0.7), **geometry)
        if dilation == 1:
            outputs[name] = F.conv1d(x, weight, **geometry)
    for stride in [1, 2, 3, 8]:
        name = f"conv_transpose1d_{stride}"
        x = draw.normal(f"{name}.x", 2, 13, 19)
        weight = draw.normal(f"{name}.weight", 13, 11, 2 * stride, scale=26**-0.5)
        bias = draw.normal(f"{name}.bias", 11, scale=0.7)
        outputs[name] = F.conv_transpose1d(x, weight, bias, stride=stride, padding=math.ceil(stride / 2))
    return outputs


PARTS = ["key", "value"]
# Heads, key/value heads, head dimension, queries, keys, causal.
ATTENTION = {
    "full": (3, 3, 10, 17, 17, False),
    "causal": (3, 3, 10, 17, 17, True),
    "grouped_causal": (6, 2, 16, 33, 33, True),
    "grouped_decode_201": (8, 2, 64, 1, 201, False),
    "grouped_after_12": (4, 2, 16, 5, 17, True),
    "single": (2, 1, 8, 1, 1, True),
    "wide": (2, 2, 256, 10, 40, False),
}


def attention(dtype):
    draw, outputs = Draw(dtype), {}
    for label, (heads, kv_heads, head_dim, queries, keys, causal) in ATTENTION.items():
        name = f"attention_{label}"
        query = draw.normal(f"{name}.query", 2, heads, queries, head_dim, scale=1.5)
        key, value = (draw.normal(f"{name}.{part}", 2, kv_heads, keys, head_dim, scale=1.5) for part in PARTS)
        # torch lines the causal mask up with the first key, a cache's last query with the last: then it is given.
        mask = {"is_causal": causal}
        if causal and queries != keys:
            mask = {"attn_mask": torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)}
        with sdpa_kernel(SDPBackend.MATH):
            answer = F.scaled_dot_product_attention(query, key, value, enable_gqa=heads != kv_heads, **mask)
        outputs[name] = answer
    return outputs


POSITIONS = [*range(17), 25, 63, 100, 201, 345, 689, 1000, 2047, 4096, 5000, 6173, 7919, 8999, 9973, 9999, 10000]


def rotary(dtype):
    """Tables at chosen positions up to 10 000, and their use on part of a head or all of it."""
    draw, outputs = Draw(dtype), {}
    for rotary_dim, theta in [(128, 1e6), (32, 1e4), (26, 1e4), (10, 1e6)]:
        name = f"rotary_{rotary_dim}"
        cos, sin = MiniMaxMusic3RotaryEmbedding(rotary_dim, theta)(POSITIONS[-1] + 1, torch.device("cpu"))
        config = Qwen3Config(head_dim=rotary_dim, rope_parameters={"rope_theta": theta, "rope_type": "default"})
        qwen = Qwen3RotaryEmbedding(config)(cos, torch.arange(POSITIONS[-1] + 1)[None])
        assert torch.equal(qwen[0][0], cos) and torch.equal(qwen[1][0], sin), "upstream's two forms agree to the bit"
        half = rotary_dim // 2
        outputs[f"{name}_cos"] = cos[POSITIONS, :half].to(draw.dtype)
        outputs[f"{name}_sin"] = sin[POSITIONS, :half].to(draw.dtype)
        head_dim = rotary_dim if rotary_dim == 128 else rotary_dim + 8
        x = draw.normal(f"{name}.x", 1, 5, 2, head_dim, scale=1.5)
        turned = _apply_partial_rotary_emb(x, (cos[1000:1005], sin[1000:1005]))
        outputs[f"{name}_apply"] = turned.transpose(1, 2).contiguous()
    return outputs


def indexing(dtype):
    draw = Draw(dtype)
    table, ids = draw.any_bits("embedding.table", 37 * 9).reshape(37, 9), draw.integers("embedding.ids", 2 * 11, 37)
    x, indices = draw.any_bits("select.x", 2 * 13 * 5).reshape(2, 13, 5), draw.integers("select.indices", 29, 13)
    return {
        "embedding": F.embedding(torch.tensor(ids).reshape(2, 11), table),
        "index_select": x.index_select(1, torch.tensor(indices)),
    }


FAMILIES = [unary, binary, normalisations, sums, products, convolutions, attention, rotary, indexing]


def main(out_dir):
    folder = Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    files = {"rounding": rounding()}
    for dtype in DTYPES:
        files |= {f"{family.__name__}.{dtype}": family(dtype) for family in FAMILIES}
    for stem, outputs in files.items():
        path = folder / f"{stem}.safetensors"
        save_file({f"out.{name}": value.contiguous() for name, value in outputs.items()}, str(path))
        print(f"  {stem}: {path.stat().st_size} bytes")
    print(f"  together {sum((folder / f'{stem}.safetensors').stat().st_size for stem in files)} bytes")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "ops")

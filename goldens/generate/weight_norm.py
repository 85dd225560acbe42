"""What torch's weight norm folds to: crates/music3-weights/tests/data/weight_norm.safetensors.

`<case>.g` and `<case>.v` as a checkpoint stores them, `<case>.w` as a module computes it; the shapes cover rows shorter
than a vector register, whole registers, remainders, and the vocoder's own kernels. A processor without AVX2 sums in
another order: this refuses to write there.

    python weight_norm.py [OUT]
"""

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

DEFAULT_OUT = Path(__file__).resolve().parents[2] / "crates" / "music3-weights" / "tests" / "data" / "weight_norm.safetensors"

SHAPES = {
    "short": (9, 5, 1),
    "twelve": (7, 12, 1),
    "odd": (17, 5, 3),
    "conv1": (24, 24, 1),
    "conv7": (24, 40, 7),
    "transposed": (12, 24, 16),
    "output": (1, 24, 7),
}


def main(out):
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        raise SystemExit("needs a processor with AVX2 or AVX-512")
    draw = np.random.Generator(np.random.PCG64(15))
    tensors = {}
    for name, shape in SHAPES.items():
        v = torch.from_numpy(draw.normal(0, 0.3, shape).astype(np.float32))
        g = torch.from_numpy(draw.uniform(0.4, 1.6, (shape[0], 1, 1)).astype(np.float32))
        for suffix, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
            stored_g, stored_v = g.to(dtype), v.to(dtype)
            case = f"{name}.{suffix}"
            tensors |= {f"{case}.g": stored_g, f"{case}.v": stored_v}
            # norm over all dimensions but 0, as upstream's modules ask for it
            tensors[f"{case}.w"] = torch._weight_norm(stored_v, stored_g, 0)
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, out)
    print(f"{len(tensors)} tensors in {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_OUT)

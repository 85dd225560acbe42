"""Writes case files: one JSON with a safetensors file of the same stem beside it.

Every value in a case is computed by upstream's own classes. This module only names, seeds, stores and checks them.
"""

import json
import math
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy
import torch
import transformers
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

import diffusers

torch.set_num_threads(1)
torch.set_grad_enabled(False)
diffusers.utils.logging.disable_progress_bar()
# Upstream advises against what these scripts do on purpose: casting a module it means to be loaded in its dtype, where
# no tensor is exempt, and the weight norm that its own vocoder uses.
diffusers.utils.logging.set_verbosity_error()
warnings.filterwarnings("ignore", message=".*weight_norm.*", category=FutureWarning)

# Outputs smaller than this are judged together.
POOLED_UNDER = 100
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


class Draw:
    """Seeded numbers. NumPy's generator, because torch's normal draws differ between processors."""

    def __init__(self, seed):
        self.rng = numpy.random.default_rng(seed)

    def normal(self, *shape, scale=1.0, mean=0.0):
        values = self.rng.standard_normal(shape) * scale + mean
        return torch.from_numpy(values.astype(numpy.float32))

    def uniform(self, *shape, low=0.0, high=1.0):
        return torch.from_numpy(self.rng.uniform(low, high, shape).astype(numpy.float32))

    def integers(self, *shape, low=0, high):
        return torch.from_numpy(self.rng.integers(low, high, shape))

    def choice(self, options):
        return options[int(self.rng.integers(len(options)))]


def weight_scale(name, shape):
    """Mean and deviation that keep a module's outputs near unit size and its attention far from uniform."""
    field = name.split(".")[-1]
    parent = name.split(".")[-2] if "." in name else ""
    if field == "alpha":
        return 1.0, 0.3
    if field == "bias":
        return 0.0, 0.3
    if field == "layer_weight_logits":
        return 0.0, 1.0
    if field == "layer_scale":
        return 1.4, 0.1
    if field == "weight_g" and "conv_t" in parent:
        return None, 0.1
    if field == "weight_g":
        return {"conv2": 0.3, "conv_out": 0.2}.get(parent, 1.0), 0.1
    if field == "weight" and len(shape) == 1:
        return 1.1, 0.25
    if parent == "time_proj" or "embed" in parent:
        return 0.0, 1.0
    gain = {"to_q": 1.7, "to_k": 1.7, "lm_head": 2.0, "proj_out": 0.4}.get(parent, 1.0)
    return 0.0, gain / math.sqrt(math.prod(shape[1:]))


def seeded_weights(module, draw, dtype):
    """A state dict of the module's own names and shapes, drawn in f32 and rounded to `dtype`."""
    shapes = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    weights = {}
    for name, shape in shapes.items():
        mean, deviation = weight_scale(name, shape)
        if mean is None:
            # A transposed convolution's norm is per input channel: this size keeps its output at its input's size.
            inputs, outputs, kernel = shapes[name.removesuffix("_g") + "_v"]
            mean = math.sqrt(outputs * kernel / 2 / inputs)
            deviation *= mean
        weights[name] = draw.normal(*shape, scale=deviation, mean=mean).to(dtype)
    return weights


def load(module, weights, dtype):
    """The module in evaluation mode with these weights in `dtype`, loaded without gaps or leftovers."""
    module = module.to(dtype).eval()
    module.load_state_dict({name: value.to(dtype) for name, value in weights.items()}, strict=True)
    return module


def cast(tensors, dtype):
    return {name: value.to(dtype) if value.is_floating_point() else value for name, value in tensors.items()}


def passes(dtype):
    """The runs of one case: the prefix to store under, the dtype to compute in, and the attention kernel."""
    if dtype == "bf16":
        math_kernel = sdpa_kernel(SDPBackend.MATH)
        return [("out", "bf16", nullcontext()), ("out_math", "bf16", math_kernel), ("out_f32", "f32", nullcontext())]
    return [("out", dtype, nullcontext())]


class Case:
    """One case: collects what upstream was given and what it answered, then writes both files."""

    def __init__(self, component, config, dtype, seed, **listed):
        self.header = {"component": component, "config": config, "dtype": dtype, **listed}
        self.footer = {
            "seed": seed,
            "script": f"goldens/generate/{component}.py",
            "versions": {
                "diffusers": diffusers.__version__,
                "transformers": transformers.__version__,
                "torch": torch.__version__,
            },
        }
        self.dtype = dtype
        self.weighted = False
        self.tensors = {}

    def store(self, prefix, tensors):
        for name, value in tensors.items():
            key = f"{prefix}.{name}"
            assert key not in self.tensors, f"{key} is stored twice"
            self.tensors[key] = value.detach().clone().contiguous()

    def evaluate(self, weights, inputs, build, forward):
        """Stores weights and inputs (already in the case's dtype) and the answers of each of the case's passes.

        `build(dtype, weights)` makes upstream's module (in the weights' own dtypes if that is None, for a mixed case);
        `forward(module, inputs)` names its outputs.
        """
        self.weighted = True
        self.store("w", weights)
        self.store("in", inputs)
        for prefix, width, kernel in passes(self.dtype):
            dtype = DTYPES.get(width)
            module = build(dtype, weights)
            with kernel:
                outputs = forward(module, cast(inputs, dtype) if dtype else inputs)
            if prefix != "out":
                outputs = self.controls(outputs)
            self.store(prefix, outputs)

    def controls(self, outputs):
        """Rounds to the main pass's dtypes and keeps only what the passes can differ in: no integers, no f32 tables."""
        rounded = {}
        for name, value in outputs.items():
            main = self.tensors[f"out.{name}"]
            if main.is_floating_point() and not name.startswith(("cos_", "sin_")):
                rounded[name] = value.to(main.dtype)
        return rounded

    def check(self, stem):
        """Refuses a case that could not tell a right port from a wrong one."""
        for key, value in self.tensors.items():
            if self.weighted and key.startswith("out") and value.is_floating_point():
                assert bool(torch.isfinite(value).all()), f"{stem}: {key} is not finite"
                flat = value.numel() > 30 and value.float().std() < 1e-3 * value.float().abs().max()
                assert not flat, f"{stem}: {key} hardly varies"
        if self.dtype != "bf16":
            return
        pooled = []
        for name in [key.removeprefix("out_math.") for key in self.tensors if key.startswith("out_math.")]:
            if self.tensors[f"out.{name}"].numel() < POOLED_UNDER:
                pooled.append(name)
            else:
                self.check_negative_control(stem, [name])
        if pooled:
            self.check_negative_control(stem, pooled)

    def check_negative_control(self, stem, names):
        """f32 arithmetic rounded at the end must lie beyond the gate: a third of what the attention kernel changes."""
        control, single = self.share("out", names), self.share("out_f32", names)
        assert single > max(control / 3, 0.001), f"{stem}: {names}: rounding once at the end would pass: {single}"
        print(f"    {stem}: {names[0]}{'...' if names[1:] else ''}: control {control:.3f}, f32 arithmetic {single:.3f}")

    def share(self, prefix, names):
        """The share of values in which a pass differs from the one under MATH."""
        pairs = [(self.tensors[f"{prefix}.{name}"], self.tensors[f"out_math.{name}"]) for name in names]
        return sum(int((left != right).sum()) for left, right in pairs) / sum(left.numel() for left, _ in pairs)

    def write(self, out_dir, stem):
        self.check(stem)
        folder = Path(out_dir)
        folder.mkdir(parents=True, exist_ok=True)
        save_file(dict(sorted(self.tensors.items())), str(folder / f"{stem}.safetensors"))
        text = json.dumps({**self.header, **self.footer}, indent=2)
        (folder / f"{stem}.json").write_text(text + "\n", encoding="utf-8")
        print(f"  {stem}: {(folder / f'{stem}.safetensors').stat().st_size} bytes")

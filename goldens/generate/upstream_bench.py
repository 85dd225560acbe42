"""What `upstream_speed.py` measures with: modules drawn on the device, a clock that waits for it, and the report."""

import contextlib
import gc
import json
import statistics
import subprocess
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import diffusers
import torch
import transformers
from diffusers import MiniMaxMusic3RVQDepthDecoder, MiniMaxMusic3Transformer1DModel, MiniMaxMusic3Vocoder
from diffusers.models.condition_embedders.condition_embedder_minimax_music3 import MiniMaxMusic3ConditionEncoder
from diffusers.modular_pipelines.minimax_music3 import encoders
from transformers import Qwen3Config, Qwen3ForCausalLM

CONTRACT = Path(__file__).resolve().parents[2] / "weights-mapping" / "contract.json"
F32, BF16 = torch.float32, torch.bfloat16
NAMES = {F32: "f32", BF16: "bf16"}
CLASSES = {
    "rvq_depth_decoder": MiniMaxMusic3RVQDepthDecoder,
    "condition_encoder": MiniMaxMusic3ConditionEncoder,
    "transformer": MiniMaxMusic3Transformer1DModel,
    "vocoder": MiniMaxMusic3Vocoder,
}
WARM_UP = 3
# What changes for trying the script. Ids of codes stay as published, so the vocabulary ends with the last of them.
TINY = {
    "language_model": {
        "vocab_size": encoders._AUDIO_CODE_OFFSET + encoders._SEMANTIC_VOCAB_SIZE,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
    },
    "rvq_depth_decoder": {"hidden_size": 32, "num_layers": 2, "num_attention_heads": 2, "intermediate_size": 48},
    "condition_encoder": {"condition_hidden_dim": 32, "out_dim": 20},
    "transformer": {
        "in_channels": 8,
        "condition_dim": 20,
        "num_layers": 2,
        "num_attention_heads": 2,
        "attention_head_dim": 32,
        "ff_inner_dim": 48,
    },
    "vocoder": {"latent_channels": 8, "decoder_input_dim": 12, "decoder_hidden_dim": 32},
}


class Bench:
    """The device, the modules of the current row, and what was measured so far."""

    def __init__(self, options):
        self.options = options
        self.device = torch.device(options.device)
        self.parts = {}
        self.rows = []
        configs = json.loads(CONTRACT.read_text(encoding="utf-8"))["configs"]
        for config in configs.values():
            for key in ("_class_name", "architectures", "model_type"):
                config.pop(key, None)
        changes = TINY if options.dims == "tiny" else {}
        self.configs = {name: config | changes.get(name, {}) for name, config in configs.items()}

    def take(self, *wanted):
        """The modules `(name, dtype)`, built on the device where they are absent; all others are freed before."""
        for key in set(self.parts) - set(wanted):
            del self.parts[key]
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        for name, dtype in wanted:
            if (name, dtype) not in self.parts:
                start = time.perf_counter()
                self.parts[name, dtype] = self.build(name, dtype)
                self.wait()
                print(f"  built {name} in {NAMES[dtype]}: {time.perf_counter() - start:.1f} s", flush=True)
        return [self.parts[key] for key in wanted]

    def build(self, name, dtype):
        config = self.configs["language_model" if name == "embedding" else name]
        with self.device, default_dtype(dtype):
            if name == "embedding":
                embed_tokens = torch.nn.Embedding(config["vocab_size"], config["hidden_size"])
                return SimpleNamespace(model=SimpleNamespace(embed_tokens=embed_tokens))
            if name != "language_model":
                return CLASSES[name](**config).eval()
        with self.device:
            model = Qwen3ForCausalLM._from_config(Qwen3Config(**config), dtype=dtype).eval()
        assert model.model.rotary_emb.inv_freq.dtype == F32
        # An end token of logit 0 is never among the best fifty, so the loop runs as long as it is asked to.
        model.lm_head.weight.data[encoders._AUDIO_END_TOKEN_ID].zero_()
        return model

    def normal(self, *shape, dtype):
        return torch.randn(shape, device=self.device, dtype=dtype)

    def generator(self):
        """Upstream draws on the generator's device; reproducible songs have it on the CPU."""
        return torch.Generator(self.device if self.options.generator == "device" else "cpu").manual_seed(0)

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, call):
        self.wait()
        start = time.perf_counter()
        call()
        self.wait()
        return time.perf_counter() - start

    def measure(self, row, dtype, call, **about):
        """Times a call that returns what has to be finite."""
        self.forget_peak()
        outputs = [call() for _ in range(self.options.warm_up)]
        if not all(bool(torch.isfinite(output).all()) for output in outputs):
            raise ValueError(f"{row} {about}: not all values are finite")
        del outputs
        before = time.process_time()
        seconds = [self.seconds(call) for _ in range(self.options.repeat)]
        if self.device.type == "cpu":
            # Of all threads: what a call costs on a machine that does other work too.
            about["processor_ms"] = round(1000.0 * (time.process_time() - before) / len(seconds))
        self.report(row, dtype, seconds, **about)

    def forget_peak(self):
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()

    def report(self, row, dtype, seconds, **about):
        times = [1000.0 * value for value in seconds]
        found = {"row": row, "precision": dtype if isinstance(dtype, str) else NAMES[dtype]} | about
        label = " ".join(f"{key}={value}" for key, value in found.items()).removeprefix("row=")
        found["calls"] = len(times)
        found["median_ms"], found["mean_ms"] = statistics.median(times), statistics.fmean(times)
        found["min_ms"], found["max_ms"] = min(times), max(times)
        keys = ("median", "min", "max", "mean")
        line = f"{label}: " + ", ".join(f"{key} {found[f'{key}_ms']:.3f}" for key in keys) + " ms"
        if self.device.type == "cuda":
            found["peak_gpu_bytes"] = torch.cuda.max_memory_allocated()
            line += f", at most {found['peak_gpu_bytes'] / 1e9:.2f} GB of the GPU's memory in tensors"
        print(line, flush=True)
        self.rows.append(found)
        self.write()

    def write(self):
        """Everything so far, after each row: a run that is cut off keeps what it had."""
        if self.options.json:
            about = describe(self.options, self.device) | {"rows": self.rows}
            Path(self.options.json).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def tf32(products, convolutions):
    """Whether f32 products and convolutions may run in TF32. Torch's own choice: convolutions only."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32, cudnn.allow_tf32 = products, convolutions
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


ARITHMETIC = {"strict": partial(tf32, False, False), "tf32": partial(tf32, True, True)}


def describe(options, device):
    driver = None
    if device.type == "cuda":
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            driver = subprocess.run(query, check=True, capture_output=True, text=True).stdout.split("\n")[0]
    return {
        "torch": torch.__version__,
        "diffusers": diffusers.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "driver": driver,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if device.type == "cuda" else None,
        "dims": options.dims,
        "generator": options.generator,
        "warm_up": options.warm_up,
    }

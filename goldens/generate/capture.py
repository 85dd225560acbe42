"""Records one whole run of upstream's pipeline on a checkpoint folder, in a form that can be replayed.

usage: capture.py OUT_STEM --model DIR --prompt TEXT --lyrics TEXT [options]      (see --help)

It writes OUT_STEM.json and OUT_STEM.safetensors. Upstream's loops run as they are: this script wraps the functions and
modules that they call, notes what passes through, and on `--replay` hands recorded draws and noise back in.
"""

import argparse
import contextlib
import json
import os
from dataclasses import dataclass, field

import diffusers
import torch
import transformers
from diffusers import MiniMaxMusic3ModularPipeline
from diffusers.modular_pipelines.minimax_music3 import denoise, encoders
from safetensors.torch import load_file, save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

F32, BF16 = torch.float32, torch.bfloat16
AUTOREGRESSIVE = ("language_model", "rvq_depth_decoder", "condition_encoder")
ACOUSTIC = ("transformer", "vocoder")
# dtype name -> (autoregressive half, acoustic half)
DTYPES = {"f32": (F32, F32), "bf16": (BF16, BF16), "mixed": (BF16, F32)}
LIGHT = ("text_ids", "codes", "sampled_flat", "audios", "probe_exponential")
CODES_START, CODES_END = encoders._AUDIO_CODE_OFFSET, encoders._AUDIO_CODE_OFFSET + encoders._SEMANTIC_VOCAB_SIZE


@dataclass
class Request:
    """What a listener asks for, and how upstream computes it."""

    prompt: str
    lyrics: str
    duration: float
    steps: int
    seed: int
    dtype: str = "f32"
    attention: str = "default"
    lm_head_row_scale: dict = field(default_factory=dict)


def load_pipeline(model, dtype):
    """Upstream's pipeline with every component in the dtype that `dtype` asks for."""
    first, second = DTYPES[dtype]
    dtypes = dict.fromkeys(AUTOREGRESSIVE, first) | dict.fromkeys(ACOUSTIC, second)
    pipeline = MiniMaxMusic3ModularPipeline.from_pretrained(model)
    pipeline.load_components(dtype=dtypes)
    for name, expected in dtypes.items():
        found = getattr(pipeline, name).dtype
        if found != expected:
            raise TypeError(f"{name} was loaded as {found}, expected {expected}")
    pipeline.set_progress_bar_config(disable=True)
    for block in pipeline._blocks.sub_blocks.values():
        for inner in [block, *getattr(block, "sub_blocks", {}).values()]:
            if hasattr(inner, "set_progress_bar_config"):
                inner.set_progress_bar_config(disable=True)
    return pipeline


def scale_rows(pipeline, scales):
    """Multiplies rows of the language model's head, in its own dtype."""
    weight = pipeline.language_model.lm_head.weight.data
    for row, factor in scales.items():
        weight[int(row)] *= factor


class Recorder:
    """Notes what passes through upstream's functions; with `replay`, hands that run's draws and noise back in."""

    def __init__(self, pipeline, replay=None, logits_steps=0):
        self.pipeline = pipeline
        self.tensors = {}
        self.draws = []
        self.steps = {"lm_last_hidden": [], "guided": [], "depth_guided": []}
        self.window = -1
        self.step = 0
        self.overlaps = []
        self.forced = replay["sampled_flat"].tolist() if replay else None
        self.noise = replay
        self.logits_steps = logits_steps

    @contextlib.contextmanager
    def attached(self):
        """Upstream with the wrappers in place."""
        pipeline = self.pipeline
        step = denoise.MiniMaxMusic3ChunkConditionStep
        patches = [
            (encoders, "_sample_top_k", self.sample(encoders._sample_top_k)),
            (denoise, "randn_tensor", self.randn(denoise.randn_tensor)),
            (step, "__call__", self.condition_step(step.__call__)),
            (pipeline.scheduler, "step", self.scheduler_step(pipeline.scheduler.step)),
        ]
        originals = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
        hooks = [
            pipeline.language_model.lm_head.register_forward_hook(self.head_hook),
            pipeline.condition_encoder.register_forward_hook(self.condition_hook),
            pipeline.vocoder.register_forward_hook(self.vocoder_hook),
        ]
        for owner, name, patch in patches:
            setattr(owner, name, patch)
        try:
            yield self
        finally:
            for owner, name, original in originals:
                setattr(owner, name, original)
            for hook in hooks:
                hook.remove()

    def head_hook(self, _module, inputs, output):
        index = len(self.steps["lm_last_hidden"])
        self.steps["lm_last_hidden"].append(inputs[0].clone())
        if index < self.logits_steps:
            end = output[:, encoders._AUDIO_END_TOKEN_ID, None]
            rows = torch.cat((end, output[:, CODES_START:CODES_END]), dim=-1)
            self.tensors[f"lm_logits_end_and_codes_{index}"] = rows

    def sample(self, original):
        def sample_top_k(logits, generator):
            if logits.shape[-1] == self.pipeline.language_model.config.vocab_size:
                kept = torch.isfinite(logits[0]).nonzero()[:, 0]
                self.steps["guided"].append((kept, logits[0, kept]))
                self.steps["depth_guided"].append([])
            else:
                self.steps["depth_guided"][-1].append(logits[0].clone())
            if self.forced is None:
                drawn = original(logits, generator)
            else:
                drawn = torch.tensor([self.forced[len(self.draws)]])
            self.draws.append(int(drawn.item()))
            return drawn

        return sample_top_k

    def condition_hook(self, _module, _inputs, output):
        self.window += 1
        self.step = 0
        # Upstream splices the previous window's condition into this tensor later.
        self.tensors[f"condition_raw_{self.window}"] = output.clone()

    def condition_step(self, original):
        def call(block, components, block_state, k):
            result = original(block, components, block_state, k=k)
            self.tensors[f"condition_{k}"] = block_state.condition.clone()
            self.overlaps.append(block_state.overlap)
            return result

        return call

    def randn(self, original):
        def randn_tensor(*args, **kwargs):
            key = f"noise_{self.window}"
            noise = original(*args, **kwargs) if self.forced is None else self.noise[key].to(kwargs["dtype"])
            # Upstream overwrites the overlap of its own tensor at every step.
            self.tensors[key] = noise.clone()
            return noise

        return randn_tensor

    def scheduler_step(self, original):
        def step(velocity, *args, **kwargs):
            result = original(velocity, *args, **kwargs)
            self.tensors[f"velocity_{self.window}_{self.step}"] = velocity.clone()
            self.tensors[f"latents_{self.window}_{self.step}"] = result[0].clone()
            self.step += 1
            return result

        return step

    def vocoder_hook(self, _module, _inputs, output):
        count = sum(name.startswith("waveform_") for name in self.tensors)
        self.tensors[f"waveform_{count}"] = output.clone()

    def finish(self, state):
        """Every tensor of the capture, now that the run is over."""
        tensors = self.tensors
        tensors["text_ids"] = state.get("text_ids")
        tensors["frame_hiddens"] = state.get("frame_hiddens")
        tensors["audios"] = state.get("audios")
        for index, latents in enumerate(state.get("latent_chunks")):
            tensors[f"latent_chunk_{index}"] = latents
        tensors["chunk_starts"] = torch.tensor(state.get("chunk_starts"))
        tensors["overlaps"] = torch.tensor(self.overlaps)
        tensors["timesteps"] = self.pipeline.scheduler.timesteps
        tensors["sigmas"] = self.pipeline.scheduler.sigmas
        tensors["sampled_flat"] = torch.tensor(self.draws)
        tensors["lm_last_hidden"] = torch.stack(self.steps["lm_last_hidden"])
        complete = [torch.stack(rows) for rows in self.steps["depth_guided"] if rows]
        tensors["depth_guided"] = torch.stack(complete)
        per_frame = 1 + complete[0].shape[0]
        codes = tensors["sampled_flat"][: len(complete) * per_frame].reshape(-1, per_frame).clone()
        codes[:, 0] -= CODES_START
        tensors["codes"] = codes
        width = max(len(ids) for ids, _ in self.steps["guided"])
        pad = lambda values: torch.nn.functional.pad(values, (0, width - len(values)), value=-1)
        tensors["guided_ids"] = torch.stack([pad(ids) for ids, _ in self.steps["guided"]])
        tensors["guided_vals"] = torch.stack([pad(values) for _, values in self.steps["guided"]])
        tensors["probe_exponential"] = probe_exponential()
        return {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}


def probe_exponential():
    """The first exponentials of seed 0: they tell whether this torch draws them through MKL."""
    return torch.empty(8).exponential_(1, generator=torch.Generator("cpu").manual_seed(0))


def run(pipeline, request, replay=None, logits_steps=0):
    """Runs upstream once; gives the capture's tensors, or raises what upstream raised."""
    recorder = Recorder(pipeline, replay, logits_steps)
    kernel = sdpa_kernel(SDPBackend.MATH) if request.attention == "math" else contextlib.nullcontext()
    with kernel, recorder.attached():
        state = pipeline(
            prompt=request.prompt,
            lyrics=request.lyrics,
            audio_duration=request.duration,
            num_inference_steps=request.steps,
            generator=torch.Generator("cpu").manual_seed(request.seed),
            output_type="pt",
        )
    return recorder.finish(state)


def describe(request, tensors):
    """The capture's JSON, without what only the caller knows (component, checkpoint, the MATH twin)."""
    first, second = ({F32: "f32", BF16: "bf16"}[dtype] for dtype in DTYPES[request.dtype])
    about = {
        "prompt": request.prompt,
        "lyrics": request.lyrics,
        "duration": request.duration,
        "steps": request.steps,
        "seed": request.seed,
        "dtype": request.dtype,
        "dtypes": dict.fromkeys(AUTOREGRESSIVE, first) | dict.fromkeys(ACOUSTIC, second),
        "attention": request.attention,
        "versions": {
            "torch": torch.__version__.split("+")[0],
            "diffusers": diffusers.__version__,
            "transformers": transformers.__version__,
        },
    }
    if request.lm_head_row_scale:
        about["lm_head_row_scale"] = request.lm_head_row_scale
    if tensors is not None:
        about["ended_by_end_token"] = int(tensors["sampled_flat"][-1]) == encoders._AUDIO_END_TOKEN_ID
        about["sampled_flat"] = tensors["sampled_flat"].tolist()
    return about


def write(stem, about, tensors, omit=()):
    """Writes the JSON and, if there are tensors, the safetensors file, leaving out names that begin with `omit`."""
    os.makedirs(os.path.dirname(os.path.abspath(stem)), exist_ok=True)
    if tensors is not None:
        kept = {name: tensor for name, tensor in tensors.items() if not name.startswith(tuple(omit))}
        save_file(kept, f"{stem}.safetensors")
        left_out = sorted(set(tensors) - set(kept))
        if left_out:
            about = about | {"omitted": left_out}
    lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in about.items()]
    with open(f"{stem}.json", "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


def light(tensors):
    """Name prefixes of everything that a light capture leaves out."""
    return [name for name in tensors if name not in LIGHT]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out_stem", help="where to write, without .json / .safetensors")
    parser.add_argument("--model", required=True, help="checkpoint folder in the diffusers layout")
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--lyrics", required=True)
    parser.add_argument("--duration", type=float, default=2.0, help="seconds")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", choices=DTYPES, default="mixed")
    parser.add_argument("--attention", choices=("default", "math"), default="default")
    parser.add_argument("--replay", metavar="CAPTURE", help="take codes and noise from this .safetensors; run MATH")
    parser.add_argument("--light", action="store_true", help="keep only the ids, codes, draws and audio")
    parser.add_argument("--logits", type=int, default=0, metavar="N", help="keep the head's output of the first N steps")
    parser.add_argument("--math", metavar="STEM", help="name the MATH replay of this capture in the JSON")
    return parser.parse_args()


def main():
    options = arguments()
    torch.set_num_threads(1)
    request = Request(
        prompt=options.prompt,
        lyrics=options.lyrics,
        duration=options.duration,
        steps=options.steps,
        seed=options.seed,
        dtype=options.dtype,
        attention="math" if options.replay else options.attention,
    )
    replay = load_file(options.replay) if options.replay else None
    tensors = run(load_pipeline(options.model, request.dtype), request, replay, options.logits)
    about = describe(request, tensors)
    if options.replay:
        about = {"replay_of": os.path.splitext(os.path.basename(options.replay))[0]} | about
    else:
        checkpoint = os.path.relpath(options.model, os.path.dirname(os.path.abspath(options.out_stem)))
        about = {"component": "pipeline", "checkpoint": checkpoint} | about
    if options.math:
        about["math"] = options.math
    write(options.out_stem, about, tensors, light(tensors) if options.light else ())


if __name__ == "__main__":
    main()

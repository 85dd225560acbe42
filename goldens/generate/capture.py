"""Records one whole run of upstream's pipeline on a checkpoint folder, in a form that can be replayed.

usage: capture.py OUT_STEM --model DIR --prompt TEXT --lyrics TEXT [options]      (see --help)

It writes OUT_STEM.json and OUT_STEM.safetensors. With `--with-math` the same codes and noise then run again under MATH
attention, into OUT_STEM_replay, and the first file names the second: that is what `music3 verify` judges bf16 by. On
`--device cuda` random numbers still come from the CPU's generator, and f32 is f32: TF32 and sums in bf16 are off.
"""

import argparse
import contextlib
import json
import os
from dataclasses import dataclass, field, replace

import diffusers
import torch
import transformers
from diffusers import MiniMaxMusic3ModularPipeline
from diffusers.modular_pipelines.minimax_music3 import encoders
from safetensors.torch import load_file, save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

from recorder import Recorder

F32, BF16 = torch.float32, torch.bfloat16
AUTOREGRESSIVE = ("language_model", "rvq_depth_decoder", "condition_encoder")
ACOUSTIC = ("transformer", "vocoder")
# dtype name -> (autoregressive half, acoustic half)
DTYPES = {"f32": (F32, F32), "bf16": (BF16, BF16), "mixed": (BF16, F32)}
LIGHT = ("text_ids", "codes", "sampled_flat", "audios", "probe_exponential")


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


@dataclass
class Kept:
    """What a capture keeps: the head's output of the first steps, and every how many Euler steps are kept."""

    logits_steps: int = 0
    every: int = 1


def compute_exactly(device):
    """One thread, or a GPU whose products of f32 are f32 and whose sums of bf16 products round once."""
    if torch.device(device).type == "cpu":
        torch.set_num_threads(1)
        return
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True


def load_pipeline(model, dtype, device="cpu"):
    """Upstream's pipeline on a device, with every component in the dtype that `dtype` asks for."""
    first, second = DTYPES[dtype]
    dtypes = dict.fromkeys(AUTOREGRESSIVE, first) | dict.fromkeys(ACOUSTIC, second)
    pipeline = MiniMaxMusic3ModularPipeline.from_pretrained(model)
    pipeline.load_components(dtype=dtypes)
    for name, expected in dtypes.items():
        found = getattr(pipeline, name).dtype
        if found != expected:
            raise TypeError(f"{name} was loaded as {found}, expected {expected}")
        getattr(pipeline, name).to(device)
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


def run(pipeline, request, replay=None, kept=Kept()):
    """Runs upstream once; gives the capture's tensors, or raises what upstream raised."""
    recorder = Recorder(pipeline, replay, kept)
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


def write_pair(pipeline, stem, head, request, kept=Kept()):
    """Runs a request freely and its codes and noise again under MATH; writes STEM and STEM_replay."""
    free = run(pipeline, request, kept=kept)
    twin = f"{stem}_replay"
    write(stem, {"component": "pipeline"} | head | describe(request, free) | {"math": os.path.basename(twin)}, free)
    under_math = replace(request, attention="math")
    replayed = run(pipeline, under_math, free, kept)
    write(twin, {"replay_of": os.path.basename(stem)} | head | describe(under_math, replayed), replayed)
    return free


def about_the_machine(device, weights):
    """Where upstream ran and on what kind of weights, for the JSON."""
    name = "cpu" if torch.device(device).type == "cpu" else torch.cuda.get_device_name(device)
    return {"weights": weights, "device": name}


def checkpoint_beside(model, stem):
    """A checkpoint folder's path as a capture names it: relative to the capture."""
    return os.path.relpath(model, os.path.dirname(os.path.abspath(stem)))


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
    parser.add_argument("--device", default="cpu", help="where upstream runs: cpu or cuda")
    parser.add_argument("--weights", choices=("published", "random"), default="published", help="whose bounds hold")
    parser.add_argument("--attention", choices=("default", "math"), default="default")
    parser.add_argument("--with-math", action="store_true", help="also write OUT_STEM_replay, the same under MATH")
    parser.add_argument("--replay", metavar="CAPTURE", help="take codes and noise from this .safetensors; run MATH")
    parser.add_argument("--light", action="store_true", help="keep only the ids, codes, draws and audio")
    parser.add_argument("--logits", type=int, default=0, metavar="N", help="keep the head's output of the first N steps")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="keep each Nth Euler step, and the last")
    parser.add_argument("--math", metavar="STEM", help="name the MATH replay of this capture in the JSON")
    options = parser.parse_args()
    if options.with_math and (options.replay or options.light or options.math or options.attention == "math"):
        parser.error("--with-math makes a whole capture and its replay; it goes with none of --replay, --light, "
                     "--math and --attention math")
    return options


def refuse(options):
    """Ends before anything is loaded where the run could only fail, or would replace what is no capture."""
    if not os.path.isfile(os.path.join(options.model, "modular_model_index.json")):
        raise SystemExit(f"--model {options.model}: no checkpoint in the diffusers layout, modular_model_index.json is not there")
    if torch.device(options.device).type == "cuda" and not torch.cuda.is_available():
        raise SystemExit(f"--device {options.device}: this torch sees no GPU; leave it out, or use a torch with CUDA")
    path = f"{options.out_stem}.json"
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            present = json.load(file)
        if not {"component", "replay_of"} & present.keys():
            raise SystemExit(f"{path} is there and is no capture, perhaps a song's recipe; choose another name")


def main():
    options = arguments()
    refuse(options)
    compute_exactly(options.device)
    request = Request(
        prompt=options.prompt,
        lyrics=options.lyrics,
        duration=options.duration,
        steps=options.steps,
        seed=options.seed,
        dtype=options.dtype,
        attention="math" if options.replay else options.attention,
    )
    kept = Kept(options.logits, options.every)
    pipeline = load_pipeline(options.model, request.dtype, options.device)
    machine = about_the_machine(options.device, options.weights)
    head = {"checkpoint": checkpoint_beside(options.model, options.out_stem)} | machine
    if options.with_math:
        write_pair(pipeline, options.out_stem, head, request, kept)
        print(f"{options.out_stem}.json and its twin {options.out_stem}_replay.json, each with its .safetensors")
        print(f"next: music3 verify --model {options.model} --capture {options.out_stem}.json")
        return
    replay = load_file(options.replay) if options.replay else None
    tensors = run(pipeline, request, replay, kept)
    about = describe(request, tensors)
    if options.replay:
        about = {"replay_of": os.path.splitext(os.path.basename(options.replay))[0]} | machine | about
    else:
        about = {"component": "pipeline"} | head | about
    if options.math:
        about["math"] = options.math
    write(options.out_stem, about, tensors, light(tensors) if options.light else ())


if __name__ == "__main__":
    main()

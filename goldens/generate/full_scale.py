"""Records what upstream computes at full dimensions on a random checkpoint: each song twice, the second under MATH.

usage: full_scale.py OUT_DIR --model DIR [--device cuda|cpu]        (make the checkpoint with published_random.py)
       full_scale.py OUT_DIR --model DIR --on-cpu NAME              (replays a recorded song on the CPU, under MATH)

Every song of a dtype runs in one process, on a pipeline that is loaded once. The two lengths are one short window, and
two windows of which the first is whole: 689 latents. A replay on the CPU says how far upstream is from itself between
two devices; distance.py prints that.
"""

import argparse
import gc
import os
import time

from safetensors.torch import load_file

from capture import (
    Kept, Request, about_the_machine, checkpoint_beside, compute_exactly, describe, load_pipeline, run, write, write_pair,
)

PROMPT = "Slow folk ballad, warm acoustic guitar, soft female vocals."
LYRICS = "[verse]\nThe river runs below the hill\nthe morning light is cold and still\n[chorus]\nSing it over"
# Seconds; 25 frames each. `--only` names these.
SONGS = {"short": 1.0, "long": 8.4}
KEPT = Kept(logits_steps=1)
PLANS = [("mixed", "short"), ("mixed", "long"), ("f32", "short"), ("bf16", "short")]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out_dir")
    parser.add_argument("--model", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=30)
    names = [f"{song}_{dtype}" for dtype, song in PLANS]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--on-cpu", choices=names, metavar="NAME", help=", ".join(names))
    return parser.parse_args()


def request_for(dtype, song, steps, attention="default"):
    return Request(PROMPT, LYRICS, SONGS[song], steps, seed=1, dtype=dtype, attention=attention)


def replay_on_cpu(options):
    """Writes NAME_cpu: the codes and noise of NAME under MATH attention, on all of the CPU's threads."""
    song, dtype = options.on_cpu.split("_")
    stem = os.path.join(options.out_dir, options.on_cpu)
    pipeline = load_pipeline(options.model, dtype)
    request = request_for(dtype, song, options.steps, "math")
    tensors = run(pipeline, request, load_file(f"{stem}.safetensors"), KEPT)
    write(f"{stem}_cpu", {"replay_of": options.on_cpu} | about_the_machine("cpu", "random") | describe(request, tensors), tensors)


def record(options):
    compute_exactly(options.device)
    pipeline, loaded = None, None
    for dtype, song in PLANS:
        name = f"{song}_{dtype}"
        if name not in options.only:
            continue
        start = time.monotonic()
        if loaded != dtype:
            # The one before leaves the device first: two do not fit beside each other in every memory.
            pipeline = None
            gc.collect()
            pipeline, loaded = load_pipeline(options.model, dtype, options.device), dtype
            print(f"{dtype}: loaded, {time.monotonic() - start:.1f} s", flush=True)
            start = time.monotonic()
        stem = os.path.join(options.out_dir, name)
        head = {"checkpoint": checkpoint_beside(options.model, stem)}
        head |= about_the_machine(options.device, "random")
        tensors = write_pair(pipeline, stem, head, request_for(dtype, song, options.steps), KEPT)
        size = os.path.getsize(f"{stem}.safetensors") / 1e6
        frames, seconds = len(tensors["codes"]) - 1, time.monotonic() - start
        print(f"{name}: {frames} frames, twice {size:.0f} MB, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    chosen = arguments()
    replay_on_cpu(chosen) if chosen.on_cpu else record(chosen)

"""Records what upstream computes at full dimensions on a random checkpoint: each song twice, the second under MATH.

usage: full_scale.py OUT_DIR --model DIR [--device cuda|cpu]        (make the checkpoint with published_random.py)

Every song of a dtype runs in one process, on a pipeline that is loaded once. The two lengths are one short window, and
two windows of which the first is whole: 689 latents.
"""

import argparse
import gc
import os
import time

import torch

from capture import Kept, Request, about_the_machine, checkpoint_beside, compute_exactly, load_pipeline, write_pair

PROMPT = "Slow folk ballad, warm acoustic guitar, soft female vocals."
LYRICS = "[verse]\nThe river runs below the hill\nthe morning light is cold and still\n[chorus]\nSing it over"
# Seconds; 25 frames each. `--only` names these.
SONGS = {"short": 1.0, "long": 8.4}
PLANS = [("mixed", "short"), ("mixed", "long"), ("f32", "short"), ("bf16", "short")]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out_dir")
    parser.add_argument("--model", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=30)
    names = [f"{song}_{dtype}" for dtype, song in PLANS]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    return parser.parse_args()


def main():
    options = arguments()
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
        request = Request(PROMPT, LYRICS, SONGS[song], options.steps, seed=1, dtype=dtype)
        tensors = write_pair(pipeline, stem, head, request, Kept(logits_steps=1))
        size = os.path.getsize(f"{stem}.safetensors") / 1e6
        frames, seconds = len(tensors["codes"]) - 1, time.monotonic() - start
        print(f"{name}: {frames} frames, twice {size:.0f} MB, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()

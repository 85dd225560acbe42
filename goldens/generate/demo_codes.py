"""Records the codes that upstream draws for what `music3 generate --demo` asks for unless told otherwise.

usage: demo_codes.py [OUT_DIR]        (default: ../demo; reads ../demo/demo-checkpoint.tar.gz)

It writes demo-codes.json, which the program carries and compares its own codes with. Upstream runs under MATH attention.
The codes do not depend on the number of steps, so upstream takes one.
"""

import json
import os
import sys
import tarfile
import tempfile

import torch

from capture import Request, describe, load_pipeline, run
from captures import ARCHIVE, HERE

CAPTION = "A gentle folk song with acoustic guitar, soft drums and a warm female voice"
LYRICS = "[verse]\nRain on the window, tea going cold\n[chorus]\nStay for a little, the night is not old"
SECONDS, SEED = 4.0, 0
# Storage of the autoregressive half -> the dtypes that upstream is run in.
WIDTHS = {"bf16": "mixed", "f32": "f32"}


def record(model, dtype):
    """Codes of every decode step, whether the end token ended the song, and the versions that drew them."""
    request = Request(CAPTION, LYRICS, SECONDS, 1, SEED, dtype, "math")
    tensors = run(load_pipeline(model, dtype), request)
    about = describe(request, tensors)
    rows = tensors["codes"].tolist()
    return {"ended_by_end_token": about["ended_by_end_token"], "codes": rows}, about["versions"]


def main(out_dir):
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as model:
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(model, filter="data")
        runs = {width: record(model, dtype) for width, dtype in WIDTHS.items()}
    answer = {"caption": CAPTION, "lyrics": LYRICS, "max_seconds": SECONDS, "seed": SEED, "rng": "torch"}
    answer |= {"attention": "math", "versions": next(versions for _, versions in runs.values())}
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in answer.items()]
    lines += [f"  {json.dumps(width)}: {json.dumps(recorded)}" for width, (recorded, _) in runs.items()]
    path = os.path.join(out_dir, "demo-codes.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
    for width, (recorded, _) in runs.items():
        print(f"{path}: {width}, {len(recorded['codes']) - 1} frames")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "demo"))

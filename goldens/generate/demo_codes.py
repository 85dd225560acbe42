"""Records the codes that upstream draws for what `music3 generate --demo` asks for unless told otherwise, tune by tune.

usage: demo_codes.py [OUT_DIR]        (default: ../demo; reads tunes-checkpoint.tar.gz and tunes.json there)

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
from captures import HERE

SECONDS, SEED = 8.0, 0
DEMO = os.path.join(HERE, "..", "demo")
# Storage of the autoregressive half -> the dtypes that upstream is run in.
WIDTHS = {"bf16": "mixed", "f32": "f32"}


def record(pipeline, tune, dtype):
    """Codes of every decode step, whether the end token ended the song, and the versions that drew them."""
    request = Request(tune["caption"], tune["lyrics"], SECONDS, 1, SEED, dtype, "math")
    tensors = run(pipeline, request)
    about = describe(request, tensors)
    rows = tensors["codes"].tolist()
    return {"ended_by_end_token": about["ended_by_end_token"], "codes": rows}, about["versions"]


def main(out_dir):
    torch.set_num_threads(1)
    with open(os.path.join(DEMO, "tunes.json"), encoding="utf-8") as file:
        tunes = json.load(file)
    with tempfile.TemporaryDirectory() as model:
        with tarfile.open(os.path.join(DEMO, "tunes-checkpoint.tar.gz")) as archive:
            archive.extractall(model, filter="data")
        pipelines = {width: load_pipeline(model, dtype) for width, dtype in WIDTHS.items()}
    path, lines = os.path.join(out_dir, "demo-codes.json"), []
    for tune in tunes:
        answer = {"caption": tune["caption"], "lyrics": tune["lyrics"], "max_seconds": SECONDS, "seed": SEED}
        answer |= {"rng": "torch"}
        for width, dtype in WIDTHS.items():
            answer[width], versions = record(pipelines[width], tune, dtype)
            print(f"{path}: {tune['name']}, {width}, {len(answer[width]['codes']) - 1} frames")
        lines.append(json.dumps(answer, ensure_ascii=False))
    head = f'"attention": "math",\n"versions": {json.dumps(versions)},\n"runs": [\n'
    with open(path, "w", encoding="utf-8") as file:
        file.write("{\n" + head + ",\n".join(lines) + "\n]\n}\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else DEMO)

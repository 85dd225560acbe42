"""Writes what the fuzzers start from, with torch and safetensors: fuzz/seeds."""

import collections
import io
import json
import zipfile
from pathlib import Path

import torch
from safetensors.torch import save

SEEDS = Path(__file__).resolve().parents[2] / "fuzz" / "seeds"


def pth(value, **options):
    stream = io.BytesIO()
    torch.save(value, stream, **options)
    return stream.getvalue()


def main():
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    state = collections.OrderedDict(a=tensor, b=tensor[0])
    state._metadata = collections.OrderedDict([("", {"version": 1})])
    files = {
        "plain": pth({"a": tensor}),
        "state": pth(state),
        "nested": pth({"state_dict": {"a": tensor, "n": {"b": tensor[1:]}}, "step": 3, "rate": 0.5, "note": "x"}),
        "parameter": pth({"a": torch.nn.Parameter(tensor)}, pickle_protocol=4),
    }
    for name, content in files.items():
        (SEEDS / "archive" / name).write_bytes(content)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            pickle = next(entry for entry in archive.namelist() if entry.endswith("data.pkl"))
            (SEEDS / "pickle" / name).write_bytes(archive.read(pickle))
    (SEEDS / "header" / "two").write_bytes(save({"a": tensor, "b": tensor[0].bfloat16()}, {"format": "pt"}))
    (SEEDS / "header" / "none").write_bytes(save({}))
    both = {"metadata": {"total_size": 8}, "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}
    (SEEDS / "index" / "both").write_text(json.dumps(both))
    (SEEDS / "index" / "outside").write_text(json.dumps({"weight_map": {"a": "../1.safetensors", "c": "2.safetensors"}}))


if __name__ == "__main__":
    main()

"""Packs a checkpoint of the diffusers layout in the native one, with torch.

    python native.py DIFFUSERS_FOLDER OUT_FOLDER
    python native.py --compare DIFFUSERS_FOLDER NATIVE_FOLDER
    python native.py --golden

The second form has torch load a native folder and compares it with what the first would have written. The third unpacks the demo checkpoint and writes goldens/native: both `.pth` files as torch saved them, the config,
the index, and of the two weight files of the language model the headers only. Their tensors are those of the demo
checkpoint, so a test puts them together again; `sha256.json` says what must come out.
"""

import hashlib
import json
import shutil
import struct
import sys
import tarfile
import tempfile
from collections import OrderedDict
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from native_names import (
    FLOW_FILE, LANGUAGE_MODEL_FILE, TOKENIZER_FOLDER, VOCODER_FILE, native_config, native_name,
)

COMPONENTS = ["language_model", "rvq_depth_decoder", "condition_encoder", "transformer", "vocoder"]
GOLDENS = Path(__file__).resolve().parents[1]
SHARDS = 2


def tensors_of(folder):
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            tensors.update({name: file.get_tensor(name) for name in file.keys()})
    return tensors


def pack(source):
    """The native files' tensors by file and name; fused ones are put together."""
    files, parts = {}, {}
    for component in COMPONENTS:
        for name, tensor in tensors_of(source / component).items():
            file, native, part = native_name(component, name)
            packed = files.setdefault(file, OrderedDict())
            if part is None:
                packed[native] = tensor
            else:
                packed[native] = None
                parts.setdefault((file, native), {})[part] = tensor
    for (file, native), thirds in parts.items():
        files[file][native] = torch.cat([thirds[part] for part in range(3)])
    return files


def encoder():
    """Stands for the encoder that the published file has too: nothing reads it."""
    generator = torch.Generator().manual_seed(7)
    draw = lambda *shape: torch.randn(shape, generator=generator)
    return OrderedDict([
        ("encoder.block.0.weight_g", draw(6, 1, 1)), ("encoder.block.0.weight_v", draw(6, 2, 7)),
        ("encoder.block.0.bias", draw(6)), ("enc_mean_proj.weight", draw(4, 6, 1)), ("enc_logs_proj.weight", draw(4, 6, 1)),
    ])


def write(source, out):
    files = pack(source)
    config = {name: json.loads((source / name / "config.json").read_text()) for name in COMPONENTS}

    folder = out / Path(LANGUAGE_MODEL_FILE).parent
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(
        json.dumps(native_config(config["language_model"], config["rvq_depth_decoder"]), indent=2) + "\n")
    packed = files[LANGUAGE_MODEL_FILE]
    names, total, shards = list(packed), sum(tensor.nbytes for tensor in packed.values()), [{}]
    for name in names:
        if sum(tensor.nbytes for tensor in shards[-1].values()) > total / SHARDS - 1e6 and len(shards) < SHARDS:
            shards.append({})
        shards[-1][name] = packed[name]
    weight_map = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / file, {"format": "pt"})
        weight_map.update({name: file for name in shard})
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")

    # One is saved with the attribute that a module's state dict has, the other is a plain dictionary.
    flow = files[FLOW_FILE]
    flow._metadata = OrderedDict([("", {"version": 1})])
    torch.save(flow, out / FLOW_FILE)
    torch.save({**encoder(), **files[VOCODER_FILE]}, out / VOCODER_FILE)

    # The published layout has no config for these: their sizes are fixed. Others bring theirs.
    for name in ["condition_encoder", "transformer", "vocoder"]:
        shutil.copy(source / name / "config.json", out / f"{name}.json")
    (out / TOKENIZER_FOLDER).mkdir(parents=True)
    for path in (source / "tokenizer").iterdir():
        shutil.copy(path, out / TOKENIZER_FOLDER / path.name)


def write_golden():
    golden = GOLDENS / "native"
    shutil.rmtree(golden, ignore_errors=True)
    golden.mkdir()
    with tempfile.TemporaryDirectory() as scratch:
        source, out = Path(scratch) / "demo", Path(scratch) / "native"
        with tarfile.open(GOLDENS / "demo" / "demo-checkpoint.tar.gz") as archive:
            archive.extractall(source, filter="data")
        write(source, out)
        folder = out / Path(LANGUAGE_MODEL_FILE).parent
        hashes = {}
        for path in sorted(folder.glob("*.safetensors")):
            content = path.read_bytes()
            length = struct.unpack("<Q", content[:8])[0]
            (golden / f"{path.stem}.header.json").write_bytes(content[8 : 8 + length])
            hashes[path.name] = hashlib.sha256(content).hexdigest()
        (golden / "sha256.json").write_text(json.dumps(hashes, indent=2) + "\n")
        for path in [folder / "config.json", folder / "model.safetensors.index.json", out / FLOW_FILE, out / VOCODER_FILE]:
            shutil.copy(path, golden / path.name)
    print(f"{sum(path.stat().st_size for path in golden.iterdir())} bytes in {golden}")


def compare(source, native):
    """Whether a native folder, whoever wrote it, holds the tensors of a diffusers one."""
    for file, expected in pack(source).items():
        path = native / file
        found = torch.load(path, weights_only=True) if file.endswith(".pth") else tensors_of(path.parent)
        missing, equal = set(expected) - set(found), [torch.equal(found.get(name, torch.empty(0)), expected[name]) for name in expected]
        print(f"{file}: {sum(equal)} of {len(equal)} tensors equal, {len(set(found) - set(expected))} more")
        if missing or not all(equal):
            sys.exit(f"{file} differs; missing: {sorted(missing)}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--golden"]:
        write_golden()
    elif len(sys.argv) == 4 and sys.argv[1] == "--compare":
        compare(Path(sys.argv[2]), Path(sys.argv[3]))
    elif len(sys.argv) == 3:
        write(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        sys.exit(__doc__)

"""Writes a checkpoint folder in the published diffusers layout, and packs it.

The folder is written by upstream's own classes and their `save_pretrained`, with the index by which upstream's pipeline
finds its components.
"""

import gzip
import hashlib
import io
import json
import os
import tarfile
import tempfile

from diffusers import FlowMatchEulerDiscreteScheduler, MiniMaxMusic3Blocks


def new_scheduler():
    """The scheduler as published."""
    return FlowMatchEulerDiscreteScheduler(num_train_timesteps=1, shift=1.0, invert_sigmas=True)


def write_folder(folder, components, checkpoint, shards):
    """Writes components into the subfolders that they are named after; `shards` maps some to a shard's largest size."""
    for name, component in components.items():
        options = {"max_shard_size": shards[name]} if name in shards else {}
        component.save_pretrained(os.path.join(folder, name), **options)
    pipeline = MiniMaxMusic3Blocks().init_pipeline()
    pipeline.update_components(**components)
    pipeline.save_config(save_directory=folder)
    point_index_at_folder(os.path.join(folder, "modular_model_index.json"), components, checkpoint)


def point_index_at_folder(path, components, checkpoint):
    """Names each component's subfolder; upstream prefers the local copy to the name in the index."""
    with open(path, encoding="utf-8") as file:
        index = json.load(file)
    for name, component in components.items():
        library = type(component).__module__.split(".")[0]
        loading = index[name][2] if name in index else {}
        type_hint = loading.get("type_hint") or [library, type(component).__name__]
        loading = {"type_hint": type_hint, "pretrained_model_name_or_path": checkpoint}
        loading |= {"subfolder": name, "variant": None, "revision": None}
        index[name] = [library, type(component).__name__, loading]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(index, file, indent=2, sort_keys=True)
        file.write("\n")


def pack(folder, archive):
    """Packs a folder so that the same files always give the same bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        names = sorted(
            os.path.relpath(os.path.join(root, name), folder) for root, _, files in os.walk(folder) for name in files
        )
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                content = file.read()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), 0o644, 0
            tar.addfile(entry, io.BytesIO(content))
    with open(archive, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(raw.getvalue())


def write_packed(stem, components, checkpoint, shards):
    """Writes STEM.tar.gz and STEM.sha256."""
    os.makedirs(os.path.dirname(os.path.abspath(stem)), exist_ok=True)
    archive = f"{stem}.tar.gz"
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, components, checkpoint, shards)
        pack(folder, archive)
    with open(archive, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    with open(f"{stem}.sha256", "w", encoding="utf-8") as file:
        file.write(digest + "\n")
    print(f"{archive}: {os.path.getsize(archive)} bytes, sha256 {digest}")

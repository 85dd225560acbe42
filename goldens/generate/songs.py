"""Makes the songs that are compared code for code, nothing forced: 20 seeds in f32 and 20 in mixed under MATH.

usage: songs.py [OUT_DIR]        (default: ../songs; reads ../demo/demo-checkpoint.tar.gz)

A song is small: its codes, and in f32 every 67th sample of its audio, a stride that meets every phase of the 512
samples of a latent. Texts, lengths and seeds vary together.
"""

import os
import sys
import tarfile
import tempfile

import torch

from capture import Request, compute_exactly, describe, load_pipeline, run, write
from captures import ARCHIVE, HERE

SEEDS = 20
EVERY = 67
CAPTIONS = [
    "A warm acoustic folk song with soft female vocals.",
    "# Techno\n* fast **dark** beat\n* 140 BPM",
    "Orchestral ballad in a minor key: strings, piano",
    "Lo-fi hip hop, dusty vinyl noise, mellow electric piano",
    "<|genre jazz|> smoky trio,   brushed drums",
    "夜空下的慢歌，钢琴和弦乐",
    "Punk rock, male shouting vocals, distorted guitars!",
    "x",
    "A cappella choir in a large hall. Slow, 60 BPM. Key: D minor.",
    "Bossa nova\r\n- nylon guitar\r\n- whispering voice",
]
LYRICS = [
    "[verse]\nThe river runs below the hill\nthe morning light is cold and still",
    "[Intro]\n[Drop]\nHey now ^ hey now\n[Outro] fade",
    "la la la",
    "[Verse 1]\nÔ nuit d'été, la mer est belle\n[Chorus]\nl'étoile brille et nous appelle",
    "[副歌]\n夜空的星星在唱歌",
    "[start]\n\n\n[Bridge] x\nhold on, hold on, the dawn is near\n" * 4,
    "oh",
]
SECONDS = [
    0.04, 0.2, 0.5, 0.8, 1.0, 1.16, 1.5, 1.72, 2.0, 2.32, 2.5, 2.8, 3.0, 3.2, 3.4, 3.6, 3.8, 3.96, 4.0, 1.28,
]
STEPS = 4


def song(seed, dtype, attention):
    caption, lyrics = CAPTIONS[seed % len(CAPTIONS)], LYRICS[seed % len(LYRICS)]
    return Request(caption, lyrics, SECONDS[seed * 7 % SEEDS], STEPS, seed, dtype, attention)


def small(tensors, dtype):
    """What of a run is kept."""
    kept = {"codes": tensors["codes"].to(torch.int16), "probe_exponential": tensors["probe_exponential"]}
    if dtype == "f32":
        kept[f"audios_every_{EVERY}"] = tensors["audios"][..., ::EVERY].contiguous()
    return kept


def main(out_dir):
    compute_exactly("cpu")
    with tempfile.TemporaryDirectory() as model:
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(model, filter="data")
        for dtype, attention in (("f32", "default"), ("mixed", "math")):
            pipeline = load_pipeline(model, dtype)
            for seed in range(SEEDS):
                request = song(seed, dtype, attention)
                tensors = run(pipeline, request)
                about = {"component": "pipeline", "checkpoint": "../demo/demo-checkpoint.tar.gz"}
                about |= describe(request, tensors) | {"omitted": ["audios"]}
                # The codes say the same.
                del about["sampled_flat"]
                write(os.path.join(out_dir, f"{dtype}_{seed:02}"), about, small(tensors, dtype))
                print(f"{dtype} {seed}: {len(tensors['codes']) - 1} frames", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "songs"))

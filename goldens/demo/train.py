"""Trains the demo checkpoint that plays: upstream's own classes, taught a handful of tunes and nothing else.

usage: train.py [--out DIR] [--scale X] [--device cpu|cuda]       (default: this folder; writes tunes-checkpoint.tar.gz,
                                                                   tunes-checkpoint.sha256 and tunes.json)

1. The tunes are rendered as samples and as latents, and given codes.
2. The language model and the depth decoder learn to draw the codes, the condition encoder to read their hidden states.
3. The vocoder learns to make samples from latents.
4. Upstream draws every tune in bf16 and in f32; the transformer learns to make latents from the conditions found there.
5. Upstream's pipeline plays every tune, with seeds that training did not use; a wrong code or note fails the script.

`--scale` multiplies the numbers of steps. On a CPU the same seed gives the same bytes; a GPU, or another
machine's arithmetic, gives another checkpoint that plays the same tunes.
"""

import argparse
import json
import os
import sys
import tarfile
import tempfile
import time

import torch
from diffusers import MiniMaxMusic3Transformer1DModel

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "generate"))

from capture import load_pipeline  # noqa: E402
from checkpoint_folder import new_scheduler, write_folder, write_packed  # noqa: E402
from codes import by_frame, codes_of  # noqa: E402
from demo_tokenizer import build_tokenizer  # noqa: E402
from evaluation import frame_hiddens, play, report  # noqa: E402
from language_training import Rows, Teacher, full_language_model, prompt_ids, train_language  # noqa: E402
from transformer_training import TRANSFORMER, train_transformer  # noqa: E402
from tunes import TUNES, listing, render_all  # noqa: E402
from vocoder_training import train_vocoder  # noqa: E402

NAME = "music3-tunes-checkpoint"
LANGUAGE_MODEL_SHARD, TRANSFORMER_SHARD = 25_700_000, 500_000
# Bits of an f32 mantissa that are kept, so that the archive is small.
MANTISSA_BITS = 10
DRAWN_SEEDS, PLAYED_SEEDS = (101, 102), (0, 1, 2)


def coarse(model):
    """Rounds every f32 value to `MANTISSA_BITS`."""
    dropped = 23 - MANTISSA_BITS
    for value in model.state_dict().values():
        bits = value.view(torch.int32)
        bits.add_(1 << (dropped - 1)).bitwise_and_(-1 << dropped)
    return model


def conditions(folder):
    """The conditions [variants, latents, dim] that upstream finds for each tune, in both dtypes, with several seeds."""
    found = [[] for _ in TUNES]
    for dtype in ("f32", "mixed"):
        pipeline = load_pipeline(folder, dtype)
        for tune, variants in zip(TUNES, found):
            for seed in DRAWN_SEEDS:
                hiddens = frame_hiddens(pipeline, tune, seed)
                if hiddens.shape[1] != tune.frames():
                    raise ValueError(f"{tune.name} ended after {hiddens.shape[1]} frames, expected {tune.frames()}")
                with torch.no_grad():
                    variants.append(pipeline.condition_encoder(hiddens)[0].float())
    return [torch.stack(variants) for variants in found]


class Lesson:
    """The tunes as everything that is to be learnt of them."""

    def __init__(self):
        rendered = [tuple(torch.from_numpy(part).float() for part in tune) for tune in render_all()]
        self.samples, self.latents = [list(part) for part in zip(*rendered)]
        self.frames = [by_frame(latents, tune.frames()) for latents, tune in zip(self.latents, TUNES)]
        self.codes = codes_of(self.frames)
        self.tokenizer, self.text_tokens = build_tokenizer()
        self.prompts = [prompt_ids(self.tokenizer, tune.caption, tune.lyrics) for tune in TUNES]


def train(lesson, device, scale, progress):
    """The components of the checkpoint."""
    rows = Rows(lesson.text_tokens, lesson.codes)
    teacher = Teacher(rows, lesson.prompts, lesson.codes, lesson.frames, device)
    models = train_language(teacher, device, scale, progress)
    components = {
        "tokenizer": lesson.tokenizer,
        "language_model": full_language_model(models),
        "rvq_depth_decoder": models.depth.to(torch.bfloat16),
        # Stored in f32 and run in bf16 or f32: with values that bf16 holds both are the same encoder.
        "condition_encoder": models.condition.to(torch.bfloat16).float(),
        "transformer": MiniMaxMusic3Transformer1DModel(**TRANSFORMER),
        "scheduler": new_scheduler(),
        "vocoder": coarse(train_vocoder(list(zip(lesson.samples, lesson.latents)), device, scale, progress).cpu()),
    }
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, components, NAME, {})
        taught = list(zip(conditions(folder), lesson.latents))
    components["transformer"] = coarse(train_transformer(taught, device, scale, progress).cpu())
    return components


def evaluate(archive, lesson):
    """Plays every tune with every seed from the packed checkpoint; returns whether all is right."""
    right = []
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        pipeline = load_pipeline(folder, "mixed")
    for tune, wanted_codes, wanted_samples in zip(TUNES, lesson.codes, lesson.samples):
        for seed in PLAYED_SEEDS:
            codes, samples = play(pipeline, tune, seed)
            same = codes.shape == wanted_codes.shape and bool((codes == wanted_codes).all())
            right.append(report(tune, seed, same, samples, wanted_samples.numpy()))
    return all(right)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default=HERE, help="where to write")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the numbers of steps")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--progress", type=int, default=100, help="steps between two lines")
    options = parser.parse_args()
    torch.set_num_threads(1)
    started = time.time()
    lesson = Lesson()
    components = train(lesson, options.device, options.scale, options.progress)
    print(f"trained in {time.time() - started:.0f} s on {options.device}", flush=True)
    shards = {"language_model": LANGUAGE_MODEL_SHARD, "transformer": TRANSFORMER_SHARD}
    stem = os.path.join(options.out, "tunes-checkpoint")
    write_packed(stem, components, NAME, shards)
    with open(os.path.join(options.out, "tunes.json"), "w", encoding="utf-8") as file:
        json.dump(listing(), file, ensure_ascii=False, indent=1)
        file.write("\n")
    if not evaluate(f"{stem}.tar.gz", lesson):
        raise SystemExit("a code or a note is wrong: train longer, with --scale")


if __name__ == "__main__":
    main()

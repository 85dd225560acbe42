"""Plays a tune by upstream's own pipeline and listens to it: the codes, and the pitch of every note."""

import os
import sys

import numpy as np
import torch
from diffusers.modular_pipelines.minimax_music3.modular_blocks_minimax_music3 import MiniMaxMusic3SemanticGenerationStep

from tunes import FRAME_RATE, SAMPLE_RATE, hertz

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "generate"))

from capture import Request, run  # noqa: E402

MAX_SECONDS = 8.0
LOWEST_HZ, HIGHEST_HZ = 180.0, 700.0
NAMES = "C C# D D# E F F# G G# A A# B".split()


def frame_hiddens(pipeline, tune, seed):
    """What the language model and the depth decoder hand on for a tune, drawn by upstream."""
    first = MiniMaxMusic3SemanticGenerationStep().init_pipeline()
    names = ("tokenizer", "language_model", "rvq_depth_decoder")
    first.update_components(**{name: getattr(pipeline, name) for name in names})
    draws = torch.Generator("cpu").manual_seed(seed)
    state = first(prompt=tune.caption, lyrics=tune.lyrics, audio_duration=MAX_SECONDS, generator=draws)
    return state.get("frame_hiddens")


def play(pipeline, tune, seed):
    """The codes [steps, 8] and the samples [2, n] of a song, by upstream's pipeline."""
    tensors = run(pipeline, Request(tune.caption, tune.lyrics, MAX_SECONDS, 30, seed))
    return tensors["codes"], tensors["audios"][0].numpy()


def heard_hertz(samples):
    """The pitch of a stretch of sound: the first lag at which it is nearly as like itself as it ever is."""
    samples = samples - samples.mean()
    shortest, longest = int(SAMPLE_RATE / HIGHEST_HZ), int(SAMPLE_RATE / LOWEST_HZ)
    length = len(samples) - longest - 1
    start = samples[:length]
    alike = np.array([
        start @ samples[lag : lag + length]
        / (np.linalg.norm(start) * np.linalg.norm(samples[lag : lag + length]) + 1e-12)
        for lag in range(longest + 1)
    ])
    peaks = [lag for lag in range(shortest, longest) if alike[lag - 1] < alike[lag] >= alike[lag + 1]]
    if not peaks:
        return 0.0
    best = max(alike[lag] for lag in peaks)
    lag = next(lag for lag in peaks if alike[lag] > 0.9 * best)
    before, at, after = alike[lag - 1 : lag + 2]
    return SAMPLE_RATE / (lag + 0.5 * (before - after) / (before - 2 * at + after))


def heard_notes(tune, samples):
    """(MIDI number wanted, cents off) of each note of a tune, in the second half of its time."""
    mono, notes = samples.mean(axis=0), []
    for number, start, frames in tune.notes():
        first, last = start + 0.4 * frames, start + 0.9 * frames
        stretch = mono[int(first * SAMPLE_RATE / FRAME_RATE) : int(last * SAMPLE_RATE / FRAME_RATE)]
        heard = heard_hertz(stretch.astype(np.float64))
        notes.append((number, 1200 * np.log2(max(heard, 1.0) / hertz(number))))
    return notes


def note_name(number):
    return f"{NAMES[number % 12]}{number // 12 - 1}"


def report(tune, seed, codes_right, samples, wanted_samples):
    """Prints one song's verdict; returns whether every code and every note is right."""
    notes = heard_notes(tune, samples)
    right = [abs(cents) < 50 for _, cents in notes]
    error = wanted_samples[:, : samples.shape[1]] - samples
    decibels = 10 * np.log10((error**2).sum() / (wanted_samples**2).sum())
    print(
        f"{tune.name}, seed {seed}: codes {'right' if codes_right else 'WRONG'}, {sum(right)} of {len(right)} notes, "
        f"error {decibels:.1f} dB; " + " ".join(f"{note_name(number)}{cents:+.0f}" for number, cents in notes),
        flush=True,
    )
    return codes_right and all(right)

"""Guided logits cases: upstream's own generation step over its full vocabulary, stopped at its first draw."""

from contextlib import ExitStack
from types import SimpleNamespace
from unittest.mock import patch

import torch
from diffusers.modular_pipelines.minimax_music3 import encoders
from diffusers.modular_pipelines.modular_pipeline import PipelineState

from cases import Case, Draw

VOCAB_SIZE = 200_000
FIRST_CODE = encoders._AUDIO_CODE_OFFSET
AUDIO_ROWS = [encoders._AUDIO_END_TOKEN_ID, *range(FIRST_CODE, FIRST_CODE + encoders._SEMANTIC_VOCAB_SIZE)]
PUBLISHED = {"cfg_scale": 1.5, "cfg_top_k": 50, "sampling_top_k": 50}


def spread(draw):
    return draw.normal(2, len(AUDIO_ROWS), scale=3.0)


def ties(draw):
    """bf16 values, of which several share the fiftieth place."""
    return spread(draw).to(torch.bfloat16).float()


def excluded(draw):
    """Entries that one row rules out, or both, and the end token among the best."""
    logits = spread(draw)
    logits[0, 7:5000:3] = -torch.inf
    logits[1, 7:5000:9] = -torch.inf
    logits[:, 0] = torch.tensor([14.0, 12.0])
    return logits


CASES = [
    ("ties", PUBLISHED, [ties]),
    ("excluded", {"cfg_scale": 2.25, "cfg_top_k": 9, "sampling_top_k": 6}, [excluded]),
]


def drawn(offset):
    draw = Draw(offset)
    listed = {
        "cfg_scale": draw.choice([1.25, 1.5, 3.0]),
        "cfg_top_k": draw.choice([20, 50, 64]),
        "sampling_top_k": draw.choice([11, 50]),
    }
    return [(f"s{offset}", listed, [ties, excluded])]


def first_draw(logits, listed):
    """The guided row and the probabilities that upstream's generation step passes to its first draw."""
    # Rows that are no audio are the largest of all, so that a missing mask would show.
    full = torch.full((2, VOCAB_SIZE), 50.0)
    full[:, AUDIO_ROWS] = logits
    hidden = torch.zeros(2, 1, 1)
    language_model = SimpleNamespace(
        config=SimpleNamespace(vocab_size=VOCAB_SIZE), lm_head=lambda last_hidden: full, model=FirstStep(hidden)
    )
    components = SimpleNamespace(
        language_model=language_model, rvq_depth_decoder=SimpleNamespace(), frame_rate=25.0, _execution_device="cpu"
    )
    state = PipelineState()
    state.set("text_ids", torch.zeros(2, 1, dtype=torch.long))
    state.set("audio_duration", 1.0)
    state.set("generator", None)
    seen = {}
    sample_top_k = encoders._sample_top_k

    def keep_guided(guided, generator):
        seen["guided"] = guided
        return sample_top_k(guided, generator)

    def keep_probs(probs, count, generator=None):
        seen["probs"] = probs
        return torch.full((1, 1), encoders._AUDIO_END_TOKEN_ID)

    with ExitStack() as patches:
        patches.enter_context(patch.object(encoders, "_AR_CFG_SCALE", listed["cfg_scale"]))
        patches.enter_context(patch.object(encoders, "_AR_CFG_TOP_K", listed["cfg_top_k"]))
        patches.enter_context(patch.object(encoders, "_AR_SAMPLING_TOP_K", listed["sampling_top_k"]))
        patches.enter_context(patch.object(encoders, "_sample_top_k", keep_guided))
        patches.enter_context(patch.object(torch, "multinomial", keep_probs))
        try:
            encoders.MiniMaxMusic3AutoregressiveStep()(components, state)
        except ValueError as error:
            # The first draw was told to end the song.
            assert "zero audio frames" in str(error)
    rest = torch.ones(VOCAB_SIZE, dtype=torch.bool)
    rest[AUDIO_ROWS] = False
    assert bool((seen["guided"][0, rest] == -torch.inf).all()) and float(seen["probs"][0, rest].sum()) == 0.0
    return seen["guided"][0, AUDIO_ROWS], seen["probs"][0, AUDIO_ROWS]


class FirstStep:
    """Stands for the language model's body up to the first position, whose logits the case sets itself."""

    def __init__(self, hidden):
        self.hidden = hidden

    def embed_tokens(self, ids):
        return self.hidden

    def __call__(self, inputs_embeds, use_cache):
        return SimpleNamespace(last_hidden_state=self.hidden, past_key_values=None)


def main(out_dir, offset=0):
    for index, (label, listed, makers) in enumerate(drawn(offset) if offset else CASES):
        seed = 7000 + index + 100 * offset
        draw = Draw(seed)
        case = Case("guided_logits", {}, "f32", seed, **listed)
        for row, make in enumerate(makers):
            logits = make(draw)
            guided, probs = first_draw(logits, listed)
            case.store("in", {f"cond_{row}": logits[0], f"uncond_{row}": logits[1]})
            case.store("out", {f"guided_{row}": guided, f"probs_{row}": probs})
            print(f"    {label} {row}: {int((guided > -torch.inf).sum())} candidates, {int((probs > 0).sum())} drawable")
        case.write(out_dir, f"guided_logits.{label}.f32")

"""Depth loop cases: per frame the seven guided rows, the depth hiddens and the feedback embedding, with forced codes."""

from types import SimpleNamespace
from unittest.mock import patch

import torch
from diffusers import MiniMaxMusic3RVQDepthDecoder
from diffusers.modular_pipelines.minimax_music3 import encoders

from cases import DTYPES, Case, Draw, load, seeded_weights

CONFIGS = [
    (
        "three_heads",
        {"hidden_size": 30, "num_layers": 2, "num_attention_heads": 3, "intermediate_size": 46, "audio_vocab_size": 17},
        3,
    ),
    (
        "odd_heads",
        {"hidden_size": 44, "num_layers": 1, "num_attention_heads": 4, "intermediate_size": 74, "audio_vocab_size": 13},
        2,
    ),
]
# Rows of the language model's embedding that a case holds: the first semantic codes only.
SEMANTIC_ROWS = 19


def drawn(offset):
    draw = Draw(offset)
    heads, head_dim = draw.choice([3, 5]), draw.choice([7, 10, 12])
    config = {
        "hidden_size": heads * head_dim,
        "num_layers": draw.choice([1, 2, 3]),
        "num_attention_heads": heads,
        "intermediate_size": draw.choice([33, 58, 81]),
        "audio_vocab_size": draw.choice([47, 61, 90]),
    }
    return [(f"s{offset}", config, draw.choice([1, 4]))]


def build(config):
    def models(dtype, weights):
        weights = dict(weights)
        semantic = weights.pop("semantic_embedding").to(dtype)
        before = torch.zeros(encoders._AUDIO_CODE_OFFSET, semantic.shape[1], dtype=dtype)
        embed_tokens = torch.nn.Embedding.from_pretrained(torch.cat((before, semantic)))
        language_model = SimpleNamespace(model=SimpleNamespace(embed_tokens=embed_tokens))
        return language_model, load(MiniMaxMusic3RVQDepthDecoder(**config), weights, dtype)

    return models


def forward(models, given):
    outputs = {}
    for frame, (last_hidden, codes) in enumerate(zip(given["last_hidden"], given["codes"])):
        guided, forced = [], iter(codes[1:])

        def forced_draw(logits, generator):
            guided.append(logits[0])
            return next(forced).unsqueeze(0)

        with patch.object(encoders, "_sample_top_k", forced_draw):
            frame_codes, depth_hidden = encoders._generate_depth_codes(*models, last_hidden, codes[:1].repeat(2), None)
        outputs[f"guided_{frame}"] = torch.stack(guided)
        outputs[f"depth_hidden_{frame}"] = depth_hidden
        outputs[f"frame_codes_{frame}"] = frame_codes
        outputs[f"feedback_{frame}"] = encoders._embed_audio_frame(*models, frame_codes)
    return outputs


def main(out_dir, offset=0):
    for index, (label, config, frames) in enumerate(drawn(offset) if offset else CONFIGS):
        for dtype in DTYPES:
            seed = 2500 + index + 100 * offset
            draw = Draw(seed)
            case = Case("depth_loop", config, dtype, seed)
            weights = seeded_weights(MiniMaxMusic3RVQDepthDecoder(**config), draw, DTYPES[dtype])
            weights["semantic_embedding"] = draw.normal(SEMANTIC_ROWS, config["hidden_size"]).to(DTYPES[dtype])
            semantic = draw.integers(frames, 1, high=SEMANTIC_ROWS)
            residual = draw.integers(frames, 7, high=config["audio_vocab_size"])
            inputs = {
                "last_hidden": draw.normal(frames, 2, config["hidden_size"]).to(DTYPES[dtype]),
                "codes": torch.cat((semantic, residual), dim=1),
            }
            case.evaluate(weights, inputs, build(config), forward)
            case.write(out_dir, f"depth_loop.{label}.{dtype}")

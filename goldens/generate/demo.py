"""Makes the demo checkpoint: every component at a few dozen dimensions, random, in the published diffusers layout.

usage: demo.py [OUT_DIR]        (default: ../demo; writes demo-checkpoint.tar.gz and demo-checkpoint.sha256)

The folder is written by upstream's own classes and their `save_pretrained`; only the values are made here, from one
seed. Every value is a small integer times a power of two. That keeps the archive small, and it makes nearly every bf16
product exact in f32, so that two right implementations seldom round apart and whole songs can be compared.
"""

import math
import os
import sys
import warnings

import numpy as np
import torch
from diffusers import (
    MiniMaxMusic3ConditionEncoder,
    MiniMaxMusic3RVQDepthDecoder,
    MiniMaxMusic3Transformer1DModel,
    MiniMaxMusic3Vocoder,
)
from transformers import Qwen3Config, Qwen3ForCausalLM

from checkpoint_folder import new_scheduler, write_packed
from demo_tokenizer import build_tokenizer

SEED = 20240
NAME = "music3-demo-checkpoint"
HIDDEN = 32
LATENT_CHANNELS = 16
CONDITION_DIM = 40
SPECIALS_START, CODES_END = 151643, 151675 + 16384

LANGUAGE_MODEL = dict(
    vocab_size=200_000, hidden_size=HIDDEN, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=12, max_position_embeddings=10_240, rms_norm_eps=1e-6, tie_word_embeddings=False,
    attention_bias=False, rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
    bos_token_id=151643, eos_token_id=151645,
)
DEPTH_DECODER = dict(
    hidden_size=HIDDEN, num_layers=2, num_attention_heads=2, intermediate_size=48, audio_vocab_size=80,
    num_codebooks=8, max_position_embeddings=16,
)
CONDITION_ENCODER = dict(condition_hidden_dim=HIDDEN, num_condition_layers=8, out_dim=CONDITION_DIM)
TRANSFORMER = dict(
    in_channels=LATENT_CHANNELS, condition_dim=CONDITION_DIM, num_layers=2, num_attention_heads=2,
    attention_head_dim=24, ff_inner_dim=64, rotary_dim=8, fourier_embedding_dim=12,
)
VOCODER = dict(
    latent_channels=LATENT_CHANNELS, decoder_input_dim=24, decoder_hidden_dim=32, upsampling_ratios=(8, 8, 4, 2),
)
# Small enough that the two components which are published in shards are sharded here too.
LANGUAGE_MODEL_SHARD, TRANSFORMER_SHARD = 12_900_000, 120_000


class Draws:
    """Random values on a coarse grid, so that products with bf16 activations are exact and the archive is small."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def grid(self, shape, std):
        """Normal values of about `std`, rounded to at most 15 multiples of a power of two."""
        step = 2.0 ** round(math.log2(std / 2.5))
        multiples = np.clip(np.rint(self.rng.standard_normal(tuple(shape)) * (std / step)), -7, 7)
        return torch.from_numpy(multiples * step).float()

    def around_one(self, shape):
        """Values 0.625 .. 1.375 in eighths."""
        return torch.from_numpy(1.0 + self.rng.integers(-3, 4, tuple(shape)) / 8.0).float()


def fan_in(shape):
    return math.prod(shape[1:])


def fill(model, draws, gains):
    """Gives every parameter its values: `gains` maps part of a name to the gain (weights) or the spread (the rest)."""
    for name, parameter in model.named_parameters():
        gain = next((value for part, value in gains.items() if part in name), 1.0)
        if "norm" in name and name.endswith("weight"):
            value = draws.around_one(parameter.shape) * gain
        elif name.endswith(("weight_g", "alpha")):
            value = draws.around_one(parameter.shape) * gain
        elif name.endswith("bias"):
            value = draws.grid(parameter.shape, 0.1)
        elif parameter.dim() == 1 or "embed" in name and parameter.dim() == 2 and "time_embed" not in name:
            value = draws.grid(parameter.shape, gain)
        else:
            value = draws.grid(parameter.shape, gain / math.sqrt(fan_in(parameter.shape)))
        parameter.data.copy_(value)
    return model.eval()


def language_model(draws, text_tokens):
    """The Qwen3 model; rows of tokens that no prompt and no code can name are zero."""
    model = Qwen3ForCausalLM(Qwen3Config(**LANGUAGE_MODEL)).float()
    fill(model, draws, {"lm_head": 1.5, "q_proj": 1.0, "q_norm": 1.25, "o_proj": 0.5, "down_proj": 1.5})
    for table in (model.model.embed_tokens.weight.data, model.lm_head.weight.data):
        table[text_tokens:SPECIALS_START] = 0.0
        table[CODES_END:] = 0.0
    return model.to(torch.bfloat16)


def depth_decoder(draws):
    model = MiniMaxMusic3RVQDepthDecoder(**DEPTH_DECODER)
    gains = {"audio_heads": 1.25, "to_q": 1.5, "to_k": 1.5, "to_out": 0.5, "down_proj": 1.0, "pos_embedding": 0.5}
    return fill(model, draws, gains).to(torch.bfloat16)


def condition_encoder(draws):
    model = fill(MiniMaxMusic3ConditionEncoder(**CONDITION_ENCODER), draws, {"layer_weight_logits": 1.0})
    model.layer_scale.data.fill_(1.625)
    return model


def transformer(draws):
    model = MiniMaxMusic3Transformer1DModel(**TRANSFORMER)
    gains = {"proj_out": 0.4, "to_q": 1.5, "to_k": 1.5, "preprocess_conv": 0.5, "postprocess_conv": 0.5, "ff_out": 1.5}
    return fill(model, draws, gains)


def vocoder(draws):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        model = MiniMaxMusic3Vocoder(**VOCODER)
    gains = {"conv2.weight_g": 0.5, "conv_t1.weight_g": 1.0, "conv_out.weight_g": 0.0625}
    fill(model, draws, gains)
    # The last kernel's taps add up to zero: Snake's output has a mean, and the song should not be mostly that.
    taps = model.conv_out.weight_v.data
    taps[..., -1] -= taps.sum(dim=-1)
    model.conv_out.bias.data.fill_(1.0 / 64.0)
    return model


def components():
    """Every component of the checkpoint, by its folder's name."""
    draws = Draws(SEED)
    tokenizer, text_tokens = build_tokenizer()
    return {
        "tokenizer": tokenizer,
        "language_model": language_model(draws, text_tokens),
        "rvq_depth_decoder": depth_decoder(draws),
        "condition_encoder": condition_encoder(draws),
        "transformer": transformer(draws),
        "scheduler": new_scheduler(),
        "vocoder": vocoder(draws),
    }


def main(out_dir):
    torch.set_num_threads(1)
    shards = {"language_model": LANGUAGE_MODEL_SHARD, "transformer": TRANSFORMER_SHARD}
    write_packed(os.path.join(out_dir, "demo-checkpoint"), components(), NAME, shards)


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "demo"))

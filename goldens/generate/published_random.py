"""Makes a random checkpoint at the published sizes, in the published diffusers layout, with upstream's own classes.

usage: published_random.py OUT_DIR [--dims published|tiny] [--device cuda|cpu] [--seed N]

28.5 GB at the published sizes: made on a GPU, component by component, and written from there in about a minute. Scales
keep activations finite and the distributions of codes far from both uniform and certain. Nothing of the result is
music. It shows whether two programs compute the same at full dimensions, which no reduced model can.
"""

import argparse
import os
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import torch
from diffusers import (
    FlowMatchEulerDiscreteScheduler,
    MiniMaxMusic3Blocks,
    MiniMaxMusic3ConditionEncoder,
    MiniMaxMusic3RVQDepthDecoder,
    MiniMaxMusic3Transformer1DModel,
    MiniMaxMusic3Vocoder,
)
from diffusers.utils import logging
from transformers import Qwen3Config, Qwen3ForCausalLM

import checkpoint_folder
import demo
from demo_tokenizer import build_tokenizer

NAME = "music3-random-checkpoint"
# As published: four shards of the language model, two of the transformer.
SHARD = "5GB"
PUBLISHED = {
    "language_model": demo.LANGUAGE_MODEL
    | dict(
        hidden_size=4096, intermediate_size=12_288, num_hidden_layers=36, num_attention_heads=32,
        num_key_value_heads=8, head_dim=128,
    ),
    # Upstream's defaults are the published sizes.
    "rvq_depth_decoder": {},
    "condition_encoder": {},
    "transformer": {},
    "vocoder": {},
}
TINY = {
    "language_model": demo.LANGUAGE_MODEL,
    "rvq_depth_decoder": demo.DEPTH_DECODER,
    "condition_encoder": demo.CONDITION_ENCODER,
    "transformer": demo.TRANSFORMER,
    "vocoder": demo.VOCODER,
}
DIMS = {"published": PUBLISHED, "tiny": TINY}

# What a weight's deviation is, beside one over the root of its fan-in; `demo.fill` reads these.
LANGUAGE_MODEL_GAINS = {"lm_head": 2.0, "q_norm": 1.25, "k_norm": 1.25, "down_proj": 0.75}
DEPTH_DECODER_GAINS = {"audio_heads": 2.0, "to_q": 1.25, "to_k": 1.25, "pos_embedding": 0.5}
TRANSFORMER_GAINS = {"proj_out": 0.1, "to_q": 1.25, "to_k": 1.25, "preprocess_conv": 0.5, "postprocess_conv": 0.5}
VOCODER_GAINS = {"conv2.weight_g": 0.5, "conv_t1.weight_g": 1.0, "conv_out.weight_g": 0.125}


class Normal:
    """Normal values on a device, under the names that `demo.fill` draws by."""

    def __init__(self, seed, device):
        self.device = device
        self.generator = torch.Generator(device).manual_seed(seed)

    def grid(self, shape, std):
        """Normal values of deviation `std`; `demo` puts its own on a grid."""
        return torch.empty(tuple(shape), device=self.device).normal_(0.0, std, generator=self.generator)

    def around_one(self, shape):
        return torch.empty(tuple(shape), device=self.device).uniform_(0.625, 1.375, generator=self.generator)


def unfilled(make, dtype, device):
    """A module whose parameters have places on the device and no values: torch's own draws would take minutes."""
    with torch.device("meta"):
        module = make()
    return module.to(dtype).to_empty(device=device)


def language_model(config, draws):
    make = lambda: Qwen3ForCausalLM(Qwen3Config(**config))
    return demo.fill(unfilled(make, torch.bfloat16, draws.device), draws, LANGUAGE_MODEL_GAINS)


def depth_decoder(config, draws):
    make = lambda: MiniMaxMusic3RVQDepthDecoder(**config)
    return demo.fill(unfilled(make, torch.bfloat16, draws.device), draws, DEPTH_DECODER_GAINS)


def condition_encoder(config, draws):
    model = unfilled(lambda: MiniMaxMusic3ConditionEncoder(**config), torch.float32, draws.device)
    demo.fill(model, draws, {})
    model.layer_scale.data.fill_(1.6)
    return model


def transformer(config, draws):
    make = lambda: MiniMaxMusic3Transformer1DModel(**config)
    return demo.fill(unfilled(make, torch.float32, draws.device), draws, TRANSFORMER_GAINS)


def vocoder(config, draws):
    # Not on "meta": its weight norm computes while the module is made.
    with warnings.catch_warnings(), torch.device(draws.device):
        warnings.simplefilter("ignore", FutureWarning)
        model = MiniMaxMusic3Vocoder(**config)
    demo.fill(model, draws, VOCODER_GAINS)
    # The last kernel's taps add up to zero: Snake's output has a mean, and the waveform should not be mostly that.
    taps = model.conv_out.weight_v.data
    taps -= taps.mean(dim=-1, keepdim=True)
    return model


MAKERS = {
    "language_model": language_model,
    "rvq_depth_decoder": depth_decoder,
    "condition_encoder": condition_encoder,
    "transformer": transformer,
    "vocoder": vocoder,
}


def write_folder(folder, dims, draws):
    """Writes the checkpoint and the index by which upstream's pipeline finds its components."""
    tokenizer, _ = build_tokenizer()
    scheduler = FlowMatchEulerDiscreteScheduler(num_train_timesteps=1, shift=1.0, invert_sigmas=True)
    components = {name: make(DIMS[dims][name], draws) for name, make in MAKERS.items()}
    components |= {"tokenizer": tokenizer, "scheduler": scheduler}

    def save(name):
        options = {"max_shard_size": SHARD} if name in ("language_model", "transformer") else {}
        components[name].save_pretrained(os.path.join(folder, name), **options)

    with ThreadPoolExecutor() as threads:
        list(threads.map(save, components))
    pipeline = MiniMaxMusic3Blocks().init_pipeline()
    pipeline.update_components(**components)
    pipeline.save_config(save_directory=folder)
    checkpoint_folder.point_index_at_folder(os.path.join(folder, "modular_model_index.json"), components, NAME)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out_dir")
    parser.add_argument("--dims", choices=DIMS, default="published")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=2024)
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    # It advises against casting a module that it means to be loaded in its dtype, where no tensor is exempt.
    logging.set_verbosity_error()
    start = time.monotonic()
    write_folder(options.out_dir, options.dims, Normal(options.seed, torch.device(options.device)))
    size = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(options.out_dir) for name in names)
    print(f"{options.out_dir}: {size} bytes of random weights, {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()

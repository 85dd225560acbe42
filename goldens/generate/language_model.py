"""Language model cases: a prefill of two rows of ids, then decode steps through the cache from given embeddings."""

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from cases import DTYPES, Case, Draw, seeded_weights

THREE_HEADS = {
    "vocab_size": 97,
    "hidden_size": 28,
    "intermediate_size": 52,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 10,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
}
GROUPED = {
    "vocab_size": 73,
    "hidden_size": 36,
    "intermediate_size": 50,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 640,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "rope_theta": 50000.0,
}
CONFIGS = [("three_heads", THREE_HEADS, [(1, 4), (2, 5), (17, 4)]), ("grouped", GROUPED, [(1, 4), (201, 6)])]


def drawn(offset):
    draw = Draw(offset)
    kv_heads, group, head_dim = draw.choice([1, 2, 3]), draw.choice([1, 3, 5]), draw.choice([6, 10, 18])
    config = {
        **THREE_HEADS,
        "vocab_size": draw.choice([101, 149, 211]),
        "hidden_size": draw.choice([25, 33, 39]),
        "intermediate_size": draw.choice([47, 62, 81]),
        "num_hidden_layers": draw.choice([1, 2, 4]),
        "num_attention_heads": kv_heads * group,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
    }
    return [(f"s{offset}", config, [(1, 4), (draw.choice([3, 29, 64, 65]), 4), (201, 4)])]


def build(config):
    def model(dtype, weights):
        # Made in its dtype, as loading a checkpoint does: `.to(bfloat16)` afterwards would round `inv_freq` as well.
        model = Qwen3ForCausalLM._from_config(Qwen3Config(**config), dtype=dtype).eval()
        assert model.model.rotary_emb.inv_freq.dtype == torch.float32
        model.load_state_dict({name: value.to(dtype) for name, value in weights.items()}, strict=True)
        return model

    return model


def forward(model, given):
    outputs = {}
    for x in [name.removeprefix("ids_") for name in given if name.startswith("ids_")]:
        step = model.model(inputs_embeds=model.model.embed_tokens(given[f"ids_{x}"]), use_cache=True)
        hidden, logits = [step.last_hidden_state], [model.lm_head(step.last_hidden_state[:, -1])]
        for embeds in given[f"decode_embeds_{x}"]:
            step = model.model(inputs_embeds=embeds, past_key_values=step.past_key_values, use_cache=True)
            hidden.append(step.last_hidden_state)
            logits.append(model.lm_head(step.last_hidden_state[:, -1]))
        outputs[f"hidden_{x}"] = torch.cat(hidden, dim=1)
        outputs[f"logits_{x}"] = torch.stack(logits)
    return outputs


def main(out_dir, offset=0):
    for index, (label, config, shapes) in enumerate(drawn(offset) if offset else CONFIGS):
        for dtype in DTYPES:
            seed = 3000 + index + 100 * offset
            draw = Draw(seed)
            case = Case("language_model", config, dtype, seed)
            weights = seeded_weights(Qwen3ForCausalLM(Qwen3Config(**config)), draw, DTYPES[dtype])
            inputs = {}
            for tokens, steps in shapes:
                x = f"x_t{tokens}"
                embeds = draw.normal(steps, 2, 1, config["hidden_size"])
                inputs[f"ids_{x}"] = draw.integers(2, tokens, high=config["vocab_size"])
                inputs[f"decode_embeds_{x}"] = embeds.to(DTYPES[dtype])
            case.evaluate(weights, inputs, build(config), forward)
            case.write(out_dir, f"language_model.{label}.{dtype}")

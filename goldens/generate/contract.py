"""weights-mapping/contract.json: every tensor of the published checkpoint, from upstream's classes at the published sizes.

Nothing is downloaded and nothing is allocated: the classes are built on torch's meta device, and their state dicts
list names and shapes. The dtypes are those of the published files, the native names those of native_names.py.

    python contract.py [OUT]
"""

import json
import sys
from pathlib import Path

import torch
from diffusers import __version__ as diffusers_version
from diffusers.models.autoencoders.minimax_music3_vocoder import MiniMaxMusic3Vocoder
from diffusers.models.condition_embedders.condition_embedder_minimax_music3 import MiniMaxMusic3ConditionEncoder
from diffusers.models.transformers.minimax_music3_rvq_depth_decoder import MiniMaxMusic3RVQDepthDecoder
from diffusers.models.transformers.transformer_minimax_music3 import MiniMaxMusic3Transformer1DModel
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers import __version__ as transformers_version

from native_names import native_config, native_name

DEFAULT_OUT = Path(__file__).resolve().parents[2] / "weights-mapping" / "contract.json"

LANGUAGE_MODEL = {
    "vocab_size": 200000,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 10240,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "hidden_act": "silu",
    "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
}

# The other four were published at their classes' default sizes.
DIFFUSERS_CLASSES = {
    "rvq_depth_decoder": (MiniMaxMusic3RVQDepthDecoder, "BF16", 47),
    "condition_encoder": (MiniMaxMusic3ConditionEncoder, "F32", 4),
    "transformer": (MiniMaxMusic3Transformer1DModel, "F32", 441),
    "vocoder": (MiniMaxMusic3Vocoder, "F32", 121),
}


def config_of(model):
    return {key: value for key, value in model.config.items() if key == "_class_name" or not key.startswith("_")}


def main(out):
    components = {}
    with torch.device("meta"):
        language_model = Qwen3ForCausalLM(Qwen3Config(**LANGUAGE_MODEL))
        config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", **LANGUAGE_MODEL}
        components["language_model"] = (config, language_model, "BF16", 399)
        for name, (model_class, dtype, count) in DIFFUSERS_CLASSES.items():
            model = model_class()
            components[name] = ({"_class_name": model_class.__name__, **config_of(model)}, model, dtype, count)

    rows = []
    for name, (_, model, dtype, count) in components.items():
        tensors = model.state_dict()
        if len(tensors) != count:
            raise SystemExit(f"{name}: {len(tensors)} tensors, expected {count}")
        rows += [[name, key, list(tensor.shape), dtype, *native_name(name, key)] for key, tensor in sorted(tensors.items())]

    # One row a line, so that a difference shows as lines.
    versions = {"diffusers": diffusers_version, "transformers": transformers_version, "torch": torch.__version__.split("+")[0]}
    configs = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry[0])}" for name, entry in components.items())
    native = native_config(components["language_model"][0], components["rvq_depth_decoder"][0])
    columns = ["component", "name", "shape", "dtype", "native file", "native name", "third of the native tensor"]
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    out.write_text(
        f'{{"made_by": "goldens/generate/contract.py", "versions": {json.dumps(versions)},\n'
        f'"configs": {{\n{configs}\n}},\n"native_config": {json.dumps(native)},\n'
        f'"columns": {json.dumps(columns)},\n"tensors": [\n{lines}\n]}}\n'
    )
    print(f"{len(rows)} tensors in {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_OUT)

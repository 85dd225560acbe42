"""The native layout's files and names for the tensors of the diffusers layout, as the model's authors packed them.

`native_name(component, name)` says where a tensor of the diffusers layout lies: file, name, and which third of a fused
tensor it is, or None. The vocoder's are those of a decoder of four blocks.
"""

import re

LANGUAGE_MODEL_FILE = "qwen_7B/qwen_7B/model.safetensors"
FLOW_FILE = "flowmatching_vae.pth"
VOCODER_FILE = "dav.pth"
TOKENIZER_FOLDER = "qwen_7B/qwen3-8B-tokenizer-music"

# Rewrites are tried in turn; the first that fits the whole name counts. The third entry is a part of a fused tensor.
DEPTH_DECODER = [
    (r"audio_embeddings\.weight", "model.audio_extra_embedding.weight"),
    (r"((projection|pos_embedding|norm|audio_heads\.\d+)\.weight)", r"model.audio_decoder.\1"),
    (r"layers\.(\d+)\.((input|post_attention)_layernorm\.weight)", r"model.audio_decoder.layers.\1.\2"),
    (r"layers\.(\d+)\.attn\.to_([qkv])\.weight", r"model.audio_decoder.layers.\1.self_attn.\2_proj.weight"),
    (r"layers\.(\d+)\.attn\.to_out\.weight", r"model.audio_decoder.layers.\1.self_attn.o_proj.weight"),
    (r"layers\.(\d+)\.((gate|up|down)_proj\.weight)", r"model.audio_decoder.layers.\1.mlp.\2"),
]
CONDITION_ENCODER = [
    (r"layer_weight_logits", "cond_layer_logits"),
    (r"layer_scale", "cond_layer_scale"),
    (r"proj\.(weight|bias)", r"latent_conditioners.0.\1"),
]
DIT = "diffusion_transformer."
LAYERS = DIT + "transformer.layers."
TRANSFORMER = [
    (r"time_proj\.weight", DIT + "timestep_features.weight"),
    (r"time_embed\.linear_1\.(weight|bias)", DIT + r"to_timestep_embed.0.\1"),
    (r"time_embed\.linear_2\.(weight|bias)", DIT + r"to_timestep_embed.2.\1"),
    (r"((pre|post)process_conv\.weight)", DIT + r"\1"),
    (r"proj_(in|out)\.weight", DIT + r"transformer.project_\1.weight"),
    (r"transformer_blocks\.(\d+)\.norm1\.weight", LAYERS + r"\1.pre_norm.gamma"),
    (r"transformer_blocks\.(\d+)\.norm1\.bias", LAYERS + r"\1.pre_norm.beta"),
    (r"transformer_blocks\.(\d+)\.norm2\.weight", LAYERS + r"\1.ff_norm.gamma"),
    (r"transformer_blocks\.(\d+)\.norm2\.bias", LAYERS + r"\1.ff_norm.beta"),
    (r"transformer_blocks\.(\d+)\.attn\.to_q\.weight", LAYERS + r"\1.self_attn.to_qkv.weight", 0),
    (r"transformer_blocks\.(\d+)\.attn\.to_k\.weight", LAYERS + r"\1.self_attn.to_qkv.weight", 1),
    (r"transformer_blocks\.(\d+)\.attn\.to_v\.weight", LAYERS + r"\1.self_attn.to_qkv.weight", 2),
    (r"transformer_blocks\.(\d+)\.attn\.to_out\.0\.weight", LAYERS + r"\1.self_attn.to_out.weight"),
    (r"transformer_blocks\.(\d+)\.ff_in\.(weight|bias)", LAYERS + r"\1.ff.ff.0.proj.\2"),
    (r"transformer_blocks\.(\d+)\.ff_out\.(weight|bias)", LAYERS + r"\1.ff.ff.2.\2"),
]
STORED = "(weight_g|weight_v|bias)"
BLOCKS = 4
RESIDUAL = {"snake1": 0, "conv1": 1, "snake2": 2, "conv2": 3}


def vocoder_name(name):
    if name.startswith("dec_in_proj."):
        return name
    outer = {"conv_in": 0, "snake_out": BLOCKS + 1, "conv_out": BLOCKS + 2}
    if found := re.fullmatch(rf"(conv_in|conv_out|snake_out)\.({STORED}|alpha)", name):
        return f"decoder.model.{outer[found[1]]}.{found[2]}"
    if found := re.fullmatch(rf"blocks\.(\d+)\.(snake1|conv_t1)\.({STORED}|alpha)", name):
        return f"decoder.model.{int(found[1]) + 1}.block.{0 if found[2] == 'snake1' else 1}.{found[3]}"
    found = re.fullmatch(rf"blocks\.(\d+)\.res_unit([123])\.(snake1|conv1|snake2|conv2)\.({STORED}|alpha)", name)
    return f"decoder.model.{int(found[1]) + 1}.block.{int(found[2]) + 1}.block.{RESIDUAL[found[3]]}.{found[4]}"


def rewritten(rules, name):
    for pattern, replacement, *part in rules:
        if re.fullmatch(pattern, name):
            return re.sub(pattern, replacement, name), part[0] if part else None
    raise KeyError(name)


def native_name(component, name):
    """File, name and part of a tensor of the diffusers layout."""
    if component == "language_model":
        return LANGUAGE_MODEL_FILE, name, None
    if component == "rvq_depth_decoder":
        return LANGUAGE_MODEL_FILE, *rewritten(DEPTH_DECODER, name)
    if component == "condition_encoder":
        return FLOW_FILE, *rewritten(CONDITION_ENCODER, name)
    if component == "transformer":
        return FLOW_FILE, *rewritten(TRANSFORMER, name)
    return VOCODER_FILE, vocoder_name(name), None


def native_config(language_model, depth_decoder):
    """The one config.json of the native layout, from those of upstream's classes."""
    same = [
        "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings",
    ]
    return {
        "architectures": ["AbabForCausalLM"],
        "model_type": "mixtral",
        "num_local_experts": 1,
        **{key: language_model[key] for key in same},
        "rope_theta": language_model["rope_parameters"]["rope_theta"],
        "decoder_num_layers": depth_decoder["num_layers"],
        "decoder_num_heads": depth_decoder["num_attention_heads"],
        "decoder_intermediate_size": depth_decoder["intermediate_size"],
        "audio_vocab_size": depth_decoder["audio_vocab_size"],
        "audio_num_codebooks": depth_decoder["num_codebooks"],
    }

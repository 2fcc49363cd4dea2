"""Kinds of model that are no decoder with softmax attention, or whose layers are not Llama's, by `model_type`."""

from __future__ import annotations

__all__ = ["ENCODERS", "EXPERT_FIELDS", "NOT_SOFTMAX", "OTHER_LAYERS", "STATE_SPACE_FIELDS"]

#: Encoders, and encoders with a decoder.
ENCODERS = {
    "albert", "bart", "bert", "big_bird", "camembert", "clip", "clip_text_model", "convbert", "deberta",
    "deberta-v2", "distilbert", "electra", "ernie", "esm", "eurobert", "flaubert", "funnel", "gte", "layoutlm",
    "longformer", "luke", "marian", "mbart", "megatron-bert", "mobilebert", "modernbert", "mpnet", "mt5",
    "nomic_bert", "nystromformer", "pegasus", "rembert", "roberta", "roberta-prelayernorm", "roformer", "siglip",
    "siglip_text_model", "squeezebert", "t5", "umt5", "vit", "vit_mae", "whisper", "xlm", "xlm-roberta",
    "xlm-roberta-xl", "xlnet", "xmod", "yoso",
}  # fmt: skip

#: No softmax attention, or not in every layer.
NOT_SOFTMAX = {
    "bailing_hybrid", "bamba", "falcon_h1", "falcon_mamba", "gla", "granitemoehybrid", "inkling_text", "jamba",
    "kimi_linear", "lara_mini", "lfm2", "lfm2_moe", "lfm3", "mamba", "mamba2", "minimax", "nemotron_h",
    "olmo_hybrid", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_next", "qwen4_exp", "recurrent_gemma", "retnet",
    "rwkv", "rwkv6", "rwkv7", "xlstm", "zamba", "zamba2", "zaya",
}  # fmt: skip
STATE_SPACE_FIELDS = ("ssm_cfg", "state_size", "mamba_d_state", "linear_num_value_heads")

#: Decoders with softmax attention whose norms, feed-forward or attention would be counted wrongly.
OTHER_LAYERS = {
    "afmoe", "apertus", "arcee", "bitnet", "bloom", "codegen", "cohere", "cohere2", "dbrx", "deepseek_v32",
    "deepseek_v4", "doge", "exaone4", "falcon", "gemma3n", "gemma3n_text", "glm", "glm4", "glm4_moe", "gpt2",
    "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "helium", "hunyuan_v1_dense", "jais2", "llama4", "llama4_text",
    "longcat_flash", "mllama", "mllama_text_model", "mpt", "nanochat", "nemotron", "olmo", "opt", "persimmon",
    "phi", "phimoe", "qwen", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_vl", "qwen2_vl_text", "seed_oss", "stablelm",
    "starcoder2", "xglm",
}  # fmt: skip

#: Fields that an unknown family must not have, and what they are.
EXPERT_FIELDS = {
    "num_experts": "experts",
    "num_local_experts": "experts",
    "moe_num_experts": "experts",
    "n_routed_experts": "experts",
    "moe_intermediate_size": "experts",
    "kv_lora_rank": "latent keys",
    "cross_attention_layers": "layers of cross-attention",
}

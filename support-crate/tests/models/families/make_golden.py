#!/usr/bin/env python3
"""Tiny random checkpoints of families of models, with what transformers makes of them.

  pip install torch==2.13.0 transformers==4.57.6 safetensors tokenizers
  python make_golden.py OUT_DIR TOKENIZER_JSON [SEED [NAME..]]

Six cases, from gemma2-window to gemma3-scaled, were made with torch 2.15.0 and transformers 5.24.0, whose configs are spelt
in another way; those after them with torch 2.15.0 and transformers 4.57.6.

Everything is made from random numbers; nothing is downloaded. Attention is "eager": other implementations ignore
some settings of a config. The weights are rounded to bfloat16 and saved so; all that is computed with them is float32.
"""
import json, os, shutil, sys
os.environ["HF_HUB_OFFLINE"] = "1"
import torch, transformers
from safetensors.torch import save_file
from transformers import (Gemma2Config, Gemma3TextConfig, GraniteConfig, LlamaConfig, MistralConfig, Olmo2Config, Phi3Config,
                          Qwen2Config, Qwen3Config, SmolLM3Config, StableLmConfig, AutoModelForCausalLM)

from transformers.models.stablelm.modeling_stablelm import StableLmPreTrainedModel

# transformers 4.57 fails at norms without a bias, those of heads; what they begin with is their default.
initialise = StableLmPreTrainedModel._init_weights
StableLmPreTrainedModel._init_weights = lambda model, module: None if getattr(module, "bias", 0) is None and isinstance(
    module, torch.nn.LayerNorm) else initialise(model, module)

OUT, TOKENIZER, SEED = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 7
ONLY = sys.argv[4:]
ROWS, PROMPT, NEW = 2, 15, 24
# Two heads share one of keys and values; no two sizes are equal that could be taken for each other.
SIZES = dict(vocab_size=384, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=64, bos_token_id=0, eos_token_id=0, pad_token_id=0)

CASES = {
    "llama": LlamaConfig(**SIZES, rope_theta=500.0, rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 16}),
    "mistral": MistralConfig(**SIZES, head_dim=12, sliding_window=None),
    "qwen2": Qwen2Config(**SIZES, tie_word_embeddings=True),
    # Heads that are wider together than the hidden state, a norm for each head.
    "qwen3": Qwen3Config(**SIZES, head_dim=12, rope_theta=1000.0),
    "qwen3-tied": Qwen3Config(**SIZES, head_dim=8, attention_bias=True, tie_word_embeddings=True),
    # Softcaps low enough to bend; the window is as long as the texts here, see the table of families.
    "gemma2": Gemma2Config(**SIZES, head_dim=12, query_pre_attn_scalar=12, attn_logit_softcapping=2.0, final_logit_softcapping=3.0, sliding_window=40),
    # A window shorter than the prompt, in two of three layers, with angles of their own; one head of keys and values,
    # as the models of 270M and 1B have it.
    "gemma3": Gemma3TextConfig(**{**SIZES, "num_hidden_layers": 3, "num_key_value_heads": 1}, head_dim=12, query_pre_attn_scalar=12, sliding_window=6,
                               layer_types=["sliding_attention", "sliding_attention", "full_attention"], rope_theta=5000.0, rope_local_base_freq=100.0),
    "gemma3-heads": Gemma3TextConfig(**SIZES, head_dim=8, query_pre_attn_scalar=8, sliding_window=6,
                                     final_logit_softcapping=3.0, layer_types=["sliding_attention", "full_attention"]),
    "phi3": Phi3Config(**SIZES, partial_rotary_factor=0.5, sliding_window=None, original_max_position_embeddings=64),
    "olmo2": Olmo2Config(**SIZES),
    "stablelm": StableLmConfig(**SIZES, use_qkv_bias=True),
    # Multipliers as those of Granite 3, none of them 1.
    "granite": GraniteConfig(**SIZES, embedding_multiplier=12.0, attention_multiplier=0.2, residual_multiplier=0.22, logits_scaling=8.0),
    "granite-tied": GraniteConfig(**SIZES, embedding_multiplier=3.0, attention_multiplier=0.5, residual_multiplier=0.7, logits_scaling=2.0, tie_word_embeddings=True),
    # Every second layer without positions.
    "smollm3": SmolLM3Config(**SIZES, no_rope_layer_interval=2, tie_word_embeddings=True),
    # Windows shorter than the prompt.
    "gemma2-window": Gemma2Config(**SIZES, head_dim=12, query_pre_attn_scalar=20, sliding_window=6),
    "qwen3-window": Qwen3Config(**SIZES, head_dim=12, use_sliding_window=True, sliding_window=6, max_window_layers=1),
    "smollm3-window": SmolLM3Config(**SIZES, no_rope_layers=[1, 0], use_sliding_window=True, sliding_window=5, attention_bias=True, mlp_bias=True),
    "phi3-window": Phi3Config(**SIZES, sliding_window=7, original_max_position_embeddings=64),
    # Angles that were changed after training.
    "phi3-longrope": Phi3Config(**SIZES, partial_rotary_factor=0.5, sliding_window=None, original_max_position_embeddings=48,
                                rope_scaling={"type": "longrope", "short_factor": [1.1, 1.7], "long_factor": [2.0, 5.0]}),
    "gemma3-scaled": Gemma3TextConfig(**{**SIZES, "num_hidden_layers": 3}, head_dim=12, query_pre_attn_scalar=20, sliding_window=6, sliding_window_pattern=2,
                                      rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5000.0},
                                                       "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}),
    # Every switch of three families the other way round, heads that are wider together than the hidden state, and angles that
    # were changed after training.
    "granite-biases": GraniteConfig(**SIZES, head_dim=12, attention_bias=True, mlp_bias=True, embedding_multiplier=12.3, attention_multiplier=0.2,
                                    residual_multiplier=0.22, logits_scaling=8.0,
                                    rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                                  "original_max_position_embeddings": 16}),
    "olmo2-biases": Olmo2Config(**SIZES, head_dim=12, attention_bias=True, tie_word_embeddings=True, rope_scaling={"type": "linear", "factor": 2.0}),
    # A norm for each head of queries and of keys.
    "stablelm-norms": StableLmConfig(**SIZES, qk_layernorm=True, partial_rotary_factor=0.5, tie_word_embeddings=True),
    # As StableLM 2 12B.
    "stablelm-parallel": StableLmConfig(**SIZES, qk_layernorm=True, use_parallel_residual=True, rope_scaling={"rope_type": "linear", "factor": 2.0}),
}
SHARDED = {"gemma3": "40KB", "olmo2": "60KB"}

for number, (name, config) in enumerate(CASES.items()):
    if ONLY and name not in ONLY: continue
    torch.manual_seed(SEED + number)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    assert model.config._attn_implementation == "eager"
    for parameter in model.parameters():                                     # make the logits far from uniform, and no norm or bias trivial
        if parameter.dim() > 1: torch.nn.init.normal_(parameter, std=0.15)
        else: parameter.data += 0.2 * torch.randn_like(parameter)
        parameter.data = parameter.data.bfloat16().float()
    model.tie_weights()
    random = torch.Generator().manual_seed(SEED + 100 + number)
    ids = torch.randint(1, SIZES["vocab_size"], (ROWS, PROMPT), generator=random)
    with torch.inference_mode():
        golden = {"input_ids": ids, "logits": model(ids).logits.float(), "loss": model(ids, labels=ids).loss.float().reshape(1)}
        # Without a cache, so that its window is no other than the mask's.
        golden["greedy"] = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, min_new_tokens=NEW,
                                          do_sample=False, use_cache=False)[:, PROMPT:]
    out = f"{OUT}/{name}"
    shutil.rmtree(out, ignore_errors=True)
    parameters, buffers = list(model.parameters()), list(model.named_buffers())
    facts = {"num_parameters": sum(p.numel() for p in parameters), "buffers": {n: list(b.shape) for n, b in buffers},
             "buffer_bytes": sum(b.numel() * b.element_size() for _, b in buffers)}
    model.bfloat16().save_pretrained(out, max_shard_size=SHARDED.get(name, "5GB"))
    save_file({key: value.contiguous().clone() for key, value in golden.items()}, f"{out}/golden.safetensors")
    json.dump(facts, open(f"{out}/facts.json", "w"))
    shutil.copy(TOKENIZER, f"{out}/tokenizer.json")
    os.remove(f"{out}/generation_config.json")
if not ONLY: json.dump({"seed": SEED, "torch": torch.__version__, "transformers": transformers.__version__}, open(f"{OUT}/versions.json", "w"))

"""A tiny Qwen3 as GGUF: that of tests/models/families/golden/qwen3, under llama.cpp's names, in float32.

python make_qwen3_gguf.py    (numpy torch safetensors gguf llama-cpp-python)

Writes qwen3-tiny.gguf beside this file, once llama.cpp has computed transformers' logits from it.
"""
import json, os
import numpy as np, gguf, llama_cpp as L
from safetensors.numpy import load_file as load
from safetensors.torch import load_file
here = os.path.dirname(os.path.abspath(__file__)); model = os.path.join(here, "../models/families/golden/qwen3"); path = os.path.join(here, "qwen3-tiny.gguf")
config, tok = json.load(open(model + "/config.json")), json.load(open(model + "/tokenizer.json"))
weights = {n: t.float().numpy() for n, t in load_file(model + "/model.safetensors").items()}
PARTS = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
def name(own):
    part, end = own.rsplit(".", 1)
    if not part.startswith("model.layers."): return f"{PARTS[part]}.{end}"
    _, _, layer, part = part.split(".", 3)
    return f"blk.{layer}.{PARTS[part]}.{end}"
w = gguf.GGUFWriter(path, "qwen3")
w.add_context_length(config["max_position_embeddings"]); w.add_embedding_length(config["hidden_size"]); w.add_feed_forward_length(config["intermediate_size"])
w.add_block_count(config["num_hidden_layers"]); w.add_head_count(config["num_attention_heads"]); w.add_head_count_kv(config["num_key_value_heads"])
w.add_key_length(config["head_dim"]); w.add_value_length(config["head_dim"]); w.add_rope_freq_base(config["rope_theta"]); w.add_layer_norm_rms_eps(config["rms_norm_eps"]); w.add_file_type(0)
vocab = dict(tok["model"]["vocab"]); vocab.update({a["content"]: a["id"] for a in tok["added_tokens"]}); by = {i: t for t, i in vocab.items()}; special = {a["id"] for a in tok["added_tokens"]}
w.add_tokenizer_model("gpt2"); w.add_tokenizer_pre("gpt-2"); V = config["vocab_size"]
w.add_token_list([by.get(i, f"<unused{i}>").encode() for i in range(V)]); w.add_token_types([3 if i in special else 1 if i in by else 5 for i in range(V)])
w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tok["model"]["merges"]]); w.add_bos_token_id(0); w.add_eos_token_id(0); w.add_add_bos_token(False)
for own, tensor in weights.items(): w.add_tensor(name(own), np.ascontiguousarray(tensor))
w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
golden = load(model + "/golden.safetensors"); m = L.Llama(path, n_ctx=64, logits_all=True, verbose=False, n_threads=2)
for ids, expected in zip(golden["input_ids"], golden["logits"]):
    m.reset(); m.eval(ids.tolist()); worst = np.abs(np.array(m.scores[: len(ids)]) - expected).max()
    print("furthest from transformers' logits:", worst); assert worst < 0.05  # llama.cpp keeps keys and values in float16

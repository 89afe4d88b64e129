"""Tiny models of five families as GGUF, under llama.cpp's names: matrices in bfloat16, which is what they were rounded to,
and those of GPT-2 in Q8_0.

python make_family_gguf.py    (numpy torch transformers safetensors gguf llama-cpp-python)

Writes NAME-tiny.gguf beside this file for cases of ../models/families/golden, once llama.cpp has computed transformers' logits from
it. Beside two more are logits of transformers' own: gpt2-tiny, whose weights are what its blocks stand for, and smollm3-tiny,
of whose four layers the last one knows no positions: llama.cpp has no key for another number.
"""
import glob, json, math, os
import numpy as np, torch, gguf, llama_cpp as L
from safetensors.numpy import load_file as load, save_file
from safetensors.torch import load_file
here = os.path.dirname(os.path.abspath(__file__)); families = os.path.join(here, "../models/families/golden")
BLOCK = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up",
         "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
GEMMA = {**BLOCK, "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
MODEL = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm"}

def name(own, parts):
    part, end = own.rsplit(".", 1)
    for before in ("model.layers.", "transformer.h."):
        if part.startswith(before):
            layer, part = part.removeprefix(before).split(".", 1)
            return f"blk.{layer}.{parts[part]}.{end}"
    return f"{MODEL[part]}.{end}"

def halves_in_turn(tensor, heads):  # LlamaModel.permute
    return tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:]).swapaxes(1, 2).reshape(tensor.shape)

def write(case, family, config, tok, weights):
    path = os.path.join(here, case + "-tiny.gguf"); w = gguf.GGUFWriter(path, family); is_gpt2 = family == "gpt2"
    rope = config.get("rope_parameters") or {**(config.get("rope_scaling") or {}), **config}  # since transformers 5, and before
    get = lambda *names: next((config[n] for n in names if config.get(n) is not None), None)
    hidden, heads, layers = get("hidden_size", "n_embd"), get("num_attention_heads", "n_head"), get("num_hidden_layers", "n_layer")
    w.add_context_length(get("max_position_embeddings", "n_positions")); w.add_embedding_length(hidden); w.add_block_count(layers); w.add_head_count(heads)
    w.add_feed_forward_length(get("intermediate_size", "n_inner") or 4 * hidden); w.add_file_type(32)
    head_dim = get("head_dim") or hidden // heads
    if is_gpt2: w.add_layer_norm_eps(config["layer_norm_epsilon"])
    else:
        w.add_head_count_kv(config["num_key_value_heads"]); w.add_layer_norm_rms_eps(config["rms_norm_eps"]); w.add_rope_freq_base(rope["rope_theta"])
    if family.startswith("gemma"): w.add_key_length(head_dim); w.add_value_length(head_dim); w.add_sliding_window(config["sliding_window"])
    if family == "gemma2": w.add_attn_logit_softcapping(config["attn_logit_softcapping"]); w.add_final_logit_softcapping(config["final_logit_softcapping"])
    if family == "gemma3": w.add_sliding_window_pattern(3); w.add_rope_freq_base_swa(config["rope_local_base_freq"])
    if family == "phi3":
        trained, longest = rope["original_max_position_embeddings"], config["max_position_embeddings"]
        w.add_rope_scaling_orig_ctx_len(trained); w.add_rope_dimension_count(int(rope["partial_rotary_factor"] * head_dim)); w.add_sliding_window(config["sliding_window"] or 0)
        if rope.get("short_factor"):
            w.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(longest / trained) / math.log(trained)))
            for which in ("long", "short"): w.add_tensor(f"rope_factors_{which}.weight", np.array(rope[which + "_factor"], np.float32))
    if family == "smollm3": w.add_rope_dimension_count(head_dim)
    vocab = dict(tok["model"]["vocab"]); vocab.update({a["content"]: a["id"] for a in tok["added_tokens"]}); by = {i: t for t, i in vocab.items()}; special = {a["id"] for a in tok["added_tokens"]}
    w.add_tokenizer_model("gpt2"); w.add_tokenizer_pre("gpt-2"); V = config["vocab_size"]
    w.add_token_list([by.get(i, f"<unused{i}>").encode() for i in range(V)]); w.add_token_types([3 if i in special else 1 if i in by else 5 for i in range(V)])
    w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tok["model"]["merges"]]); w.add_bos_token_id(0); w.add_eos_token_id(0); w.add_add_bos_token(False)
    for own, tensor in weights.items():
        if own.endswith((".attn.bias", ".attn.masked_bias")) or own == "lm_head.weight" and get("tie_word_embeddings"): continue
        if not own.startswith(("model.", "transformer.", "lm_head.")): own = "transformer." + own
        tensor = tensor.float().numpy()
        if is_gpt2 and own.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")): tensor = tensor.T
        if family.startswith("gemma") and own.endswith("norm.weight"): tensor = tensor + np.float32(1)
        if family == "smollm3" and ".q_proj." in own: tensor = halves_in_turn(tensor, heads)
        if family == "smollm3" and ".k_proj." in own: tensor = halves_in_turn(tensor, config["num_key_value_heads"])
        to = name(own, GEMMA if family.startswith("gemma") else BLOCK); tensor = np.ascontiguousarray(tensor)
        if tensor.ndim == 2 and "position" not in to:
            kind = gguf.GGMLQuantizationType.Q8_0 if is_gpt2 else gguf.GGMLQuantizationType.BF16; w.add_tensor(to, gguf.quants.quantize(tensor, kind), raw_dtype=kind)
        else: w.add_tensor(to, tensor)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
    return path

def compare(path, golden, within):
    m = L.Llama(path, n_ctx=64, logits_all=True, verbose=False, n_threads=2)
    for ids, expected in zip(golden["input_ids"], golden["logits"]):
        m.reset(); m.eval(ids.tolist()); worst = np.abs(np.array(m.scores[: len(ids)]) - expected).max()
        print(os.path.basename(path), "furthest from transformers' logits:", worst); assert worst < within  # llama.cpp keeps keys and values in float16

CASES = [("gemma2", "gemma2", "gemma2"), ("gemma3", "gemma3", "gemma3"), ("phi3", "phi3", "phi3"), ("phi3-longrope", "phi3-longrope", "phi3")]
for case, folder, family in CASES:
    folder = os.path.join(families, folder); config = json.load(open(folder + "/config.json"))
    path = write(case, family, config, json.load(open(folder + "/tokenizer.json")), {n: t for file in glob.glob(folder + "/model*.safetensors") for n, t in load_file(file).items()})
    # In its least context, 256, llama.cpp takes the factors for longer texts.
    if case != "phi3-longrope": compare(path, load(folder + "/golden.safetensors"), 0.05)

from transformers import SmolLM3Config, AutoModelForCausalLM, GPT2LMHeadModel
folder = os.path.join(here, "gpt2-tiny"); model = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").eval()
path = write("gpt2", "gpt2", model.config.to_dict(), json.load(open(folder + "/tokenizer.json")), dict(model.state_dict()))
ids = torch.tensor(load(folder + "/golden.safetensors")["input_ids"])
own = {name(n, BLOCK): (n, p) for n, p in model.named_parameters()}
with torch.no_grad():
    for tensor in gguf.GGUFReader(path).tensors:
        n, p = own[tensor.name]; numbers = torch.tensor(gguf.quants.dequantize(tensor.data, tensor.tensor_type))
        p.copy_(numbers.T if n.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")) else numbers)
    save_file({"input_ids": ids.numpy(), "logits": model(ids).logits.numpy()}, os.path.join(here, "gpt2-tiny-gguf.safetensors"))
compare(path, load(os.path.join(here, "gpt2-tiny-gguf.safetensors")), 0.1)  # and rounds inputs to 8 bits for such blocks

torch.manual_seed(7)
config = SmolLM3Config(vocab_size=384, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                       bos_token_id=0, eos_token_id=0, pad_token_id=0, rope_theta=1000.0, attn_implementation="eager")
model = AutoModelForCausalLM.from_config(config).eval()
with torch.no_grad():
    for n, p in model.named_parameters():
        p.copy_((torch.randn(p.shape) * (0.2 if p.dim() == 2 else 0.1) + (1.0 if "norm" in n else 0.0)).bfloat16().float())
    ids = torch.randint(1, 384, (2, 15)); logits = model(ids).logits
path = write("smollm3", "smollm3", {**config.to_dict(), "rope_theta": config.rope_theta}, json.load(open(families + "/smollm3/tokenizer.json")), dict(model.state_dict()))
save_file({"input_ids": ids.numpy(), "logits": logits.numpy()}, os.path.join(here, "smollm3-tiny.safetensors"))
compare(path, load(os.path.join(here, "smollm3-tiny.safetensors")), 0.05)

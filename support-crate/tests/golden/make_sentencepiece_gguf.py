"""Tiny Llamas as GGUF files: one with SentencePiece's vocabulary, one with the angles of Llama 3.1.

python make_sentencepiece_gguf.py    (numpy safetensors gguf sentencepiece)

Writes beside this file sentencepiece-tiny.gguf (random weights; the vocabulary is trained here, on the embedded model's
held-out text) and sentencepiece-tiny.json (texts and what SentencePiece itself makes of them); and llama3-tiny.gguf, the
model of llama3-tiny with its queries and keys turned and its angles in `rope_freqs.weight`, as `convert_hf_to_gguf.py` of
llama.cpp has them, to be compared with transformers' logits.
"""
import io, json, math, os, random
import numpy as np, gguf, sentencepiece as spm
from safetensors.numpy import load_file
here = os.path.dirname(os.path.abspath(__file__)); out = lambda name: os.path.join(here, name)

# SentencePiece
lines = [line for line in open(out("../../embedded/held_out.txt"), encoding="utf-8").read().split("\n") if line]
lines += ["naïve café, Ελλάδα, привет мир, 日本語の文, 1234567890", "fn main() { println!(\"{}\", a[0] + b.len()); }"] * 20
model = io.BytesIO()
spm.SentencePieceTrainer.train(
    sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=900, byte_fallback=True, character_coverage=0.9995, normalization_rule_name="identity",
    remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, split_digits=True, max_sentence_length=100000, user_defined_symbols=["<|user|>"], num_threads=1, minloglevel=2)
sp = spm.SentencePieceProcessor(model_proto=model.getvalue()); V, H, F, HEADS = sp.vocab_size(), 32, 64, 2
kind = lambda i: 2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 4 if sp.id_to_piece(i) == "<|user|>" else 1
w = gguf.GGUFWriter(out("sentencepiece-tiny.gguf"), "llama")
w.add_context_length(128); w.add_embedding_length(H); w.add_feed_forward_length(F); w.add_block_count(1); w.add_head_count(HEADS); w.add_layer_norm_rms_eps(1e-5); w.add_file_type(1)
w.add_tokenizer_model("llama"); w.add_tokenizer_pre("default"); w.add_token_list([sp.id_to_piece(i) for i in range(V)]); w.add_token_scores([sp.get_score(i) for i in range(V)])
w.add_token_types([kind(i) for i in range(V)]); w.add_bos_token_id(sp.bos_id()); w.add_eos_token_id(sp.eos_id()); w.add_unk_token_id(sp.unk_id())
r = np.random.default_rng(0); half = lambda *shape: (0.3 * r.standard_normal(shape)).astype(np.float16)
w.add_tensor("token_embd.weight", half(V, H)); w.add_tensor("output_norm.weight", np.ones(H, np.float32))
for part in ("attn_norm", "ffn_norm"): w.add_tensor(f"blk.0.{part}.weight", np.ones(H, np.float32))
for part, shape in {"attn_q": (H, H), "attn_k": (H, H), "attn_v": (H, H), "attn_output": (H, H), "ffn_gate": (F, H), "ffn_up": (F, H), "ffn_down": (H, F)}.items(): w.add_tensor(f"blk.0.{part}.weight", half(*shape))
w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
random.seed(0)
texts = ["", " ", "   ", "     x", "a", "A fox.", " leading and trailing ", "two  spaces\n\nand lines\t\ttabs", "1234567 and 3.14", "naïve Ελλάδα привет 日本語", "👩‍👧 and \u0000\u0001 bytes", "e\u0301 combined, é whole",
         "\u2581 as it is", "\u00a0nbsp\u3000wide", "fn main() { let x = vec![1, 2, 3]; }", "<|user|>hi there<|user|>", "x<|user|> y", "once upon a time" * 9, "zzzzqqqqxxxx", "don't can't I'll", "\r\n\r\n", "ſtraße ŒUVRE ﬁ", "a\u200bb\u200d\ufeffc"]
texts += random.sample(lines, 40) + [" ".join(random.sample("the of and a to fox river stone said Vec<T> 7 ?! — … “quoted” ÷ ½".split(), 9)) for _ in range(40)] + ["".join(chr(random.choice([32, 10, 0xE9, 0x4E2D, 0x1F600, 97, 98, 0x2581, 49])) for _ in range(30)) for _ in range(40)]
# Of a user's own symbol, what comes next begins like a text with llama.cpp and transformers, and in the middle of one with SentencePiece.
cases = [{"text": t, "ids": sp.encode(t), "decoded": sp.decode(sp.encode(t))} for t in texts if "<|user|>" not in t]
json.dump(cases, open(out("sentencepiece-tiny.json"), "w", encoding="utf-8"), ensure_ascii=True, indent=0)
print(V, "pieces,", len(cases), "texts")

# Llama 3.1's angles
folder = out("llama3-tiny"); config = json.load(open(folder + "/config.json")); tok = json.load(open(folder + "/tokenizer.json")); tensors = load_file(folder + "/model.safetensors")
scaling = config.get("rope_parameters") or config["rope_scaling"]; theta = scaling.get("rope_theta", config.get("rope_theta")); heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
dim = config.get("head_dim") or config["hidden_size"] // heads
def divisor(i):
    wave = 2 * math.pi * theta ** (2 * i / dim); low, high, trained = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["original_max_position_embeddings"]
    if wave < trained / high: return 1.0
    if wave > trained / low: return scaling["factor"]
    smooth = (trained / wave - low) / (high - low)
    return 1 / ((1 - smooth) / scaling["factor"] + smooth)
PARTS = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
MODEL = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
def named(own):
    part, end = own.rsplit(".", 1)
    if part in MODEL: return f"{MODEL[part]}.{end}"
    _, _, layer, part = part.split(".", 3)
    return f"blk.{layer}.{PARTS[part]}.{end}"
def turned(name, t):
    n = heads if "attn_q." in name else kv if "attn_k." in name else None
    return t if n is None else t.reshape(n, 2, t.shape[0] // n // 2, *t.shape[1:]).swapaxes(1, 2).reshape(t.shape)
w = gguf.GGUFWriter(out("llama3-tiny.gguf"), "llama")
w.add_context_length(config["max_position_embeddings"]); w.add_embedding_length(config["hidden_size"]); w.add_feed_forward_length(config["intermediate_size"]); w.add_block_count(config["num_hidden_layers"])
w.add_head_count(heads); w.add_head_count_kv(kv); w.add_key_length(dim); w.add_value_length(dim); w.add_rope_dimension_count(dim); w.add_rope_freq_base(theta); w.add_layer_norm_rms_eps(config["rms_norm_eps"]); w.add_file_type(0)
vocab = dict(tok["model"]["vocab"]); vocab.update({a["content"]: a["id"] for a in tok["added_tokens"]}); by = {i: t for t, i in vocab.items()}; special = {a["id"] for a in tok["added_tokens"]}; V = config["vocab_size"]
w.add_tokenizer_model("gpt2"); w.add_tokenizer_pre("gpt-2"); w.add_token_list([by.get(i, f"[PAD{i}]").encode() for i in range(V)]); w.add_token_types([3 if i in special else 1 if i in by else 5 for i in range(V)])
w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tok["model"]["merges"]]); w.add_add_bos_token(False)
w.add_tensor("rope_freqs.weight", np.array([divisor(i) for i in range(dim // 2)], np.float32))
for own, t in tensors.items():
    if own == "lm_head.weight" and config.get("tie_word_embeddings"): continue
    name = named(own); w.add_tensor(name, np.ascontiguousarray(turned(name, t.astype(np.float32))))
w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

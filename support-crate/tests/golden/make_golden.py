#!/usr/bin/env python3
"""Small checkpoints with random weights, and what transformers computes from them.

    pip install torch transformers safetensors tokenizers
    python make_golden.py OUT_DIR [SEED]

Nothing is downloaded. Each folder is as `save_pretrained` writes it, with a tokenizer and `golden.safetensors`:
`input_ids`, their `logits` and `loss`; the same with padding on the left (`attention_mask`, `masked_logits`, zero
where masked); and the new tokens of greedy generation for both (`greedy`, `masked_greedy`).
"""
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

OUT = sys.argv[1]
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 7
VOCAB_SIZE = 272
END_OF_TEXT = "<|endoftext|>"
TOKENS = 12
NEW_TOKENS = 24
PADDING = [0, 3, 7]


def tokenizer():
    """Bytes, and the few merges for which there is room."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE, special_tokens=[END_OF_TEXT], initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(["the quick brown fox jumps over the lazy dog once upon a time"] * 9, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=END_OF_TEXT, bos_token=END_OF_TEXT)


def golden(model):
    generator = torch.Generator().manual_seed(SEED + 1)
    ids = torch.randint(1, VOCAB_SIZE, (len(PADDING), TOKENS), generator=generator)
    mask = (torch.arange(TOKENS) >= torch.tensor(PADDING).unsqueeze(-1)).long()
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    options = dict(max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=0)
    with torch.inference_mode():
        tensors = {
            "input_ids": ids,
            "logits": model(ids).logits,
            "loss": model(ids, labels=ids).loss.reshape(1),
            "attention_mask": mask,
            "masked_logits": model(ids, attention_mask=mask, position_ids=positions).logits * mask.unsqueeze(-1),
            "greedy": model.generate(ids, attention_mask=torch.ones_like(ids), **options)[:, TOKENS:],
            "masked_greedy": model.generate(ids, attention_mask=mask, **options)[:, TOKENS:],
        }
    return {name: tensor.contiguous().clone() for name, tensor in tensors.items()}


def checkpoint(name, model, dtype=torch.float32, max_shard_size="5GB"):
    torch.manual_seed(SEED)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.15)  # far from the uniform logits of a fresh model
        else:
            parameter.data += 0.1 * torch.randn_like(parameter)  # norms and biases that change something
    model.to(dtype).save_pretrained(f"{OUT}/{name}", max_shard_size=max_shard_size)
    tokenizer().save_pretrained(f"{OUT}/{name}")
    # In float32, whatever the file is in; eager attention is the one that follows every key of a config.
    reference = AutoModelForCausalLM.from_pretrained(
        f"{OUT}/{name}", dtype=torch.float32, attn_implementation="eager"
    ).eval()
    save_file(golden(reference), f"{OUT}/{name}/golden.safetensors")


COMMON = dict(
    vocab_size=VOCAB_SIZE, num_hidden_layers=2, max_position_embeddings=64, bos_token_id=0, eos_token_id=0
)

# Three heads share keys and values; a context lengthened after training; a tied head.
checkpoint("llama3-tiny", LlamaForCausalLM(LlamaConfig(
    **COMMON, hidden_size=36, intermediate_size=50, num_attention_heads=6, num_key_value_heads=2, head_dim=8,
    rope_theta=500000.0, tie_word_embeddings=True, rope_scaling=dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32
    ),
)))

# Tokens see the last six; heads are wider than the hidden state divided among them.
checkpoint("mistral-tiny", MistralForCausalLM(MistralConfig(
    **COMMON, hidden_size=32, intermediate_size=56, num_attention_heads=4, num_key_value_heads=4, head_dim=10,
    sliding_window=6,
)))

# Biases; saved in bfloat16, in several files.
checkpoint("qwen2-tiny", Qwen2ForCausalLM(Qwen2Config(
    **COMMON, hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2,
)), dtype=torch.bfloat16, max_shard_size="30KB")

"""Quantizes a model with llm-compressor, on the calibration texts of the quality benchmark.

    cargo lab exec cargo bench -p quantlab --bench quality -- --export FOLDER
    python support-crate/benches/llm_compressor.py FOLDER
    cargo lab exec cargo bench -p quantlab --bench quality -- --only "GPTQ int4-64" --checkpoints FOLDER

It writes FOLDER/RTN and FOLDER/GPTQ: 4 bits in groups of 64 with zero points, the head left out, as in the benchmark.
Tried with llmcompressor 0.14.0.1, compressed-tensors 0.19.0, transformers 5.17.0 and torch 2.13.0, on a CPU.
"""

import json
import pathlib
import sys

import torch
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from llmcompressor import oneshot
from llmcompressor.modifiers.quantization import GPTQModifier, QuantizationModifier
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast


def scheme():
    weights = QuantizationArgs(num_bits=4, type="int", symmetric=False, strategy="group", group_size=64)
    layers = QuantizationScheme(targets=["Linear"], weights=weights)
    return {"config_groups": {"group_0": layers}, "ignore": ["lm_head"]}


WAYS = {"RTN": QuantizationModifier, "GPTQ": GPTQModifier}


def main():
    folder = pathlib.Path(sys.argv[1])
    texts = json.loads((folder / "calibration.json").read_text())
    # By its file: the class that config.json implies would cut text in another way.
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "model/tokenizer.json"))
    ids = [torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]]) for text in texts]
    data = [{"input_ids": text, "attention_mask": torch.ones_like(text)} for text in ids]
    for name, modifier in WAYS.items():
        model = AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)
        oneshot(
            model=model,
            dataset=DataLoader(data, batch_size=None),
            recipe=modifier(**scheme()),
            num_calibration_samples=len(ids),
            max_seq_length=max(text.shape[1] for text in ids),
        )
        model.save_pretrained(folder / name, save_compressed=True)
        tokenizer.save_pretrained(folder / name)
        print(name, "is written", flush=True)


main()

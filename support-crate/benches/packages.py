"""Quantizes a model with others' packages, on the calibration texts of the quality benchmark.

    cargo lab exec cargo bench -p quantlab --bench quality -- --export FOLDER
    python support-crate/benches/packages.py FOLDER [WAY ...]
    cargo lab exec cargo bench -p quantlab --bench quality -- --only "AWQ int4-64,GPTQ int4-64" --checkpoints FOLDER

It writes FOLDER/WAY for each way, or for those that are named: 4 bits in groups of 64 with zero points, the head left out, as
in the benchmark. RTN, GPTQ, AWQ and AutoRound are llm-compressor's (the last one calls the package auto-round), HQQ is hqq's,
whose weights are written restored. Tried with llmcompressor 0.14.0.1, hqq 0.2.8, compressed-tensors 0.19.0, transformers
5.17.0 and torch 2.14.0, on two cores, but for AutoRound (auto-round 0.15.1), which would take hours there.
"""

import json
import pathlib
import sys

import torch
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from hqq.core.quantize import BaseQuantizeConfig, Quantizer
from llmcompressor import oneshot
from llmcompressor.modifiers.autoround import AutoRoundModifier
from llmcompressor.modifiers.gptq import GPTQModifier
from llmcompressor.modifiers.quantization import QuantizationModifier
from llmcompressor.modifiers.transform.awq import AWQModifier
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

BITS, GROUP = 4, 64

if not torch.cuda.is_available():
    # AWQ of llm-compressor asks for pages that a GPU reads, wherever it computes.
    torch.Tensor.pin_memory = lambda tensor, *_: tensor


def scheme():
    weights = QuantizationArgs(num_bits=BITS, type="int", symmetric=False, strategy="group", group_size=GROUP)
    layers = QuantizationScheme(targets=["Linear"], weights=weights)
    return {"config_groups": {"group_0": layers}, "ignore": ["lm_head"]}


# Each with what llm-compressor is to do, in turn.
RECIPES = {
    "RTN": lambda: [QuantizationModifier(**scheme())],
    "GPTQ": lambda: [GPTQModifier(**scheme())],
    "AWQ": lambda: [AWQModifier(), QuantizationModifier(**scheme())],
    "AutoRound": lambda: [AutoRoundModifier(iters=200, **scheme())],
}


def by_hqq(model):
    """Rounds the linear layers of all blocks, and puts what the codes stand for in the weights' place."""
    settings = BaseQuantizeConfig(nbits=BITS, group_size=GROUP, axis=1)["weight_quant_params"]
    for layer in model.model.layers.modules():
        if isinstance(layer, torch.nn.Linear):
            codes, meta = Quantizer.quantize(layer.weight.data, device="cpu", compute_dtype=torch.float32, **settings)
            layer.weight.data = Quantizer.dequantize(codes, meta)


def main():
    folder = pathlib.Path(sys.argv[1])
    texts = json.loads((folder / "calibration.json").read_text())
    # By its file: the class that config.json implies would cut text in another way.
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "model/tokenizer.json"))
    ids = [torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]]) for text in texts]
    data = [{"input_ids": text, "attention_mask": torch.ones_like(text)} for text in ids]
    for way in sys.argv[2:] or [*RECIPES, "HQQ"]:
        model = AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)
        if way == "HQQ":
            by_hqq(model)
        else:
            oneshot(
                model=model,
                dataset=DataLoader(data, batch_size=None),
                recipe=RECIPES[way](),
                num_calibration_samples=len(ids),
                max_seq_length=max(text.shape[1] for text in ids),
            )
        model.save_pretrained(folder / way, **({} if way == "HQQ" else {"save_compressed": True}))
        tokenizer.save_pretrained(folder / way)
        print(way, "is written", flush=True)


main()

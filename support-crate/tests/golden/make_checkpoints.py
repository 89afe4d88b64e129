#!/usr/bin/env python3
"""A small Llama in the layouts of checkpoints that others quantized, and what it computes in each.

    pip install torch transformers compressed-tensors==0.20.0 hqq==0.2.8.post1 autoawq==0.2.9 --no-deps (the last two)
    python make_checkpoints.py OUT_DIR

Nothing is downloaded. `base.safetensors` has the tensors that no layout quantizes, NAME.safetensors the layers, NAME.json
the `quantization_config`; `golden.safetensors` has `input_ids` and, for each name, the last `NAME/logits` of transformers' Llama
in float32 with the weights that the codes stand for, which are computed here from codes, scales and zero points before
they are packed, or restored by compressed-tensors and hqq. These and AutoAWQ pack by their own code. AutoGPTQ and GPTQModel do not install
without a GPU: `pack_gptq` is `QuantLinear.pack` of AutoGPTQ's `qlinear_cuda.py`, where each number of bits is a stream
from the lowest bit of a word on. `weight_g_idx` is what compressed-tensors wrote before 0.19, by the same packing.
`written.safetensors` has two layers of `llama-tiny` by the formula of `AffineInt4`, packed by compressed-tensors.
"""
import importlib.util
import json
import os
import sys
import types

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

OUT = sys.argv[1]
torch.manual_seed(7)
CONFIG = LlamaConfig(
    vocab_size=272, num_hidden_layers=1, max_position_embeddings=64, bos_token_id=0, eos_token_id=0, hidden_size=64,
    intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, head_dim=16, tie_word_embeddings=False,
    attn_implementation="eager",
)
model = LlamaForCausalLM(CONFIG).eval()
for parameter in model.parameters():
    if parameter.dim() > 1:
        torch.nn.init.normal_(parameter, std=0.15)
    else:
        parameter.data += 0.1 * torch.randn_like(parameter)
    parameter.data = parameter.data.half().float()
LAYERS = {name: module for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
del LAYERS["lm_head"]
FULL = {name: module.weight.data.clone() for name, module in LAYERS.items()}
ids = torch.randint(1, CONFIG.vocab_size, (2, 9))
golden = {"input_ids": ids}


def case(name, config, layer, left=()):
    """`layer(weight)` gives the tensors of a layer, and the weights that they stand for."""
    tensors = {}
    for module, weight in FULL.items():
        if module in left:
            parts, restored = {"weight": weight.half()}, weight
        else:
            parts, restored = layer(weight)
        LAYERS[module].weight.data = restored.float()
        tensors |= {f"{module}.{part}": tensor.contiguous() for part, tensor in parts.items()}
    save_file(tensors, f"{OUT}/{name}.safetensors", metadata={"format": "pt"})
    with open(f"{OUT}/{name}.json", "w") as file:
        json.dump(config, file, indent=2)
        file.write("\n")
    with torch.inference_mode():
        golden[f"{name}/logits"] = model(ids).logits[:, -1].clone()


def rounded(weight, bits, group, symmetric=False, groups=None, lowest_zero=0):
    """Codes (n, k), scales in float16 and zero points (n, groups), and the group of each column."""
    n, k = weight.shape
    group = k if group == -1 else group
    groups = torch.arange(k) // group if groups is None else groups
    count, most = -(-k // group), 2**bits - 1
    scales, zeros = torch.zeros(n, count), torch.zeros(n, count)
    for index in range(count):
        part = weight[:, groups == index]
        low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
        if symmetric:
            high = torch.maximum(high, -low)
            low = -high
        scales[:, index] = ((high - low) / most).half().float()
        zeros[:, index] = torch.full_like(low, 2 ** (bits - 1)) if symmetric else (-low / scales[:, index]).round()
    zeros = zeros.clamp(lowest_zero, most)
    codes = (torch.round(weight / scales[:, groups]) + zeros[:, groups]).clamp(0, most)
    return codes.int(), scales, zeros.int(), groups


def restored(codes, scales, zeros, groups):
    return (codes - zeros[:, groups]) * scales[:, groups]


def pack_stream(numbers, bits):
    """(rows, ...) to words: `bits` of each row after the other, from the lowest bit of a word on."""
    words = torch.zeros(numbers.shape[0] * bits // 32, numbers.shape[1], dtype=torch.int64)
    for row in range(numbers.shape[0]):
        for bit in range(bits):
            at = row * bits + bit
            words[at // 32] |= (numbers[row].long() >> bit & 1) << (at % 32)
    return torch.where(words >= 2**31, words - 2**32, words).int()


def pack_gptq(bits, group, version=1, act_order=False, symmetric=False):
    def layer(weight):
        n, k = weight.shape
        size = k if group == -1 else group
        order = torch.arange(k)[torch.randperm(k)] if act_order else torch.arange(k)
        g_idx = torch.empty(k, dtype=torch.int32)
        g_idx[order] = (torch.arange(k) // size).int()
        codes, scales, zeros, groups = rounded(weight, bits, group, symmetric, g_idx.long(), 2 - version)
        stored = zeros - 1 if version == 1 else zeros
        parts = {
            "qweight": pack_stream(codes.t(), bits),
            "qzeros": pack_stream(stored, bits).t(),
            "scales": scales.t().half(),
            "g_idx": g_idx,
        }
        return parts, restored(codes, scales, zeros, groups)

    config = {
        "bits": bits, "group_size": group, "damp_percent": 0.1, "desc_act": act_order, "sym": symmetric,
        "true_sequential": True, "quant_method": "gptq", "checkpoint_format": "gptq" if version == 1 else "gptq_v2",
    }
    return config, layer


case("gptq-4", *pack_gptq(4, 32))
case("gptq-4-sym", *pack_gptq(4, 32, symmetric=True))
case("gptq-4-act", *pack_gptq(4, 32, act_order=True))
case("gptq-4-v2", *pack_gptq(4, 32, version=2))
case("gptq-4-row", *pack_gptq(4, -1))
case("gptq-4-16", *pack_gptq(4, 16))
case("gptq-8", *pack_gptq(8, 32, act_order=True))
case("gptq-3", *pack_gptq(3, 32))
case("gptq-2", *pack_gptq(2, 32))

# AWQ, by AutoAWQ, whose packages import data sets and models as they are loaded: here they are only folders.
for package in ["awq", "awq.modules", "awq.modules.linear", "awq.utils"]:
    sys.modules[package] = types.ModuleType(package)
    folder = os.path.join(os.path.dirname(importlib.util.find_spec("hqq").origin), "..", *package.split("."))
    sys.modules[package].__path__ = [folder]
from awq.modules.linear.gemm import WQLinear_GEMM  # noqa: E402
from awq.modules.linear.gemv import WQLinear_GEMV  # noqa: E402


def awq(weight):
    codes, scales, zeros, groups = rounded(weight, 4, 32)
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    weights = restored(codes, scales, zeros, groups)
    linear.weight.data = weights.half()
    made = WQLinear_GEMM.from_linear(linear, 4, 32, scales=scales.t().contiguous(), zeros=zeros.t().float().contiguous())
    return {"qweight": made.qweight, "qzeros": made.qzeros, "scales": made.scales}, weights


case("awq", {
    "bits": 4, "group_size": 32, "modules_to_not_convert": ["mlp.down_proj"], "quant_method": "awq", "version": "gemm",
    "zero_point": True,
}, awq, left=["model.layers.0.mlp.down_proj"])


def awq_gemv(weight):
    codes, scales, zeros, groups = rounded(weight, 4, 32)
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    weights = restored(codes, scales, zeros, groups)
    linear.weight.data = weights.half()
    made = WQLinear_GEMV.from_linear(linear, 4, 32, scales=scales, zeros=zeros.float())
    return {"qweight": made.qweight, "qzeros": made.qzeros, "scales": made.scales}, weights


case("awq-gemv", {
    "bits": 4, "group_size": 32, "modules_to_not_convert": None, "quant_method": "awq", "version": "gemv",
    "zero_point": True,
}, awq_gemv)

# compressed-tensors, by its own compressors.
from compressed_tensors.compressors.base import BaseCompressor  # noqa: E402
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8  # noqa: E402
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32  # noqa: E402
from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme  # noqa: E402


def compressed(name, format, weights, parts_of, inputs=None, ignore=(), left=()):
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    scheme = QuantizationScheme(**group)
    compressor = BaseCompressor.get_value_from_registry(format)

    def layer(weight):
        packed = compressor.compress(parts_of(weight) | {"weight": weight}, scheme)
        return packed, compressor.decompress(dict(packed), scheme)["weight"]

    config = QuantizationConfig(
        config_groups={"group_0": scheme}, format=format, ignore=["lm_head", *ignore], quantization_status="compressed"
    )
    case(name, json.loads(config.model_dump_json()), layer, left)


def integers(bits, group, symmetric=False):
    def parts(weight):
        _, scales, zeros, _ = rounded(weight, bits, group, symmetric)
        if symmetric:
            return {"weight_scale": scales}
        return {"weight_scale": scales, "weight_zero_point": (zeros - 2 ** (bits - 1)).to(torch.int8)}

    return parts


compressed("pack-4", "pack-quantized", dict(num_bits=4, strategy="group", group_size=32, symmetric=False), integers(4, 32))
compressed("pack-4-row", "pack-quantized", dict(num_bits=4, strategy="channel", symmetric=True), integers(4, -1, True),
           ignore=["re:.*layers\\.0\\.self_attn\\.[kv]_proj$"],
           left=[f"model.layers.0.self_attn.{part}_proj" for part in "kv"])
compressed("pack-8", "pack-quantized", dict(num_bits=8, strategy="channel", symmetric=False), integers(8, -1))
compressed("int-8", "int-quantized", dict(num_bits=8, strategy="channel", symmetric=True), integers(8, -1, True),
           inputs=dict(num_bits=8, strategy="token", symmetric=True, dynamic=True))


def g_idx(weight):
    k = weight.shape[1]
    groups = torch.empty(k, dtype=torch.int32)
    groups[torch.randperm(k)] = (torch.arange(k) // 32).int()
    codes, scales, zeros, _ = rounded(weight, 4, 32, groups=groups.long())
    parts = {
        "weight_packed": pack_to_int32((codes - 8).to(torch.int8), 4),
        "weight_zero_point": pack_to_int32((zeros - 8).to(torch.int8), 4, packed_dim=0),
        "weight_scale": scales, "weight_shape": torch.tensor(weight.shape), "weight_g_idx": groups,
    }
    return parts, restored(codes, scales, zeros, groups.long())


with open(f"{OUT}/pack-4.json") as file:
    config = json.load(file)
config["config_groups"]["group_0"]["weights"]["actorder"] = "group"
case("pack-4-g-idx", config, g_idx)


def floats(dims):
    def parts(weight):
        largest = weight.abs().amax(dims, keepdim=True)
        return {"weight_scale": (largest / 448.0).bfloat16().float().reshape(-1, 1) if dims else largest.reshape(1) / 448}

    return parts


E4M3 = dict(num_bits=8, type="float", symmetric=True)
compressed("float-row", "float-quantized", E4M3 | dict(strategy="channel"), floats(1),
           inputs=E4M3 | dict(strategy="token", dynamic=True))
compressed("float-tensor", "float-quantized", E4M3 | dict(strategy="tensor"), floats(None),
           inputs=E4M3 | dict(strategy="tensor"))


def e2m1(group, global_scale):
    def parts(weight):
        largest = weight.reshape(weight.shape[0], -1, group).abs().amax(-1)
        if global_scale:
            whole = 448.0 * 6.0 / weight.abs().max()
            scale = (largest * whole / 6.0).to(torch.float8_e4m3fn).float()
            return {"weight_scale": scale, "weight_global_scale": whole.reshape(1)}
        return {"weight_scale": 2.0 ** torch.ceil(torch.log2(largest / 6.0))}

    return parts


def e2m1_layer(name, format, weights, parts_of):
    """The weights in float32; the package itself restores them in bfloat16."""
    scheme = QuantizationScheme(targets=["Linear"], weights=weights)
    compressor = BaseCompressor.get_value_from_registry(format)

    def layer(weight):
        state = parts_of(weight)
        packed = compressor.compress(state | {"weight": weight}, scheme)
        n, k = weight.shape
        scale = state["weight_scale"].float() / state.get("weight_global_scale", torch.ones(1))
        codes = unpack_fp4_from_uint8(packed["weight_packed"], n, k, dtype=torch.float32)
        expected = codes * scale.repeat_interleave(k // scale.shape[1], 1)
        nearly = compressor.decompress(dict(packed), scheme)["weight"].float()
        assert torch.equal(expected.bfloat16().float(), nearly)
        return packed, expected

    config = QuantizationConfig(
        config_groups={"group_0": scheme}, format=format, ignore=["lm_head"], quantization_status="compressed"
    )
    case(name, json.loads(config.model_dump_json()), layer)


FP4 = dict(num_bits=4, type="float", symmetric=True)
e2m1_layer("nvfp4", "nvfp4-pack-quantized", FP4 | dict(
    strategy="tensor_group", group_size=16, scale_dtype="torch.float8_e4m3fn", zp_dtype="torch.float8_e4m3fn"
), e2m1(16, True))
e2m1_layer("mxfp4", "mxfp4-pack-quantized", FP4 | dict(
    strategy="group", group_size=32, scale_dtype="torch.uint8", zp_dtype="torch.uint8"
), e2m1(32, False))


# E4M3 in blocks that do not divide every matrix.
def fp8(weight, block=(48, 32)):
    n, k = weight.shape
    scales = torch.zeros(-(-n // block[0]), -(-k // block[1]))
    for row, column in torch.cartesian_prod(torch.arange(scales.shape[0]), torch.arange(scales.shape[1])).tolist():
        part = weight[row * block[0] : (row + 1) * block[0], column * block[1] : (column + 1) * block[1]]
        scales[row, column] = part.abs().max() / 448.0
    spread = scales.repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)[:n, :k]
    codes = (weight / spread).to(torch.float8_e4m3fn)
    return {"weight": codes, "weight_scale_inv": scales}, codes.float() * spread


case("fp8", {
    "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [48, 32],
    "modules_to_not_convert": ["lm_head"],
}, fp8)

# HQQ, by hqq.
from hqq.core.quantize import BaseQuantizeConfig, HQQLinear  # noqa: E402


def hqq(bits, axis=1):
    settings = BaseQuantizeConfig(nbits=bits, group_size=32, axis=axis)
    settings["weight_quant_params"]["round_zero"] = False

    def layer(weight):
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        linear.weight.data = weight.clone()
        made = HQQLinear(linear, settings, compute_dtype=torch.float32, device="cpu", del_orig=False)
        state = {part: tensor for part, tensor in made.state_dict().items() if tensor is not None}
        return state, made.dequantize()

    return {
        "quant_config": json.loads(json.dumps(settings, default=str)), "quant_method": "hqq", "skip_modules": ["lm_head"]
    }, layer


case("hqq-4", *hqq(4))
case("hqq-8", *hqq(8))
case("hqq-4-columns", *hqq(4, axis=0))
case("hqq-8-columns", *hqq(8, axis=0))

base = {name: tensor.half() for name, tensor in model.state_dict().items() if name.rsplit(".", 1)[0] not in FULL}
save_file(base, f"{OUT}/base.safetensors", metadata={"format": "pt"})
CONFIG.architectures = ["LlamaForCausalLM"]
CONFIG.to_json_file(f"{OUT}/base.json", use_diff=False)
save_file(golden, f"{OUT}/golden.safetensors")

# What this library writes.
tiny = load_file(f"{OUT}/../llama-tiny/model.safetensors")
written = {}
for module in ["model.layers.0.self_attn.k_proj", "model.layers.1.mlp.down_proj"]:
    weight = tiny[f"{module}.weight"].float()
    codes, scales, zeros, _ = rounded(weight, 4, 32)
    written |= {
        f"{module}.weight_packed": pack_to_int32((codes - 8).to(torch.int8), 4),
        f"{module}.weight_scale": scales,
        f"{module}.weight_zero_point": pack_to_int32((zeros - 8).to(torch.int8), 4, packed_dim=0),
        f"{module}.weight_shape": torch.tensor(weight.shape),
    }
save_file(written, f"{OUT}/written.safetensors", metadata={"format": "pt"})

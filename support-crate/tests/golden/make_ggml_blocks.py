"""Blocks of random bits in each of ggml's formats, and what the Python package `gguf` restores them to.

python make_ggml_blocks.py OUT.safetensors    (gguf safetensors numpy)
"""
import sys
import numpy as np
from gguf import GGMLQuantizationType as T, GGML_QUANT_SIZES as SIZES
from gguf.quants import dequantize
from safetensors.numpy import save_file

random, out = np.random.default_rng(5), {}
for kind in (T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_NL, T.IQ4_XS):
    numbers, size = SIZES[kind]
    blocks = random.integers(0, 256, (6, size), dtype=np.uint8)
    # Scales are float16: moderate ones, of either sign, wherever a format has them.
    places = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0]}[kind]
    for at in places:
        scales = (random.standard_normal(6) * 0.1).astype(np.float16)
        scales[5] = 0
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(6, 2)
    out[f"{kind.name}/blocks"] = blocks
    out[f"{kind.name}/restored"] = dequantize(blocks.reshape(-1), kind).astype(np.float32).reshape(6, numbers)
save_file(out, sys.argv[1])

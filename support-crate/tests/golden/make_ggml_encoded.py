"""Rows of numbers, and the blocks that llama.cpp's own library makes of them, with and without importance.

python make_ggml_encoded.py OUT.safetensors    (numpy gguf safetensors llama-cpp-python)

Of the formats that the Python package `gguf` quantizes to as well, it says how many bytes differ there.
"""
import ctypes, sys
import numpy as np
from gguf import GGMLQuantizationType as T, GGML_QUANT_SIZES as SIZES
from gguf.quants import quantize
from llama_cpp.llama_cpp import _lib
from safetensors.numpy import save_file

quantize_chunk = _lib.ggml_quantize_chunk
P = ctypes.POINTER(ctypes.c_float)
quantize_chunk.restype = ctypes.c_size_t
quantize_chunk.argtypes = [ctypes.c_int, P, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, P]

COLUMNS, random = 512, np.random.default_rng(11)
rows = [random.standard_normal((12, COLUMNS)) * 0.05, random.standard_normal((3, COLUMNS)) * 10.0 ** random.uniform(-6, 3, (3, COLUMNS)), random.uniform(0, 1, (2, COLUMNS)), -random.uniform(0, 1, (2, COLUMNS)), random.integers(-8, 8, (2, COLUMNS)) / 4, random.standard_normal((2, COLUMNS)) * 1e-12]
special = np.zeros((5, COLUMNS)); special[1] = 0.25; special[2, 77] = 3.0; special[3, :300] = -0.5; special[4, ::7] = 60000.0 * np.sign(random.standard_normal(COLUMNS)[::7])
x = np.concatenate(rows + [special]).astype(np.float32)
x[0, :64] *= 40
importance = (random.standard_normal(COLUMNS) ** 2 * 10.0 ** random.uniform(-3, 2, COLUMNS)).astype(np.float32)
importance[100:110] = 0

out = {"rows": x, "importance": importance}
for kind in (T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q4_K, T.Q5_K, T.Q6_K):
    numbers, size = SIZES[kind]
    for name, weights in (("plain", None), ("weighted", importance)):
        blocks = np.zeros((len(x), COLUMNS // numbers * size), np.uint8)
        made = quantize_chunk(int(kind), x.ctypes.data_as(P), blocks.ctypes.data, 0, len(x), COLUMNS, None if weights is None else weights.ctypes.data_as(P))
        assert made == blocks.size
        out[f"{kind.name}/{name}"] = blocks
    try:
        print(kind.name, "bytes that differ in Python:", int((quantize(x, kind) != out[f"{kind.name}/plain"]).sum()), "of", blocks.size)
    except NotImplementedError:
        pass
save_file(out, sys.argv[1])

"""Reference codes of affine int4 by GPTQ and HQQ, for tests/formats/int4_rounding.rs.

    python make_int4_golden.py int4_made.safetensors

GPTQ is written out here as in algorithm 1 of Frantar et al. 2022 (arXiv:2210.17323), in double precision and without
its blocks of columns, which change only the order of additions: a group's scale then is that of the weights as all
columns before it have left them, which is what the paper says ("the most current updated weights"). (Their program
takes, within a block of 128 columns, weights that the columns of this block have not changed yet.) Scales are rounded
to float16, as the library's are. HQQ is `optimize_weights_proximal_v2` of the package `hqq` 0.2.8 with its defaults, a
group at a time, so that each stops where its own error stops to fall. (The package calls it experimental, and runs
`optimize_weights_proximal_legacy` unless told otherwise: that keeps the zero point of its last step, not of its best.)
"""

import sys

import numpy as np
import torch
from hqq.core.optimize import optimize_weights_proximal_v2
from safetensors.numpy import save_file

ROWS, COLUMNS, TOKENS = 12, 192, 160


def grid(weights, bits):
    """The step and the zero point of each row of a group: GPTQ's `Quantizer.find_params`, asymmetric."""
    last = 2**bits - 1
    low, high = np.minimum(weights.min(1), 0), np.maximum(weights.max(1), 0)
    step = ((high - low) / last).astype(np.float16).astype(np.float64)
    return step, np.clip(np.round(-low / step), 0, last)


def gptq(weights, inputs, bits, group, act_order, damping=0.01):
    """Codes (rows, columns), and the step and zero point of each group (rows, groups)."""
    weights, columns = weights.astype(np.float64).copy(), weights.shape[1]
    hessian = inputs.astype(np.float64).T @ inputs.astype(np.float64)
    grids = [grid(weights[:, i : i + group], bits) for i in range(0, columns, group)]
    order = np.argsort(-np.diag(hessian), kind="stable") if act_order else np.arange(columns)
    weights, hessian = weights[:, order], hessian[order][:, order]
    hessian += damping * np.mean(np.diag(hessian)) * np.eye(columns)
    upper = np.linalg.cholesky(np.linalg.inv(hessian)).T
    codes = np.zeros(weights.shape, np.uint8)
    for i in range(columns):
        of = order[i] // group
        if not act_order and i % group == 0:
            grids[of] = grid(weights[:, i : i + group], bits)
        step, zero = grids[of]
        code = np.clip(np.round(weights[:, i] / step) + zero, 0, 2**bits - 1)
        codes[:, order[i]] = code
        error = (weights[:, i] - (code - zero) * step) / upper[i, i]
        weights[:, i:] -= np.outer(error, upper[i, i:])
    step, zero = (np.stack(both, 1) for both in zip(*grids))
    return codes, step, zero


def hqq(weights, bits, group):
    last, grouped = 2**bits - 1, torch.from_numpy(weights).reshape(-1, group)
    codes, steps, zeros = [], [], []
    for one in grouped.split(1):
        low, high = one.min(), one.max()
        step = ((high - low) / last).half().float()
        scale = (1 / step).reshape(1, 1)
        code, _, zero = optimize_weights_proximal_v2(one, scale, -low * scale, [0, last], axis=1, device="cpu")
        codes.append(code.numpy().astype(np.uint8))
        steps.append(step.item())
        zeros.append(zero.item())
    shape = (weights.shape[0], -1)
    return np.concatenate(codes).reshape(weights.shape), np.reshape(steps, shape), np.reshape(zeros, shape)


def main(path):
    random = np.random.default_rng(5)
    weights = (random.standard_normal((ROWS, COLUMNS)) * random.gamma(2, 0.02, (ROWS, 1))).astype(np.float32)
    # Inputs of layers have some directions in common, and some features that are much larger than others.
    common = random.standard_normal((24, COLUMNS))
    inputs = random.standard_normal((TOKENS, 24)) @ common + random.standard_normal((TOKENS, COLUMNS))
    inputs = (inputs * random.gamma(1, 0.5, COLUMNS)).astype(np.float32)
    tensors = {"weights": weights, "inputs": inputs}
    for bits, group in [(4, 32), (4, 64), (4, 192), (3, 32), (3, 96), (2, 64)]:
        made = {
            "gptq": gptq(weights, inputs, bits, group, False),
            "gptq-act_order": gptq(weights, inputs, bits, group, True),
            "hqq": hqq(weights, bits, group),
        }
        for name, (codes, steps, zeros) in made.items():
            tensors[f"{name}.{bits}.{group}.codes"] = codes
            tensors[f"{name}.{bits}.{group}.steps"] = steps.astype(np.float32)
            tensors[f"{name}.{bits}.{group}.zeros"] = zeros.astype(np.float32)
    save_file(tensors, path)


main(sys.argv[1])

"""tests/bench/train_torch.py: the llama of tests/bench/bench_train.c in PyTorch, on one thread.

Reads weights and batches from the folder that bench_train wrote, prints `ready` and the BLAS that is
in use, and for each line on its standard input takes one training step and prints its seconds and
its loss. Written as one
writes it in PyTorch: fused cross-entropy and SiLU, one product for queries, keys and values, one for
gate and up, batched attention with a mask, torch.optim.AdamW.
"""
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

# exec/recipe.h and the sizes of bench_train.c
RATE, BETAS, EPS, DECAY, CLIP = 3e-4, (0.9, 0.95), 1e-8, 0.1, 1.0
HEADS, ROW, BATCH, NORM_EPS, ROPE_BASE = 8, 256, 8, 1e-6, 10000.0


def read(folder):
    weights, flat, at = {}, np.fromfile(f"{folder}/weights.f32", dtype=np.float32), 0
    for line in open(f"{folder}/weights.txt"):
        name, *dims = line.split()
        n = int(np.prod([int(d) for d in dims]))
        weights[name] = torch.from_numpy(flat[at : at + n].reshape([int(d) for d in dims]).copy())
        at += n
    steps = np.fromfile(f"{folder}/batches.i32", dtype=np.int32).reshape(-1, 2, BATCH, ROW)
    return weights, torch.from_numpy(steps.astype(np.int64))


def parameters(w):
    """luoshu keeps `out` and `down` as [in, out]; q, k, v and gate, up become one matrix each."""
    layers = 1 + max(int(n.split(".")[1]) for n in w if n.startswith("layers."))
    hidden = w["norm.weight"].numel()
    p = {"wte": w["wte.weight"], "head": w["lm_head.weight"], "norm": w["norm.weight"]}
    for i in range(layers):
        at = f"layers.{i}."
        p[f"{i}.norm1"], p[f"{i}.norm2"] = w[at + "norm1.weight"], w[at + "norm2.weight"]
        p[f"{i}.qkv"] = torch.cat([w[at + f"attn.{x}.weight"].reshape(-1, hidden) for x in "qkv"])
        p[f"{i}.out"] = w[at + "attn.out.weight"].reshape(-1, hidden).t().contiguous()
        p[f"{i}.up"] = torch.cat([w[at + f"mlp.{x}.weight"] for x in ("gate", "up")])
        p[f"{i}.down"] = w[at + "mlp.down.weight"].t().contiguous()
    return {n: torch.nn.Parameter(x) for n, x in p.items()}, layers


def norm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + NORM_EPS) * w


def turned(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


def loss_of(p, layers, ids, labels, cos, sin, mask):
    x = F.embedding(ids, p["wte"])
    d = x.shape[-1] // HEADS
    for i in range(layers):
        qkv = F.linear(norm(x, p[f"{i}.norm1"]), p[f"{i}.qkv"])
        q, k, v = qkv.view(BATCH, ROW, 3, HEADS, d).permute(2, 0, 3, 1, 4)
        scores = turned(q, cos, sin) @ turned(k, cos, sin).transpose(-1, -2) * d**-0.5
        o = F.softmax(scores + mask, dim=-1) @ v
        x = x + F.linear(o.transpose(1, 2).reshape(BATCH, ROW, -1), p[f"{i}.out"])
        gate, up = F.linear(norm(x, p[f"{i}.norm2"]), p[f"{i}.up"]).chunk(2, dim=-1)
        x = x + F.linear(F.silu(gate) * up, p[f"{i}.down"])
    logits = F.linear(norm(x, p["norm"]), p["head"])
    return F.cross_entropy(logits.view(BATCH * ROW, -1), labels.view(-1), ignore_index=-1)


def blas():
    """Debian's torch calls libblas.so.3, which is whatever was installed last."""
    used = [os.path.realpath(x.split()[-1]) for x in open("/proc/self/maps") if "/libblas" in x]
    return "openblas" if any("openblas" in x for x in used) else "other"


def main():
    torch.set_num_threads(1)
    weights, steps = read(sys.argv[1])
    p, layers = parameters(weights)
    d = p["norm"].numel() // HEADS
    angle = torch.arange(ROW, dtype=torch.float64)[:, None] * ROPE_BASE ** (
        -torch.arange(0, d, 2, dtype=torch.float64) / d
    )
    cos, sin = (torch.cat((f(angle), f(angle)), dim=-1).float() for f in (torch.cos, torch.sin))
    mask = torch.full((ROW, ROW), float("-inf")).triu(1)
    groups = [
        {"params": [x for x in p.values() if x.dim() >= 2], "weight_decay": DECAY},
        {"params": [x for x in p.values() if x.dim() < 2], "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPS)
    print("ready", blas(), flush=True)
    for step, _ in enumerate(sys.stdin):
        start = time.perf_counter()
        adam.zero_grad(set_to_none=True)
        loss = loss_of(p, layers, steps[step, 0], steps[step, 1], cos, sin, mask)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), CLIP)
        adam.step()
        print(time.perf_counter() - start, float(loss), flush=True)


main()

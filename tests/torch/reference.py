#!/usr/bin/env python3
"""Trains again in PyTorch what a luoshu run trained, from its weights and its tokens.

usage: reference.py --config config.json --init init.safetensors --batches batches.jsonl
                    --recipe exec/recipe.h --dtype f64|f32 [--against steps.csv --bar 1e-5]

Prints `step,loss,grad_norm`. With --against it compares both columns with those of a run's
steps.csv, prints the largest relative differences, and fails above the bar. Nothing of luoshu is
used here but its files: the model is written out in plain PyTorch, names and layouts are those of
Hugging Face, optimizer and clipping are PyTorch's own."""
import argparse
import csv
import json
import re
import struct
import sys

import numpy
import torch
from torch.nn import functional as F


def read_safetensors(path, dtype):
    """name -> tensor; the format's README in fifteen lines."""
    with open(path, "rb") as f:
        data = f.read()
    (length,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8 : 8 + length])
    out = {}
    for name, t in head.items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        cells = numpy.frombuffer(data[8 + length + begin : 8 + length + end],
                                 {"F32": "<f4", "F64": "<f8"}[t["dtype"]])
        out[name] = torch.tensor(cells.copy(), dtype=dtype).reshape(t["shape"]).requires_grad_()
    return out


def read_recipe(path):
    """The numbers of the optimizer, from the header that the executors are compiled with."""
    found = dict(re.findall(r"#define LUO_(\w+) ([0-9.eE+-]+)", open(path).read()))
    return {k: float(v) for k, v in found.items()}


def documents(starts, n):
    """Which document each token is of, and its place there."""
    start = torch.zeros(n, dtype=torch.long)
    number = torch.zeros(n, dtype=torch.long)
    for d, (lo, hi) in enumerate(zip(starts, starts[1:] + [n])):
        start[lo:hi], number[lo:hi] = lo, d
    return number, torch.arange(n) - start


def attention(q, k, v, number):
    """q [t,n,d], k and v [t,g,d]: each token sees its document up to itself."""
    t, n, d = q.shape
    each = n // k.shape[1]
    k, v = k.repeat_interleave(each, 1), v.repeat_interleave(each, 1)
    seen = (number[:, None] == number[None, :]) & torch.ones(t, t, dtype=torch.bool).tril()
    scores = torch.einsum("ind,jnd->nij", q, k) / d**0.5
    return torch.einsum("nij,jnd->ind", scores.masked_fill(~seen, -torch.inf).softmax(-1), v)


def rms_norm(x, w, eps):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w


def rope(x, position, base):
    """Pairs (i, i + d/2) turn by position * base^(-2i/d)."""
    half = x.shape[-1] // 2
    rate = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = (position.double()[:, None] * rate)[:, None, :]
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def llama(p, c, ids, number, position):
    heads, groups = c["num_attention_heads"], c.get("num_key_value_heads", c["num_attention_heads"])
    d = c.get("head_dim") or c["hidden_size"] // heads
    eps, base = c["rms_norm_eps"], c.get("rope_theta", 10000.0)

    def linear(x, name):
        return F.linear(x, p[name + ".weight"], p.get(name + ".bias"))

    x = p["model.embed_tokens.weight"][ids]
    for layer in range(c["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        y = rms_norm(x, p[at + "input_layernorm.weight"], eps)
        q, k, v = (linear(y, f"{at}self_attn.{j}_proj").reshape(len(ids), -1, d) for j in "qkv")
        assert q.shape[1] == heads and k.shape[1] == groups
        if at + "self_attn.q_norm.weight" in p:
            q = rms_norm(q, p[at + "self_attn.q_norm.weight"], eps)
            k = rms_norm(k, p[at + "self_attn.k_norm.weight"], eps)
        q, k = rope(q, position, base), rope(k, position, base)
        x = x + linear(attention(q, k, v, number).flatten(1), at + "self_attn.o_proj")
        y = rms_norm(x, p[at + "post_attention_layernorm.weight"], eps)
        y = F.silu(linear(y, at + "mlp.gate_proj")) * linear(y, at + "mlp.up_proj")
        x = x + linear(y, at + "mlp.down_proj")
    x = rms_norm(x, p["model.norm.weight"], eps)
    head = "model.embed_tokens.weight" if c.get("tie_word_embeddings") else "lm_head.weight"
    return F.linear(x, p[head])


def gpt2(p, c, ids, number, position):
    heads, eps = c["n_head"], c["layer_norm_epsilon"]

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], p[name + ".weight"], p[name + ".bias"], eps)

    def conv(x, name):  # Conv1D: [in, out]
        return x @ p[name + ".weight"] + p[name + ".bias"]

    x = p["wte.weight"][ids] + p["wpe.weight"][position]
    for layer in range(c["n_layer"]):
        at = f"h.{layer}."
        qkv = conv(norm(x, at + "ln_1"), at + "attn.c_attn")
        q, k, v = (y.reshape(len(ids), heads, -1) for y in qkv.chunk(3, -1))
        x = x + conv(attention(q, k, v, number).flatten(1), at + "attn.c_proj")
        y = F.gelu(conv(norm(x, at + "ln_2"), at + "mlp.c_fc"), approximate="tanh")
        x = x + conv(y, at + "mlp.c_proj")
    return F.linear(norm(x, "ln_f"), p["wte.weight"])


def micro_batch(model, p, c, batch):
    """Sum of the losses of its targets, and their number: the next token of the same document.
    Pads stand last, in documents of their own, and are no targets."""
    ids = torch.tensor(batch["ids"])
    number, position = documents(batch["document_starts"], len(ids))
    logits = model(p, c, ids, number, position)
    target = (number[:-1] == number[1:]) & (torch.arange(1, len(ids)) < len(ids) - batch["pads"])
    return F.cross_entropy(logits[:-1][target], ids[1:][target], reduction="sum"), int(target.sum())


def optimizer_of(p, r):
    """Matrices and tables decay; norms and biases do not."""
    groups = [{"params": [t for t in p.values() if t.dim() >= 2], "weight_decay": r["WEIGHT_DECAY"]},
              {"params": [t for t in p.values() if t.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=r["LEARNING_RATE"], betas=(r["BETA1"], r["BETA2"]),
                             eps=r["ADAM_EPS"])


def train(model, p, c, steps, recipe):
    opt = optimizer_of(p, recipe)
    for step, batches in steps:
        opt.zero_grad()
        parts = [micro_batch(model, p, c, b) for b in batches]
        loss = sum(s for s, _ in parts) / sum(n for _, n in parts)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(p.values(), recipe["CLIP_NORM"])
        opt.step()
        yield step, loss.item(), norm.item()


def read_steps(path):
    """(step, its micro-batches), in order."""
    steps = {}
    for line in open(path):
        batch = json.loads(line)
        steps.setdefault(batch["step"], []).append(batch)
    return sorted(steps.items())


def compare(rows, path, bar):
    theirs = {int(r["step"]): r for r in csv.DictReader(open(path))}
    worst = {"loss": 0.0, "grad_norm": 0.0}
    for step, loss, norm in rows:
        for key, want in (("loss", loss), ("grad_norm", norm)):
            got = float(theirs[step][key])
            worst[key] = max(worst[key], abs(got - want) / abs(want))
    print(f"{len(rows)} steps, loss {rows[0][1]:.6f} to {rows[-1][1]:.6f}; largest relative "
          f"difference: loss {worst['loss']:.2e}, gradient norm {worst['grad_norm']:.2e} "
          f"(bar {bar:g})")
    return len(rows) == len(theirs) and max(worst.values()) <= bar


def main():
    a = argparse.ArgumentParser(usage=__doc__)
    for name in ("config", "init", "batches", "recipe"):
        a.add_argument("--" + name, required=True)
    a.add_argument("--dtype", choices=("f32", "f64"), required=True)
    a.add_argument("--against")
    a.add_argument("--bar", type=float, default=1e-5)
    a = a.parse_args()
    torch.set_num_threads(1)
    config = json.load(open(a.config))
    model = gpt2 if config["model_type"] == "gpt2" else llama
    p = read_safetensors(a.init, torch.float64 if a.dtype == "f64" else torch.float32)
    rows = list(train(model, p, config, read_steps(a.batches), read_recipe(a.recipe)))
    if a.against:
        sys.exit(0 if compare(rows, a.against, a.bar) else 1)
    print("step,loss,grad_norm")
    for row in rows:
        print("%d,%.17g,%.17g" % row)


main()

#!/usr/bin/env python3
"""Trains a llama of a model file in PyTorch and prints how long a step takes.

usage: torch_bench.py --model scenarios/models/llama-1b.yaml [--layers N] --sequence 2048
                      --sequences 4 --micro-batches 4 --steps 12 --recipe exec/recipe.h
                      [--variant autocast|master|f32] [--eager] [--device cuda|cpu]

As one writes it to be fast: scaled_dot_product_attention (causal, one document a sequence),
torch.compile unless --eager, fused AdamW, one product for queries, keys and values and one for gate
and up. Variants:
  autocast  weights, gradients and optimizer in f32, products in bf16 (torch.autocast)
  master    weights and activations in bf16, gradients summed in f32, f32 master weights and
            moments: what luoshu does
  f32       everything in f32, without TF32
Prints one line of CSV: variant,compiled,step_s,tokens_per_s,loss,memory_bytes,torch,cuda,attention.
step_s is the median after a third of the steps; attention names the kernels that one more step used
for it, joined by +, as the profiler calls them ("none" where none has such a name). Exit 3 and a sentence where torch or a GPU for it is missing.
--device cpu (all in f32) shows that the program works; its times mean nothing."""
import argparse
import re
import statistics
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as e:
    sys.exit(print(f"torch: not measured: {e}.", file=sys.stderr) or 3)

DEFAULTS = {"norm_eps": 1e-5, "rope_base": 10000.0}


def read_model(path):
    """The plain `key: value` lines of a model file; llama only."""
    c = dict(DEFAULTS)
    for key, value in re.findall(r"^(\w+): *([^#\n]+?) *$", open(path).read(), re.M):
        c[key] = float(value) if re.fullmatch(r"[-+0-9.eE]+", value) else value
    assert c["family"] == "llama", "only llamas are measured"
    c.setdefault("kv_heads", c["heads"])
    c.setdefault("head_dim", c["hidden"] // c["heads"])
    for key in ("layers", "hidden", "ffn_hidden", "heads", "kv_heads", "head_dim", "vocab"):
        c[key] = int(c[key])
    return c


def read_recipe(path):
    """The numbers of the optimizer, from the header that the executors are compiled with."""
    found = dict(re.findall(r"#define LUO_(\w+) ([0-9.eE+-]+)", open(path).read()))
    return {k: float(v) for k, v in found.items()}


class Norm(nn.Module):
    def __init__(self, n, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(n)), eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * self.weight).to(x.dtype)


def turn(x, cos, sin):
    """x [b, heads, t, d]; pairs (i, i + d/2)."""
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


def attend(q, k, v):
    if q.shape[1] == k.shape[1]:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    try:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    except TypeError:  # before torch 2.5
        each = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(each, 1), v.repeat_interleave(each, 1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n, self.g, self.d = c["heads"], c["kv_heads"], c["head_dim"]
        h, f = c["hidden"], c["ffn_hidden"]
        self.norm1, self.norm2 = Norm(h, c["norm_eps"]), Norm(h, c["norm_eps"])
        self.qkv = nn.Linear(h, (self.n + 2 * self.g) * self.d, bias=False)
        self.out = nn.Linear(self.n * self.d, h, bias=False)
        self.up, self.down = nn.Linear(h, 2 * f, bias=False), nn.Linear(f, h, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(b, t, -1, self.d).transpose(1, 2)
        q, k, v = heads.split((self.n, self.g, self.g), 1)
        y = attend(turn(q, cos, sin), turn(k, cos, sin), v)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, -1))
        gate, up = self.up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, c, sequence):
        super().__init__()
        self.wte = nn.Embedding(c["vocab"], c["hidden"])
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["layers"]))
        self.norm = Norm(c["hidden"], c["norm_eps"])
        self.head = nn.Linear(c["hidden"], c["vocab"], bias=False)
        half = c["head_dim"] // 2
        rate = c["rope_base"] ** (-torch.arange(half, dtype=torch.float64) / half)
        angle = torch.arange(sequence, dtype=torch.float64)[:, None] * rate
        self.register_buffer("cos", angle.cos().float(), persistent=False)
        self.register_buffer("sin", angle.sin().float(), persistent=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, labels):
        x = self.wte(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), labels.reshape(-1))


def adamw(weights, r, device):
    groups = [{"params": [p for p in weights if p.dim() > 1], "weight_decay": r["WEIGHT_DECAY"]},
              {"params": [p for p in weights if p.dim() < 2], "weight_decay": 0.0}]
    fused = {"fused": True} if device == "cuda" else {}
    return torch.optim.AdamW(groups, lr=r["LEARNING_RATE"], betas=(r["BETA1"], r["BETA2"]),
                             eps=r["ADAM_EPS"], **fused)


class Trainer:
    def __init__(self, a, c, r):
        self.a, self.r = a, r
        torch.manual_seed(7)
        model = Llama(c, a.sequence).to(a.device)
        self.half = a.device == "cuda" and a.variant != "f32"
        self.masters = None
        if a.variant == "master":
            with torch.no_grad():
                self.masters = [p.detach().float().clone() for p in model.parameters()]
            if self.half:
                angles = model.cos, model.sin  # these stay in f32
                model = model.to(torch.bfloat16)
                model.cos, model.sin = angles
            for m in self.masters:
                m.grad = torch.zeros_like(m)
        self.weights = list(model.parameters())
        self.opt = adamw(self.masters or self.weights, r, a.device)
        self.model = model if a.eager else torch.compile(model)

    def backward(self, ids):
        autocast = self.half and self.a.variant == "autocast"
        with torch.autocast(self.a.device, dtype=torch.bfloat16, enabled=autocast):
            loss = self.model(ids[:, :-1], ids[:, 1:]) / self.a.micro_batches
        loss.backward()
        if self.masters:
            with torch.no_grad():
                for m, p in zip(self.masters, self.weights):
                    m.grad.add_(p.grad)
                    p.grad = None
        return loss.detach()

    def step(self, micro_batches):
        loss = sum(self.backward(ids) for ids in micro_batches)
        nn.utils.clip_grad_norm_(self.masters or self.weights, self.r["CLIP_NORM"])
        self.opt.step()
        if not self.masters:
            self.opt.zero_grad(set_to_none=True)
            return loss
        with torch.no_grad():
            for m, p in zip(self.masters, self.weights):
                p.copy_(m)
                m.grad.zero_()
        return loss


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


ATTENTION = re.compile(r"flash|fmha|attention|sdpa", re.I)


def attention_kernels(t, micro_batches):
    """Names of the GPU's kernels in one step that attention is made of."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        t.step(micro_batches)
        wait("cuda")
    names = {re.sub(r"[^\w:]+", "_", e.key)[:60] for e in seen.key_averages()
             if ATTENTION.search(e.key)}
    return "+".join(sorted(names)) or "none"


def measure(a, c, r):
    t = Trainer(a, c, r)
    draw = torch.Generator().manual_seed(11)
    shape = (a.micro_batches, a.sequences, a.sequence + 1)
    seconds, loss = [], None
    for _ in range(a.steps):
        ids = torch.randint(0, c["vocab"], shape, generator=draw).to(a.device)
        wait(a.device)
        began = time.perf_counter()
        loss = t.step(ids)
        wait(a.device)
        seconds.append(time.perf_counter() - began)
    attention = attention_kernels(t, ids) if a.device == "cuda" else "none"
    return statistics.median(seconds[len(seconds) // 3:]), float(loss), attention


def main():
    p = argparse.ArgumentParser()
    for name in ("sequence", "sequences", "micro-batches", "steps"):
        p.add_argument(f"--{name}", type=int, required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--recipe", required=True)
    p.add_argument("--layers", type=int)
    p.add_argument("--variant", choices=("autocast", "master", "f32"), default="autocast")
    p.add_argument("--eager", action="store_true")
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    a = p.parse_args()
    if a.device == "cuda" and not torch.cuda.is_available():
        print(f"torch: not measured: torch {torch.__version__} sees no GPU.", file=sys.stderr)
        return 3
    if not hasattr(F, "scaled_dot_product_attention"):
        print(f"torch: not measured: torch {torch.__version__} has no "
              "scaled_dot_product_attention; 2.0 or later is needed.", file=sys.stderr)
        return 3
    c = read_model(a.model)
    c["layers"] = a.layers or c["layers"]
    torch.backends.cuda.matmul.allow_tf32 = False
    step_s, loss, attention = measure(a, c, read_recipe(a.recipe))
    tokens = a.micro_batches * a.sequences * a.sequence
    memory = torch.cuda.max_memory_allocated() if a.device == "cuda" else 0
    print(f"{a.variant},{int(not a.eager)},{step_s:.9f},{tokens / step_s:.3f},{loss:.6f},{memory},"
          f"{torch.__version__},{torch.version.cuda},{attention}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Statements of random modules: each reads variables of a program, and adds one of known sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Any: a Program and a Variable of tests.fuzz.torch_nets.
Write = Callable[[Any, Any], None]

_CURVES = (
    "F.relu({x})", "F.gelu({x})", "F.gelu({x}, approximate='tanh')", "F.silu({x})", "torch.tanh({x})",
    "torch.sigmoid({x})", "F.hardswish({x})", "F.leaky_relu({x}, 0.2)", "F.elu({x}, 0.7)",
    "F.softplus({x}, 2.0)", "F.mish({x})", "{x}.clamp(-1, 2.5)", "{x}.abs().add(0.1).sqrt()",
    "{x}.clamp(max=3).exp()", "torch.sin({x})", "F.relu6({x})", "F.hardtanh({x}, -0.5, 1.5)",
    "{x} * torch.sigmoid({x})", "{x}.square()", "-{x}", "torch.where({x} > 0, {x}, {x} * 0.1)",
    "{x}.pow(3)", "F.softsign({x})", "F.tanhshrink({x})", "torch.rsqrt({x}.square() + 1e-3)",
    "F.celu({x}, 1.3)", "F.selu({x})", "torch.log1p({x}.abs())", "F.hardsigmoid({x})",
    "F.logsigmoid({x})", "{x}.double().float()", "torch.atan({x})", "{x}.sign() * {x}.abs()",
    "torch.erf({x})", "F.threshold({x}, 0.1, -0.2)", "{x}.floor() + {x}", "torch.expm1({x}.clamp(max=2))",
    "torch.maximum({x}, {x}.mean())", "F.relu({x}, inplace=False)", "{x} ** 2 / 3",
    "torch.reciprocal({x}.abs() + 1)",
)  # fmt: skip


def _curve(program: Any, x: Any) -> None:
    program.add(program.rng.choice(_CURVES).format(x=x.name), *x.sizes)


def _residual(program: Any, x: Any) -> None:
    other, rng = program.like(x).name, program.rng
    code = rng.choice((
        "{x} + {y}", "torch.add({x}, {y}, alpha=0.5)", "{x} * {y}", "torch.sub({x}, {y}, alpha=2)",
        "{x} - {y}",
        "torch.lerp({x}, {y}, 0.3)", "torch.addcmul({x}, {y}, {y}, value=0.2)", "torch.maximum({x}, {y})",
        "{x} / ({y}.abs() + 1)", "torch.atan2({x}, {y})", "torch.hypot({x}, {y})", "(0.5 * {x} + {y}) * 2",
        "torch.addcdiv({x}, {y}, {x}.abs() + 1)", "torch.stack([{x}, {y}]).sum(0)",
        "torch.where({x} > {y}, {x}, {y} * 0.5)",
    ))  # fmt: skip
    program.add(code.format(x=x.name, y=other), *x.sizes)


def _in_place(program: Any, x: Any) -> None:
    y = program.add(f"{x.name}.clone()", *x.sizes)
    code = program.rng.choice(
        ("add_(0.25)", "mul_(1.5)", "relu_()", "clamp_(-1, 1)", "sub_({x} * 0.5)", "tanh_()")
    )
    program.lines.append(f"        {y.name}.{code.format(x=x.name)}")


def _conditional(program: Any, x: Any) -> None:
    axis, size = program.rng.randint(1, len(x.sizes)), program.rng.randint(2, 12)
    a, b = (program.rng.choice(_CURVES).format(x=x.name) for _ in range(2))
    program.add(f"({a}) if {x.name}.shape[{axis}] > {size} else ({b})", *x.sizes)


def _reduce(program: Any, x: Any) -> None:
    axis = program.rng.randint(1, len(x.sizes))
    call = program.rng.choice((
        "mean({d})", "sum({d})", "amax({d})", "std({d}, unbiased=False)", "var({d}, correction=0)",
        "logsumexp({d})",
        "norm(dim={d})", "median({d})[0]", "min({d})[0]", "prod({d})", "norm(p=1, dim={d})",
    ))  # fmt: skip
    code = f"{x.name}.{call.format(d=axis - len(x.sizes) - 1 if program.chance(0.5) else axis)}"
    sizes = x.sizes[: axis - 1] + x.sizes[axis:]
    if sizes:
        program.add(code, *sizes)


def _normalize(program: Any, x: Any) -> None:
    axis = program.rng.randint(1, len(x.sizes))
    code = program.rng.choice((
        "F.normalize({x}, dim={d})", "F.normalize({x}, p=1, dim={d}, eps=1e-3)", "torch.softmax({x}, {d})",
        "F.log_softmax({x}, {d})", "F.softmin({x}, dim={d})", "torch.cumsum({x}, {d})", "{x}.flip({d})",
        "torch.roll({x}, 1, {d})", "{x} - {x}.mean({d}, keepdim=True)", "{x}.sort({d})[0]",
        "{x} / ({x}.amax({d}, keepdim=True).abs() + 1)", "torch.cummax({x}, {d})[0]",
    ))  # fmt: skip
    program.add(code.format(x=x.name, d=axis), *x.sizes)


# ---- images ----


def _conv(program: Any, x: Any) -> None:
    rng, (c, h, w) = program.rng, x.sizes
    out, k = rng.choice((8, 16, 24)), rng.choice((1, 2, 3))
    stride, dilation = rng.choice((1, 1, 2)), rng.choice((1, 1, 2))
    pad = rng.choice((0, k // 2))
    groups = rng.choice([g for g in (1, 1, 2, 4, 8) if c % g == 0 and out % g == 0])
    size = [(n + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for n in (h, w)]
    if min(size) < 1:
        return
    mode = rng.choice(("zeros", "zeros", "reflect", "replicate", "circular")) if pad < min(h, w) else "zeros"
    bias = program.chance(0.7)
    if program.chance(0.3):
        weight, b = program.parameter(out, c // groups, k, k), program.parameter(out) if bias else None
        code = f"F.conv2d({x.name}, {weight}, {b}, {stride}, {pad}, {dilation}, {groups})"
    else:
        layer = program.layer(
            f"nn.Conv2d({c}, {out}, {k}, {stride}, {pad}, {dilation}, {groups}, {bias}, '{mode}')"
        )
        code = f"{layer}({x.name})"
    program.add(code, out, *size)


def _conv_transpose(program: Any, x: Any) -> None:
    rng, (c, h, w) = program.rng, x.sizes
    out, k, stride = rng.choice((8, 16)), rng.choice((2, 3)), rng.choice((1, 2))
    extra = rng.randint(0, stride - 1)
    groups = rng.choice([g for g in (1, 1, 2, 4) if c % g == 0])
    size = [(n - 1) * stride + k + extra for n in (h, w)]
    if max(size) < 24:
        layer = program.layer(f"nn.ConvTranspose2d({c}, {out}, {k}, {stride}, 0, {extra}, {groups})")
        program.add(f"{layer}({x.name})", out, *size)


def _pool(program: Any, x: Any) -> None:
    rng, (c, h, w) = program.rng, x.sizes
    k, s = rng.choice((2, 3)), rng.choice((1, 2))
    p, ceil = rng.choice((0, k // 2)), rng.choice(("False", "True"))
    if min(h, w) < k:
        return
    size = []
    for n in (h, w):
        whole = n + 2 * p - k
        out = (-(-whole // s) if ceil == "True" else whole // s) + 1
        size.append(out - 1 if ceil == "True" and (out - 1) * s >= n + p else out)
    code = rng.choice((
        f"F.max_pool2d({{x}}, {k}, {s}, {p}, ceil_mode={ceil})",
        f"F.avg_pool2d({{x}}, {k}, {s}, {p}, {ceil}, {rng.choice(('True', 'False'))})",
        f"F.avg_pool2d({{x}}, {k}, {s}, {p}, {ceil}, True, divisor_override={rng.choice((2, 3, k * k))})",
        f"F.max_pool2d({{x}}, {k}, {s}, {p}, 1, {ceil})" if p else f"F.lp_pool2d({{x}}, 2, {k}, {s}, {ceil})",
    ))  # fmt: skip
    program.add(code.format(x=x.name), c, *size)


def _resize(program: Any, x: Any) -> None:
    rng, (c, h, w) = program.rng, x.sizes
    mode = rng.choice(("nearest", "bilinear", "bicubic", "area", "nearest-exact"))
    if max(h, w) > 12:
        size = (max(h // 2, 1), max(w // 2, 1))
    else:
        size = rng.choice(((h * 2, w * 2), (h + 3, w - 1), (max(h // 2, 1), w)))
    options = ""
    if mode in ("bilinear", "bicubic"):
        options = (
            f", align_corners={rng.choice(('True', 'False'))}, antialias={rng.choice(('False', 'True'))}"
        )
    target = "scale_factor=2" if size == (h * 2, w * 2) else f"size={size}"
    program.add(f"F.interpolate({x.name}, {target}, mode='{mode}'{options})", c, *size)


def _image_norm(program: Any, x: Any) -> None:
    c = x.sizes[0]
    groups = program.rng.choice([g for g in (1, 2, 4, c) if c % g == 0])
    code = program.rng.choice((
        f"nn.BatchNorm2d({c})", f"nn.BatchNorm2d({c}, eps=1e-2, affine=False)",
        f"nn.GroupNorm({groups}, {c})",
        f"nn.InstanceNorm2d({c}, affine=True)", f"nn.InstanceNorm2d({c})", "nn.LocalResponseNorm(2)",
        f"nn.PReLU({c})", "nn.Dropout2d(0.3)", f"nn.ChannelShuffle({groups})",
    ))  # fmt: skip
    program.add(f"{program.layer(code)}({x.name})", *x.sizes)


def _image_move(program: Any, x: Any) -> None:
    rng, (c, h, w) = program.rng, x.sizes
    kind = rng.randint(0, 5)
    if kind == 0 and c % 4 == 0:
        program.add(f"F.pixel_shuffle({x.name}, 2)", c // 4, h * 2, w * 2)
    elif kind == 1 and h % 2 == 0 and w % 2 == 0 and c <= 16:
        program.add(f"F.pixel_unshuffle({x.name}, 2)", c * 4, h // 2, w // 2)
    elif kind == 2:
        mode = rng.choice(("'constant', value=0.3", "'reflect'", "'replicate'", "'circular'"))
        program.add(f"F.pad({x.name}, (1, 0, 1, 1), mode={mode})", c, h + 2, w + 1)
    elif kind == 3 and c % 2 == 0:
        program.add(
            f"{x.name}.view(-1, 2, {c // 2}, {h}, {w}).transpose(1, 2).reshape(-1, {c}, {h}, {w})", c, h, w
        )
    elif kind == 4 and c % 2 == 0:
        part = rng.choice(("chunk(2, 1)[1]", f"split({c // 2}, dim=1)[0]", f"narrow(1, 0, {c // 2})"))
        program.add(f"{x.name}.{part}", c // 2, h, w)
    elif c <= 24:
        program.add(f"torch.cat([{x.name}, {program.like(x).name}], 1)", 2 * c, h, w)


def _to_tokens(program: Any, x: Any) -> None:
    c, h, w = x.sizes
    if h * w <= 100:
        program.add(f"{x.name}.flatten(2).transpose(1, 2)", h * w, c)


def _squeeze_excite(program: Any, x: Any) -> None:
    c = x.sizes[0]
    layer = program.layer(f"nn.Linear({c}, {c})")
    pool = program.rng.choice(
        ("{x}.mean((2, 3))", "F.adaptive_avg_pool2d({x}, 1).flatten(1)", "{x}.amax((2, 3))")
    )
    gate = f"torch.sigmoid({layer}({pool.format(x=x.name)}))[:, :, None, None]"
    program.add(f"{x.name} * {gate}", *x.sizes)


# ---- tokens ----


def _linear(program: Any, x: Any) -> None:
    d, out = x.sizes[-1], program.rng.choice((16, 24, 32))
    if program.chance(0.3):
        bias = program.parameter(out) if program.chance(0.5) else None
        code = f"F.linear({x.name}, {program.parameter(out, d)}, {bias})"
    elif program.chance(0.2):
        code = f"{x.name} @ {program.parameter(d, out)}"
    else:
        code = f"{program.layer(f'nn.Linear({d}, {out}, bias={program.chance(0.8)})')}({x.name})"
    program.add(code, *x.sizes[:-1], out)


def _token_norm(program: Any, x: Any) -> None:
    d = x.sizes[-1]
    code = program.rng.choice((
        f"nn.LayerNorm({d})", f"nn.LayerNorm({d}, eps=1e-2, bias=False)", f"nn.RMSNorm({d})",
        f"nn.LayerNorm({d}, elementwise_affine=False)", "nn.Identity()", "nn.Dropout(0.1)",
    ))  # fmt: skip
    program.add(f"{program.layer(code)}({x.name})", *x.sizes)


def _attention(program: Any, x: Any) -> None:
    (t, d), rng = x.sizes, program.rng
    heads = 2
    kind = rng.randint(0, 3)
    if kind == 0:
        layer = program.layer(f"nn.MultiheadAttention({d}, {heads}, batch_first=True)")
        program.add(f"{layer}({x.name}, {x.name}, {x.name}, need_weights={program.chance(0.5)})[0]", t, d)
    elif kind == 1:
        layers = [program.layer(f"nn.Linear({d}, {d})") for _ in range(3)]
        split = f"unflatten(-1, ({heads}, {d // heads})).transpose(1, 2)"
        q, k, v = (f"{layer}({x.name}).{split}" for layer in layers)
        options = rng.choice(("", ", is_causal=True", ", scale=0.3"))
        program.add(
            f"F.scaled_dot_product_attention({q}, {k}, {v}{options}).transpose(1, 2).flatten(2)", t, d
        )
    elif kind == 2:
        y = program.add(f"{program.layer(f'nn.Linear({d}, {d})')}({x.name})", t, d)
        scores = program.add(
            f"torch.softmax({y.name} @ {x.name}.transpose(-2, -1) / math.sqrt({d}), -1)", t, t
        )
        program.add(f"torch.bmm({scores.name}, {x.name})", t, d)
    else:
        program.add(f"torch.einsum('btd,bsd->bts', {x.name}, {program.like(x).name})", t, t)


def _recurrent(program: Any, x: Any) -> None:
    (t, d), rng = x.sizes, program.rng
    kind, hidden = rng.choice(("LSTM", "GRU", "RNN")), rng.choice((8, 16))
    both, layers = program.chance(0.3), rng.choice((1, 1, 2))
    layer = program.layer(f"nn.{kind}({d}, {hidden}, {layers}, batch_first=True, bidirectional={both})")
    program.add(f"{layer}({x.name})[0]", t, hidden * (2 if both else 1))


def _token_move(program: Any, x: Any) -> None:
    (t, d), rng = x.sizes, program.rng
    kind = rng.randint(0, 6)
    if kind == 0 and d % 2 == 0:
        a, b = f"{x.name}[..., : {d // 2}]", f"{x.name}[..., {d // 2} :]"
        program.add(f"torch.cat([-{b}, {a}], -1) * torch.cos(torch.arange({d}) * 0.1) + {x.name}", t, d)
    elif kind == 1 and t <= 8:
        program.add(f"{x.name}.repeat_interleave(2, 1)", 2 * t, d)
    elif kind == 2:
        program.add(f"{x.name} * (torch.arange({t})[:, None] + 1) / {t}", t, d)
    elif kind == 3:
        layer = program.layer(f"nn.Conv1d({d}, {d}, 3, padding=1, groups={rng.choice((1, d, 2))})")
        program.add(f"{layer}({x.name}.transpose(1, 2)).transpose(1, 2)", t, d)
    elif kind == 4 and d % 4 == 0 and t * 4 <= 40:
        program.add(
            f"{x.name}.reshape(-1, {t}, 4, {d // 4}).permute(0, 2, 1, 3).reshape(-1, {4 * t}, {d // 4})",
            4 * t,
            d // 4,
        )
    elif kind == 5:
        program.add(f"torch.cat([{x.name}, {program.like(x).name}], dim=-1)", t, 2 * d)
    else:
        program.add(rng.choice((f"{x.name}[:, -1]", f"{x.name}.select(1, 0)", f"{x.name}.unbind(1)[0]")), d)


def _glu(program: Any, x: Any) -> None:
    if x.sizes[-1] % 2 == 0:
        program.add(f"F.glu({x.name}, dim=-1)", *x.sizes[:-1], x.sizes[-1] // 2)


def _vector_move(program: Any, x: Any) -> None:
    (d,), rng = x.sizes, program.rng
    kind = rng.randint(0, 3)
    if kind == 0:
        program.add(f"{program.layer(f'nn.BatchNorm1d({d})')}({x.name})", d)
    elif kind == 1:
        program.add(f"{x.name}[:, :, None] * {program.like(x).name}[:, None, :]", d, d)
    elif kind == 2 and d % 4 == 0:
        program.add(f"{x.name}.view({x.name}.shape[0], 4, -1)", 4, d // 4)
    else:
        program.add(f"torch.cat(({x.name}, {program.like(x).name}), 1)", 2 * d)


_ANY: tuple[Write, ...] = (_curve, _curve, _residual, _residual, _in_place, _conditional, _reduce, _normalize)
BY_KIND: dict[str, tuple[Write, ...]] = {
    "image": (
        *_ANY, *[_conv] * 6, _conv_transpose, *[_pool] * 2, _resize, *[_image_norm] * 2, *[_image_move] * 2,
        _to_tokens, _squeeze_excite,
    ),
    "tokens": (
        *_ANY, *[_linear] * 5, *[_token_norm] * 2, *[_attention] * 2, _recurrent, *[_token_move] * 2, _glu,
    ),
    "vector": (*_ANY, *[_linear] * 5, _vector_move, _vector_move, _glu),
}  # fmt: skip
"""Kind of a variable -> the statements that read it."""

LAYERS: dict[str, Write] = {"image": _conv, "tokens": _linear, "vector": _linear}
"""Kind of a variable -> the statement with a layer that reads it."""

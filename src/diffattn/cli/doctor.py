"""`diffattn doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from diffattn.cli.options import JsonFile, check_output, loading, report_console, write_report_json

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["command"]

_PACKAGES = (
    "torch",
    "transformers",
    "accelerate",
    "datasets",
    "tokenizers",
    "safetensors",
    "numpy",
    "triton",
    "flash-attn",
)
_HEADS, _KV_HEADS, _LENGTH, _WIDTH = 4, 2, 16, 32


def command(json_file: JsonFile = None) -> None:
    """Say which versions, devices, cores and memory there are, which attention backends serve here, and why not.

    \b
    Examples:
      diffattn doctor
      diffattn doctor --json -
    """
    check_output(json_file)
    found = _examine()
    write_report_json(json_file, found)
    report_console(json_file).print(_text(found), markup=False)


def _examine() -> dict[str, Any]:
    with loading():
        from diffattn.experiments.environment import machine, versions

    backends = {
        f"{variant}, {dtype} on {device}": _explain(variant, dtype, device)
        for device in _devices()
        for dtype in ("float32", "bfloat16")
        for variant in ("v1", "v2")
    }
    return {"versions": versions(_PACKAGES), "machine": machine(), "devices": _devices(), "backends": backends}


def _devices() -> list[str]:
    import torch

    return ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]


def _explain(variant: str, dtype: str, device: str) -> dict[str, Any]:
    """What `explain_backends` says of a small causal example: V1 has two keys to a head, and values twice as wide."""
    import torch

    from diffattn import explain_backends

    def random(heads: int, width: int) -> Tensor:
        return torch.randn(1, heads, _LENGTH, width, dtype=getattr(torch, dtype), device=device)

    wide = 2 * _WIDTH if variant == "v1" else _WIDTH
    q1, q2, k, v = (random(*shape) for shape in ((_HEADS, _WIDTH),) * 2 + ((_KV_HEADS, wide),) * 2)
    report = explain_backends(q1, q2, k, v, 0.5)
    return {"auto": report.auto, "reasons": report.reasons, "costs": report.costs}


def _text(found: dict[str, Any]) -> str:
    lines = ["versions", *(f"  {name:13} {value}" for name, value in found["versions"].items()), "machine"]
    machine = {**found["machine"], "memory_bytes": f"{found['machine']['memory_bytes'] / 2**30:.1f} GiB"}
    lines += [f"  {name.removesuffix('_bytes'):13} {value}" for name, value in machine.items()]
    for case, report in found["backends"].items():
        lines.append(f"attention: {case} (auto takes {report['auto']})")
        lines += [f"  {name:13} {_serves(name, report)}" for name in report["reasons"]]
    return "\n".join(lines)


def _serves(name: str, report: dict[str, Any]) -> str:
    reasons = report["reasons"][name]
    if reasons:
        return f"cannot serve: {'; '.join(reasons)}"
    cost = report["costs"].get(name)
    return f"serves ({cost})" if cost else "serves"

"""Machines as the roofline sees them: arithmetic rate, memory bandwidth, memory, power."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["BYTES", "MACHINES", "Hardware", "find_hardware"]

#: Bytes of a number in weights and cache.
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8": 1}


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """One device.

    Attributes:
        name: as a reader knows it.
        flops: dense FLOPs a second by dtype, a multiply-add being 2.
        bandwidth: of its memory, bytes a second.
        memory: in bytes; None where unknown.
        watts: of the board; None where unknown.
        source: where the numbers come from.
    """

    name: str
    flops: Mapping[str, float] = field(hash=False)
    bandwidth: float
    memory: float | None = None
    watts: float | None = None
    source: str

    def rate(self, dtype: str) -> float:
        """FLOPs a second in this dtype.

        Raises:
            ValueError: the machine has none for it.
        """
        if dtype not in self.flops:
            raise ValueError(f"dtype: {self.name} has a rate for {', '.join(self.flops)}, got {dtype!r}")
        return self.flops[dtype]

    def ridge(self, dtype: str) -> float:
        """FLOPs a byte above which arithmetic, not memory, is the limit."""
        return self.rate(dtype) / self.bandwidth


def _gpu(name: str, *, bf16: float, fp32: float, fp8: float | None, bandwidth: float, memory: float, watts: float,
         source: str) -> Hardware:  # fmt: skip
    flops = {"bfloat16": bf16 * 1e12, "float16": bf16 * 1e12, "float32": fp32 * 1e12}
    flops |= {"float8": fp8 * 1e12} if fp8 else {}
    return Hardware(name=name, flops=flops, bandwidth=bandwidth * 1e12, memory=memory * 1e9, watts=watts, source=source)


#: Dense rates (no sparsity), float32 without tensor cores, as the makers' data sheets give them.
MACHINES = {
    "h100": _gpu("NVIDIA H100 SXM", bf16=989.4, fp32=66.9, fp8=1978.9, bandwidth=3.35, memory=80, watts=700,
                 source="NVIDIA H100 data sheet"),
    "h200": _gpu("NVIDIA H200 SXM", bf16=989.4, fp32=66.9, fp8=1978.9, bandwidth=4.8, memory=141, watts=700,
                 source="NVIDIA H200 data sheet"),
    "a100": _gpu("NVIDIA A100 80GB SXM", bf16=312, fp32=19.5, fp8=None, bandwidth=2.039, memory=80, watts=400,
                 source="NVIDIA A100 data sheet"),
    "mi300x": _gpu("AMD Instinct MI300X", bf16=1307.4, fp32=163.4, fp8=2614.9, bandwidth=5.3, memory=192, watts=750,
                   source="AMD MI300X data sheet"),
}  # fmt: skip


def find_hardware(name: str) -> Hardware:
    """One of `MACHINES`, however its name is written.

    Raises:
        ValueError: there is none of this name.
    """
    key = name.lower().replace("nvidia", "").replace("amd", "").strip(" -_")
    if key not in MACHINES:
        raise ValueError(f"hardware: expected {', '.join(MACHINES)} or cpu, got {name!r}")
    return MACHINES[key]

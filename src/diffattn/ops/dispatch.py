"""The one place that knows every backend: which can serve, which `auto` takes."""

from __future__ import annotations

from types import ModuleType

from torch import Tensor

from diffattn.errors import UnsupportedBackendError
from diffattn.ops.backends import reference, sdpa
from diffattn.ops.types import Backend, BackendReport, DiffInputs
from diffattn.ops.validation import wrong

__all__ = ["explain", "run"]

# In the order in which `auto` tries them.
BACKENDS: dict[Backend, ModuleType] = {Backend.SDPA: sdpa, Backend.REFERENCE: reference}


def run(x: DiffInputs, backend: Backend | str) -> Tensor:
    name = _backend(backend)
    if name is Backend.AUTO:
        name = _first_that_serves(x)
    elif reasons := BACKENDS[name].why_not(x):
        raise UnsupportedBackendError(name.value, reasons)
    out: Tensor = BACKENDS[name].forward(x)
    return out


def explain(x: DiffInputs) -> BackendReport:
    costs = {name.value: module.cost(x) for name, module in BACKENDS.items()}
    return BackendReport(
        reasons={name.value: module.why_not(x) for name, module in BACKENDS.items()},
        costs={name: cost for name, cost in costs.items() if cost},
        auto=_first_that_serves(x).value,
    )


def _backend(backend: Backend | str) -> Backend:
    try:
        return Backend(backend)
    except ValueError:
        known = ", ".join(member.value for member in Backend)
        raise wrong("backend", f"one of {known}", backend) from None


def _first_that_serves(x: DiffInputs) -> Backend:
    return next(name for name, module in BACKENDS.items() if not module.why_not(x))

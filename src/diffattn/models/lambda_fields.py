"""The fields of a configuration that say where lambda comes from, checked."""

from __future__ import annotations

from numbers import Real

from diffattn.nn import DiffAttentionV1, DiffAttentionV2
from diffattn.nn.lambdas import check_lambda_init

__all__ = ["GRANULARITIES", "check_starts", "filled_granularity"]

LAYERS: dict[str, type[DiffAttentionV1] | type[DiffAttentionV2]] = {"v1": DiffAttentionV1, "v2": DiffAttentionV2}

#: How finely lambda is learned, by attention; the first is the default.
GRANULARITIES: dict[str, tuple[str, ...]] = {
    "softmax": ("none",),
    "gated": ("none",),
    **{name: layer.GRANULARITIES for name, layer in LAYERS.items()},
}


def filled_granularity(attention: str, given: str | None) -> str:
    """`lambda_granularity`, or the attention's default.

    Raises:
        ValueError: the attention does not know it.
    """
    known = GRANULARITIES[attention]
    if given is not None and given not in known:
        raise ValueError(
            f"lambda_granularity: expected {' or '.join(known)} for attention={attention!r}, got {given!r}"
        )
    return given or known[0]


def check_starts(attention: str, granularity: str, lambda_init: str | float | list | None, layers: int) -> None:
    """Refuses a `lambda_init` that does not fit.

    Raises:
        ValueError: it is neither "schedule" nor a number a layer, or a sigmoid cannot start there.
    """
    if isinstance(lambda_init, str) and lambda_init != "schedule":
        raise ValueError(f"lambda_init: expected 'schedule', a number or a list, got {lambda_init!r}")
    if isinstance(lambda_init, list) and not all(isinstance(value, Real) for value in lambda_init):
        raise ValueError(f"lambda_init: expected numbers, got {lambda_init!r}")
    if isinstance(lambda_init, list) and len(lambda_init) != layers:
        raise ValueError(f"lambda_init: expected {layers} numbers, one a layer, got {len(lambda_init)}")
    if isinstance(lambda_init, str) or lambda_init is None or attention not in LAYERS:
        return
    for value in lambda_init if isinstance(lambda_init, list) else [lambda_init]:
        check_lambda_init(value, granularity, LAYERS[attention].THROUGH_SIGMOID)

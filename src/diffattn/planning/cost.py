"""What a variant costs in training, and what it must bring to pay for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from diffattn.planning.body import Model
from diffattn.planning.flops import training_flops
from diffattn.planning.hardware import Hardware

__all__ = [
    "SCALING_SOURCE",
    "TOKENS_A_PARAMETER",
    "Prices",
    "alternatives",
    "break_even",
    "loss_bought",
    "training_cost",
]

#: Parameters between which the law below is taken to hold; its models had 44 million to 16 billion.
LAW_RANGE = (4e7, 1e11)
#: The refit of the Chinchilla law, loss = E + A / parameters^alpha + B / tokens^beta in nats a token.
SCALING_SOURCE = "Besiroglu et al., Chinchilla Scaling: A replication attempt, arXiv:2404.10102"
_B, _BETA = 2085.43, 0.3658
TOKENS_A_PARAMETER = 20


@dataclass(frozen=True, kw_only=True)
class Prices:
    """What training costs where.

    Attributes:
        utilization: share of the machine's rate that training reaches, above 0 and at most 1.
        device_hour: money an hour of one device; None where unknown.
        kilowatt_hour: money; None where unknown.
        watts: of one device; None for the machine's own.
    """

    utilization: float = 0.4
    device_hour: float | None = None
    kilowatt_hour: float | None = None
    watts: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.utilization <= 1:
            raise ValueError(f"utilization: expected above 0 and at most 1, got {self.utilization}")
        for name in ("device_hour", "kilowatt_hour", "watts"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"{name}: expected 0 or more, got {value}")


def training_cost(flops: float, machine: Hardware, dtype: str, prices: Prices) -> dict[str, float | None]:
    """Hours of one device, money and energy for so many FLOPs; None where a price or the power is unknown."""
    hours = flops / (machine.rate(dtype) * prices.utilization) / 3600
    watts = machine.watts if prices.watts is None else prices.watts
    energy = None if watts is None else hours * watts / 1000
    rent = None if prices.device_hour is None else hours * prices.device_hour
    power = None if energy is None or prices.kilowatt_hour is None else energy * prices.kilowatt_hour
    return {"device_hours": hours, "money": rent, "energy_kwh": energy, "energy_money": power}


def loss_bought(tokens: float, factor: float) -> float:
    """Nats a token that a published scaling law gives for training on `factor` times the tokens instead."""
    return _B / tokens**_BETA * (1 - factor**-_BETA)


def break_even(
    baseline: Model, model: Model, length: int, tokens: float, machine: Hardware, dtype: str, prices: Prices
) -> dict[str, Any]:
    """What `model` costs more than `baseline` to train, and the gain in loss from which on it pays.

    Whoever spends the same FLOPs on the baseline trains it on more tokens; the variant pays where it lowers the loss by
    more than those would.

    Args:
        length: of the training sequences.
        tokens: of the whole training.
    """
    base, other = training_flops(baseline, length), training_flops(model, length)
    extra = (other - base) * tokens
    found: dict[str, Any] = {
        "flops_a_token": other,
        "baseline_flops_a_token": base,
        "ratio": other / base,
        "extra_flops": extra,
        "loss_bought": _bought(baseline, tokens, other / base),
    }
    return found | training_cost(extra, machine, dtype, prices)


def _bought(baseline: Model, tokens: float, ratio: float) -> float | None:
    """None beyond the sizes that the law was fitted to."""
    if not LAW_RANGE[0] <= baseline.total <= LAW_RANGE[1]:
        return None
    return loss_bought(tokens, ratio) if ratio > 1 else 0.0


def alternatives(models: Mapping[str, Model], length: int) -> list[dict[str, Any]]:
    """Cheaper ways against the noise floor, with the parameters and training FLOPs that they add to the baseline.

    Args:
        models: as `comparison` gives them.
        length: of the training sequences.
    """
    baseline = models["softmax"]
    maps = sum(layer.attention.maps for layer in baseline.layers)
    base = training_flops(baseline, length)
    found = [("log-n scaled logits", maps, base, "sharpens the scores as the context grows; arXiv:2501.19399")]
    if not baseline.layers[0].attention.sinks:
        what = "lets a head attend to nothing; leaves a position's signal-to-noise as it is"
        found.append(("learned sink", maps, base, what))
    if "gated" in models:
        gated = models["gated"]
        what = "scales each head's output by the token; the control for V2; arXiv:2505.06708"
        found.append(("gated attention", gated.total - baseline.total, training_flops(gated, length), what))
    return [
        {"name": name, "parameters": count, "flops_ratio": flops / base, "what": what}
        for name, count, flops, what in found
    ]

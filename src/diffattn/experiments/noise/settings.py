"""What the noise laboratory is asked for, checked before any work."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from diffattn.errors import UserError
from diffattn.planning.noise_model import NoiseModel

__all__ = ["LENGTHS", "NoiseRequest"]

#: The lengths of the sweep over length: 1K to 256K.
LENGTHS = tuple(1024 * 2**power for power in range(9))

#: One draw of this many keys takes nearly a gigabyte; a draw is never split.
_LONGEST = 2**22


@dataclass(frozen=True, kw_only=True)
class NoiseRequest:
    """Everything that decides what the laboratory computes. Scores are what softmax takes.

    Attributes:
        length: keys that the query sees, the match among them.
        lengths: the sweep over length; `length` joins it where it is missing.
        margin: the match's score in the first map above the mean of the others, above 0.
        strength: standard deviation of the others' scores, in both maps.
        correlation: between the two maps' scores of the same key, -1 to 1.
        second_margin: the match's score in the second map; 0 where it knows nothing of the match.
        lam: the fixed lambda, 0 or more.
        draws: how often each setting is drawn; more make the intervals narrower.
        seed: of the draws.
        base_length: the length at which log-n scaling leaves the scores alone.
        top_k: how many keys the top-k control keeps.
        gate: the factor of the gate control, above 0 and at most 1.

    Raises:
        UserError: a number out of its range; the message names its option.
    """

    length: int = 131_072
    lengths: tuple[int, ...] = LENGTHS
    margin: float = 8.0
    strength: float = 1.0
    correlation: float = 0.5
    second_margin: float = 0.0
    lam: float = 0.5
    draws: int = 64
    seed: int = 0
    base_length: int = 1024
    top_k: int = 64
    gate: float = 0.5

    def __post_init__(self) -> None:
        for name, value in (("length", self.length), *(("lengths", length) for length in self.lengths)):
            _within(name, value, 2, _LONGEST)
        if not self.lengths:
            raise UserError("--lengths: name one length or more, such as 1024,65536")
        _within("margin", self.margin, 0, 100, above=True)
        _within("strength", self.strength, 0, 10, above=True)
        _within("correlation", self.correlation, -1, 1)
        _within("second-margin", self.second_margin, -100, 100)
        _within("lambda", self.lam, 0, 100)
        _within("draws", self.draws, 2, 100_000)
        _within("seed", self.seed, 0, 2**63)
        _within("base-length", self.base_length, 2, _LONGEST)
        _within("top-k", self.top_k, 1, _LONGEST)
        _within("gate", self.gate, 0, 1, above=True)

    @property
    def sweep_lengths(self) -> tuple[int, ...]:
        """The lengths in order, each once, `length` among them."""
        return tuple(sorted({*self.lengths, self.length}))

    @property
    def model(self) -> NoiseModel:
        """The closed form of the setting at `length`; every sweep changes one number of it."""
        return NoiseModel(
            length=self.length,
            margin=self.margin,
            strength=self.strength,
            second_margin=self.second_margin,
            correlation=self.correlation,
        )

    def at(self, **changes: Any) -> NoiseModel:
        """`model` with some of its numbers changed."""
        return replace(self.model, **changes)

    def to_dict(self) -> dict[str, Any]:
        """The request as JSON has it; `lam` goes by its option's name, lambda."""
        options = {**asdict(self), "lengths": list(self.sweep_lengths)}
        return {"lambda" if name == "lam" else name: value for name, value in options.items() if name != "seed"}


def _within(name: str, value: float, low: float, high: float, *, above: bool = False) -> None:
    if (low < value if above else low <= value) and value <= high:
        return
    least = f"above {low:,}" if above else f"{low:,} or more"
    raise UserError(f"--{name}: expected a number {least} and at most {high:,}, got {str(value)[:40]}")

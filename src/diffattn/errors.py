"""The errors that callers may want to catch.

A wrong argument to an operator, a layer or a model is an ordinary `ValueError` that names the argument.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["DiffAttnError", "UnsupportedBackendError", "UserError"]


class DiffAttnError(Exception):
    """Base of the errors that this package defines."""


class UserError(DiffAttnError):
    """Something only the user can mend: the message is one line that says what to do. The command line exits with 2."""


class UnsupportedBackendError(DiffAttnError, ValueError):
    """A backend was asked for by name and cannot serve the inputs; a named backend never falls back.

    Attributes:
        backend: the name that was asked for.
        reasons: why it cannot serve, one sentence each, as `explain_backends` gives them.
    """

    def __init__(self, backend: str, reasons: Sequence[str]) -> None:
        self.backend = backend
        self.reasons = list(reasons)
        super().__init__(
            f"backend {backend!r} cannot serve these inputs: {'; '.join(self.reasons)}. "
            "Use backend='auto', or see diffattn.explain_backends(...) for what can."
        )

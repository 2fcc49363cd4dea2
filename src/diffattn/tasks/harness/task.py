"""The harness's task class for text tasks: each question says how long its answer may be."""

from __future__ import annotations

from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

__all__ = ["RetrievalTask"]


class RetrievalTask(ConfigurableTask):
    """A task by its file, but that as many tokens are generated as the answers of a question need in its tokenizer."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config={name: value for name, value in config.items() if name != "class"})

    def construct_requests(self, doc: dict[str, Any], ctx: str, **given: Any) -> Instance:
        request = super().construct_requests(doc, ctx, **given)
        prompt, settings = request.arguments
        request.arguments = (prompt, {**settings, "max_gen_toks": doc["max_new_tokens"]})
        return request

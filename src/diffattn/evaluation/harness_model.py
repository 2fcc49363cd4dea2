"""The harness's wrapper of a Hugging Face model, with a progress bar, and with what it cuts off told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lm_eval.api.model import CacheHook
from lm_eval.models.huggingface import HFLM
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from diffattn.data.progress import delayed_progress
from diffattn.errors import UserError

__all__ = ["HarnessModel"]


class HarnessModel(HFLM):
    """A loaded model as the harness takes it.

    Attributes:
        cut: for each task, how many of its requests were longer than the model's context and lost their start.
    """

    add_bos_token: bool | None

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch_size: int, *, progress: bool
    ) -> None:
        super().__init__(pretrained=model, tokenizer=tokenizer, batch_size=batch_size)
        self.cut: Counter[str] = Counter()
        self._progress = progress

    def get_model_info(self) -> dict[str, Any]:
        """Nothing: the harness would ask the hub for the revision of a model that was loaded already."""
        return {}

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        for request in requests:
            context, continuation = request.args
            tokens = len(self.tok_encode(context + continuation)) + (context == "")
            self.cut[request.task_name] += tokens > self.max_length + 1
        with self._bar("Scoring", requests):
            return super().loglikelihood(requests, disable_tqdm=True)

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """The harness puts the start token before a text; a tokenizer's own after it would be a token to predict."""
        before, self.add_bos_token = self.add_bos_token, False
        try:
            with self._bar("Scoring", requests):
                return super().loglikelihood_rolling(requests, disable_tqdm=True)
        finally:
            self.add_bos_token = before

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        for request in requests:
            prompt, settings = request.args
            room = self.max_length - settings.get("max_gen_toks", self.max_gen_toks)
            if room < 1:
                raise UserError(
                    f"{request.task_name} generates up to {self.max_length - room} tokens, and the model has no more "
                    f"than {self.max_length} positions: leave it out"
                )
            self.cut[request.task_name] += len(self.tok_encode(prompt)) > room
        with self._bar("Generating", requests):
            return super().generate_until(requests, disable_tqdm=True)

    @contextmanager
    def _bar(self, what: str, requests: Sequence[Any]) -> Iterator[None]:
        """A step for each request that the wrapper would put into a cache."""
        with delayed_progress(what, len(requests), enabled=self._progress) as advance:

            class Hook(CacheHook):
                def add_partial(self, attr: str, req: Any, res: Any) -> None:
                    advance(1)

            self.set_cache_hook(Hook(None))
            try:
                yield
            finally:
                self.set_cache_hook(CacheHook(None))

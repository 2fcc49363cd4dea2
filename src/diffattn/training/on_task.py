"""A small model trained on a generated task: fresh examples in each step, at lengths that grow as it learns."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PretrainedConfig, PreTrainedModel, Trainer
from transformers.trainer_callback import PrinterCallback

from diffattn.errors import UserError
from diffattn.models.embedding import embed
from diffattn.tasks import TokenExamples
from diffattn.training.huggingface import adamw, arguments, quiet
from diffattn.training.task_account import TaskAccount, Watch
from diffattn.training.task_settings import TaskTraining
from diffattn.training.trainer import build_model, choose_device

__all__ = ["TaskRun", "answer_logits", "train_on_task"]

MakeBatch = Callable[[int, int, int], TokenExamples]


@dataclass(frozen=True, kw_only=True)
class TaskRun:
    """A trained model, and what its training gave.

    Attributes:
        model: as the last step left it; after a divergence its weights are of no use.
        result: what `TaskAccount.result` gives, and "device".
    """

    model: PreTrainedModel
    result: dict[str, Any]

    @property
    def learned(self) -> bool:
        """The threshold was reached at the last length, and the training did not diverge."""
        return self.result["reached"][-1]["steps"] is not None and self.result["diverged_at"] is None


def train_on_task(
    config: PretrainedConfig, make_batch: MakeBatch, settings: TaskTraining, *, watch: Watch | None = None
) -> TaskRun:
    """Train the model that `config` describes, in float32, until it has learned the task at every length.

    Loss and accuracy are of the questions alone. The examples depend on settings and seed, and on the model only
    through the step in which it goes on to the next length. Nothing is written; Ctrl-C ends the training at once.

    Args:
        config: of any causal language model of Transformers.
        make_batch: `make_batch(length, count, seed)` draws `count` sequences of `length` tokens.
        settings: everything else.
        watch: called with the model and the newest entry of the curves.

    Raises:
        UserError: the longest sequence is longer than the model's context.
        ValueError: the examples have a token that the model's vocabulary lacks.
    """
    longest = getattr(config, "max_position_embeddings", None)
    if longest is not None and settings.lengths[-1] > longest:
        raise UserError(
            f"a task of {settings.lengths[-1]} tokens is longer than the model's {longest}: use at most that"
        )
    model = build_model(config, settings.seed).to(choose_device())
    account = TaskAccount(settings, watch)
    with quiet(), tempfile.TemporaryDirectory() as folder:
        _trainer(model, make_batch, settings, account, Path(folder)).train()
    return TaskRun(model=model.eval(), result={**account.result(), "device": str(model.device)})


def answer_logits(model: PreTrainedModel, queries: Tensor, **inputs: Any) -> Tensor:
    """Logits at the questions alone, `[B, Q, vocabulary]`, never at all of the tokens.

    Args:
        queries: int64 `[B, Q]`, positions.
        inputs: `input_ids` `[B, T]` or `inputs_embeds` `[B, T, width]`.
    """
    hidden = model.base_model(use_cache=False, **inputs).last_hidden_state
    rows = torch.arange(len(queries), device=queries.device)[:, None]
    logits: Tensor = model.get_output_embeddings()(hidden[rows, queries])
    return logits


class _TaskTrainer(Trainer):
    """Its data set is the numbers of the steps: the examples are drawn when the length of the step is known."""

    account: TaskAccount
    make_batch: MakeBatch
    settings: TaskTraining
    noise: torch.Generator

    def compute_loss(
        self,
        model: PreTrainedModel,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        examples = self._draw(int(inputs["step"]))
        tokens, queries, answers = (
            torch.from_numpy(array).to(model.device) for array in (examples.tokens, examples.queries, examples.answers)
        )
        logits = answer_logits(model, queries, **self._inputs(model, tokens))
        loss = F.cross_entropy(logits.flatten(0, 1), answers.flatten())
        right = logits.detach().argmax(dim=-1) == answers
        self.account.take(loss.item(), right.float().mean().item(), tokens.numel())
        return loss

    def _draw(self, step: int) -> TokenExamples:
        length = self.account.curriculum.length
        # Of both numbers, so that no seed's training meets another's examples, nor those of a small number.
        seed = np.random.SeedSequence((self.settings.seed, step)).generate_state(1)[0]
        examples = self.make_batch(length, self.settings.sequences(length), int(seed))
        vocabulary, highest = self.model.config.vocab_size, examples.tokens.max()
        if highest >= vocabulary:
            raise ValueError(f"make_batch: expected tokens below the model's vocab_size {vocabulary}, got {highest}")
        return examples

    def _inputs(self, model: PreTrainedModel, tokens: Tensor) -> dict[str, Tensor]:
        sigma, normalised = self.settings.embedding_noise, self.settings.normalised_embeddings
        if not sigma and not normalised:
            return {"input_ids": tokens}
        return {"inputs_embeds": embed(model, tokens, normalised=normalised, sigma=sigma, generator=self.noise)}


def _trainer(
    model: PreTrainedModel, make_batch: MakeBatch, settings: TaskTraining, account: TaskAccount, folder: Path
) -> Trainer:
    trainer = _TaskTrainer(
        model=model,
        args=arguments(
            folder,
            model.device,
            max_steps=settings.max_steps,
            per_device_train_batch_size=1,
            max_grad_norm=settings.max_grad_norm,
            seed=settings.seed,
            save_strategy="no",
        ),
        train_dataset=[{"step": step} for step in range(settings.max_steps)],
        optimizers=adamw(
            model,
            settings.learning_rate,
            settings.learning_rate_factor,
            weight_decay=settings.weight_decay,
            betas=settings.betas,
        ),
        callbacks=[account],
    )
    trainer.account, trainer.make_batch, trainer.settings = account, make_batch, settings
    trainer.noise = torch.Generator().manual_seed(settings.seed)
    trainer.remove_callback(PrinterCallback)
    return trainer

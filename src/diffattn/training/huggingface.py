"""The Trainer, set up so that nothing in it depends on the model's attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging import CRITICAL, getLogger
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel, Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from diffattn.training.loss import next_token_loss
from diffattn.training.order import OrderedBlocks
from diffattn.training.settings import TrainingSettings

__all__ = ["adamw", "arguments", "make_trainer", "quiet"]


class _Trainer(Trainer):
    """Takes the loss from hidden states, see `loss`, and knows no attention but through the model's own forward."""

    dtype = "float32"

    def compute_loss(
        self,
        model: PreTrainedModel,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """The mean over the tokens of a step, all its forwards together, where the Trainer has counted them."""
        tokens = inputs["input_ids"]
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=self.dtype == "bfloat16"):
            hidden = model.base_model(input_ids=tokens, use_cache=False).last_hidden_state
            return next_token_loss(hidden, model.get_output_embeddings().weight, tokens, num_items_in_batch)


def make_trainer(model: PreTrainedModel, examples: OrderedBlocks, settings: TrainingSettings, folder: Path) -> Trainer:
    if settings.gradient_checkpointing:
        # The older name warns in newer releases, the newer one is missing in older ones.
        getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    trainer = _Trainer(
        model=model,
        args=arguments(
            folder,
            model.device,
            max_steps=settings.steps,
            per_device_train_batch_size=settings.batch_size,
            gradient_accumulation_steps=settings.gradient_accumulation,
            max_grad_norm=settings.max_grad_norm,
            seed=settings.seed,
            save_strategy="steps",
            save_steps=settings.save_steps,
            # The one before stays until the newest is marked as complete.
            save_total_limit=2,
        ),
        train_dataset=examples,
        optimizers=adamw(
            model,
            settings.learning_rate,
            settings.learning_rate_factor,
            weight_decay=settings.weight_decay,
            betas=(settings.beta1, settings.beta2),
        ),
    )
    trainer.dtype = settings.dtype
    trainer.remove_callback(PrinterCallback)
    return trainer


def arguments(folder: Path, device: torch.device, *, seed: int, **changes: Any) -> TrainingArguments:
    """Arguments of a Trainer that logs when told to, reports to no one and reads its examples in their order.

    Args:
        folder: for checkpoints.
        device: where the model lies.
        seed: of the Trainer and of its data.
        changes: further fields of `transformers.TrainingArguments`.
    """
    made = TrainingArguments(
        output_dir=str(folder),
        seed=seed,
        data_seed=seed,
        train_sampling_strategy="sequential",
        logging_strategy="no",
        # A loss that is not finite is what the log is there to show.
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
        use_cpu=device.type == "cpu",
        dataloader_num_workers=0,
        dataloader_pin_memory=device.type == "cuda",
        remove_unused_columns=False,
        **changes,
    )
    if device.type == "cuda":
        # With several GPUs the Trainer would split each batch among them: here one GPU trains one model.
        made._n_gpu = 1
    return made


def adamw(
    model: nn.Module,
    learning_rate: float,
    factor: Callable[[int], float],
    *,
    weight_decay: float,
    betas: tuple[float, float],
) -> tuple[AdamW, LambdaLR]:
    """AdamW and its schedule, `factor(step)` of `learning_rate`; vectors (norms, V1's lambda) have no weight decay."""
    # V1's lambda vectors are vectors also where each head has its own and they stand in one matrix.
    matrices = {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.ndim >= 2 and not name.rpartition(".")[2].startswith("lambda_")
    }
    vectors = [parameter for name, parameter in model.named_parameters() if name not in matrices]
    groups = [{"params": [*matrices.values()], "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = AdamW(groups, lr=learning_rate, betas=betas, fused=True)
    return optimizer, LambdaLR(optimizer, factor)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep back Transformers' bars, what it warns of on resuming (tied weights that are rightly in no file), and what
    the hub's client says of each attempt to reach it.
    """
    logging, hub = transformers.logging, getLogger("huggingface_hub")
    verbosity, bars, hub_level = logging.get_verbosity(), logging.is_progress_bar_enabled(), hub.level
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    hub.setLevel(CRITICAL)
    try:
        yield
    finally:
        hub.setLevel(hub_level)
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()

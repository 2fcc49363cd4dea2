"""Tasks of EleutherAI's lm-evaluation-harness, and ours as it runs them, on any Hugging Face causal model."""

from __future__ import annotations

import difflib
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from diffattn.data.progress import delayed_progress
from diffattn.errors import UserError
from diffattn.evaluation._setting import mode, require_positive
from diffattn.evaluation.finite_weights import check_weights
from diffattn.evaluation.harness_quiet import quiet_harness
from diffattn.storage import read_json, to_json, write_json
from diffattn.tasks import check_fits, number_tokens
from diffattn.tasks.harness import FOLDER, PREFIX

__all__ = ["HarnessConfig", "check_installed", "measure"]

#: The harness draws 100,000, in processes of their own; a standard error needs no more than this.
_BOOTSTRAPS = 1000
_KEPT = ("results", "groups", "group_subtasks", "versions", "n-shot", "n-samples", "higher_is_better")


@dataclass(frozen=True, kw_only=True)
class HarnessConfig:
    """What to run.

    Attributes:
        tasks: names of the harness's tasks, groups or tags, and of our text tasks, with "diffattn_" before them or not.
        limit: only so many documents of each task; None for all.
        num_fewshot: examples before each question; None for each task's own number.
        batch_size: requests at once.
        seed: of all that is drawn: examples before the questions, our tasks' facts.
        lengths: tokens of a prompt of our tasks, in the model's own tokenizer.
        examples: prompts of our tasks for each length.
        haystack: a text to hide the facts of our tasks in, where they can be; None for each task's own haystack.
    """

    tasks: tuple[str, ...]
    limit: int | None = None
    num_fewshot: int | None = None
    batch_size: int = 8
    seed: int = 0
    lengths: tuple[int, ...] = (1024,)
    examples: int = 100
    haystack: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_positive(self, "batch_size", "examples")
        if not self.tasks:
            raise ValueError("HarnessConfig: tasks must name one or more")
        if self.limit is not None:
            require_positive(self, "limit")
        if self.num_fewshot is not None and self.num_fewshot < 0:
            raise ValueError(f"HarnessConfig: num_fewshot must not be negative, not {self.num_fewshot}")
        if min(self.lengths, default=0) < 1:
            raise ValueError(f"HarnessConfig: lengths must be positive, not {self.lengths}")


def check_installed() -> None:
    """Raise a UserError where the harness is missing."""
    if find_spec("lm_eval") is None:
        raise UserError("lm_eval is not installed: pip install 'diffattn[eval]'")


def measure(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, config: HarnessConfig, *, progress: bool = False
) -> dict[str, Any]:
    """Run the tasks. The network is asked for nothing but the data of those of the harness's tasks that have it there.

    Args:
        model: a causal language model, on any device; its mode is put back afterwards.
        tokenizer: the model's own, a fast one; it may get a token for padding.
        config: which tasks and how.
        progress: show bars on standard error where they take longer than two seconds.

    Returns:
        As JSON has it, what the harness says (`results`, `versions`, `n-shot`, `n-samples`, `higher_is_better`, and
        `groups` where there are any), `lm_eval_version`, `config` (of a haystack its characters), `cut`, for each task
        how many of its requests were longer than the model's context and lost their start, and `notes`, sentences.

    Raises:
        UserError: the harness is not installed, a task is not known, cannot be had or does not suit the model, or the
            model diverged.
    """
    check_installed()
    check_weights(model)
    with mode(model, training=False), quiet_harness() as wanted_code, tempfile.TemporaryDirectory() as scratch:
        return _run(model, tokenizer, config, Path(scratch), wanted_code, progress)


def _run(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    config: HarnessConfig,
    scratch: Path,
    wanted_code: list[str],
    progress: bool,
) -> dict[str, Any]:
    from lm_eval import simple_evaluate

    from diffattn.evaluation.harness_model import HarnessModel

    if tokenizer.eos_token_id is None:
        raise UserError("the tokenizer has no token for the end of a text (eos_token), which the harness needs")
    with delayed_progress("Reading the tasks", None, enabled=progress):
        manager = _manager(config, _metadata(config, tokenizer, scratch))
        names = _names(manager, config.tasks)
        tasks = [task for name in names for task in _load(manager, name, wanted_code)]
    wrapped = HarnessModel(model, tokenizer, config.batch_size, progress=progress)
    _check_lengths(tasks, wrapped.max_length)
    seeds = ("random_seed", "numpy_random_seed", "torch_random_seed", "fewshot_random_seed")
    found = simple_evaluate(
        wrapped,
        tasks=tasks,
        num_fewshot=config.num_fewshot,
        batch_size=config.batch_size,
        limit=config.limit,
        bootstrap_iters=_BOOTSTRAPS,
        log_samples=False,
        task_manager=manager,
        **dict.fromkeys(seeds, config.seed),
    )
    return _report(found, config, wrapped.cut, _notes(tasks, tokenizer))


def _report(found: dict[str, Any], config: HarnessConfig, cut: Counter[str], notes: list[str]) -> dict[str, Any]:
    """Of what the harness found that which JSON has, and of the haystack its size."""
    kept = {name: found[name] for name in _KEPT if name in found}
    told = {**asdict(config), "haystack": None if config.haystack is None else len(config.haystack)}
    about = {"lm_eval_version": version("lm_eval"), "config": told, "cut": +cut, "notes": notes}
    return json.loads(to_json({**kept, **about}))


def _saved(tokenizer: PreTrainedTokenizerBase, folder: Path) -> str:
    """A folder for tasks that load a tokenizer by name, some of them with whatever code it names: it names none."""
    tokenizer.save_pretrained(folder)
    settings = read_json(folder / "tokenizer_config.json")
    settings.pop("auto_map", None)
    write_json(folder / "tokenizer_config.json", settings)
    return str(folder)


def _metadata(config: HarnessConfig, tokenizer: PreTrainedTokenizerBase, folder: Path) -> dict[str, Any]:
    """What tasks that make their own data are told; see `diffattn.tasks.harness`. RULER's are among them."""
    told = {"max_seq_lengths": list(config.lengths), "examples": config.examples, "seed": config.seed}
    if config.haystack is not None:
        (folder / "haystack.txt").write_text(config.haystack, encoding="utf-8")
        told["haystack_text"] = str(folder / "haystack.txt")
    return {**told, "tokenizer": _saved(tokenizer, folder)}


def _manager(config: HarnessConfig, metadata: dict[str, Any]) -> Any:
    """The index of all tasks; of ours alone, which takes no time, where no others are asked for."""
    from lm_eval.tasks import TaskManager

    ours = TaskManager(include_path=str(FOLDER), include_defaults=False, metadata=metadata)
    if all(_known(ours, name) for name in config.tasks):
        return ours
    return TaskManager(include_path=str(FOLDER), metadata=metadata)


def _known(manager: Any, name: str) -> str | None:
    """The name in full; ours go before others of the same name."""
    return next((full for full in (PREFIX + name, name) if full in manager.task_index), None)


def _names(manager: Any, wanted: Sequence[str]) -> list[str]:
    names = []
    for name in dict.fromkeys(wanted):
        full = _known(manager, name)
        if full is None:
            known = [*manager.all_tasks, *(one.removeprefix(PREFIX) for one in manager.all_tasks)]
            near = list(dict.fromkeys(difflib.get_close_matches(name, known, n=5)))
            hint = f"did you mean {', '.join(near)}?" if near else "`lm_eval ls tasks` lists the harness's"
            raise UserError(f"there is no task {name!r}: {hint}")
        names.append(full)
    return names


def _load(manager: Any, name: str, wanted_code: list[str]) -> list[Any]:
    """A task, a group, or the tasks of a tag."""
    try:
        found = manager.load([name])
    except UserError:
        raise
    except ModuleNotFoundError as error:
        raise UserError(f"the task {name} needs {error.name}: install it, or leave the task out") from error
    except Exception as error:
        if name.startswith(PREFIX):
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"the task {name} cannot be had ({reason}): is its data on the network?") from error
    if wanted_code:
        raise UserError(f"the task {name} wants the code of {wanted_code[0]} from the hub, which is never run here")
    return [found["groups"][name]] if name in found.get("groups", {}) else list(found["tasks"].values())


def _ours(tasks: Sequence[Any]) -> list[Any]:
    """Those of ours among tasks and groups."""
    return [task for task in tasks if getattr(task, "task_name", "").startswith(PREFIX)]


def _check_lengths(tasks: Sequence[Any], longest: int) -> None:
    """Refuse prompts of ours that would lose their start, and with it perhaps the answer."""
    for task in _ours(tasks):
        check_fits(max(doc["length"] + doc["max_new_tokens"] for doc in task.eval_docs), longest)


def _notes(tasks: Sequence[Any], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Where the tokenizer takes a part in what a task of ours measures."""
    notes = []
    for task in _ours(tasks):
        answers = {answer for doc in task.eval_docs for answer in doc["answers"] if answer.isdecimal()}
        if answers:
            found = number_tokens(lambda text: tokenizer(text)["input_ids"], tokenizer.decode, sorted(answers))
            notes += [f"{task.task_name}: {found.problem}"] if found.problem else []
    return notes

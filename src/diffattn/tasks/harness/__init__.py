"""The text tasks as task files of EleutherAI's lm-evaluation-harness (0.4.13 and later).

With its own command, for any model that it knows:

    lm_eval --model hf --model_args pretrained=MODEL --tasks diffattn_needle \\
        --include_path "$(python -c 'from diffattn.tasks.harness import FOLDER; print(FOLDER)')" \\
        --metadata '{"max_seq_lengths": [1024, 4096], "examples": 50}'

`--tasks diffattn` runs all of them. The metadata that they read: `max_seq_lengths`, tokens of a prompt in the model's
own tokenizer; `examples` for each length and depth; `depths`, 0 to 1, of the asked fact; `seed`; `haystack_text`, the
path of a text to hide the facts in, without which RULER's tasks of that kind cannot be made. A model of this package
has to be known to the harness first: its command is `diffattn evaluate MODEL --tasks needle`.
"""

from pathlib import Path

__all__ = ["FOLDER", "PREFIX"]

#: Where the task files are: what `--include_path` takes.
FOLDER = Path(__file__).parent

#: A task file's name is this, and the text task's.
PREFIX = "diffattn_"

"""Questions of known answers in place of the text tasks', and a model that answers as it is told to."""

from __future__ import annotations

import copy

import torch
from transformers import LlamaForCausalLM

import diffattn.tasks
from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM
from diffattn.tasks import TextExample


def plant(monkeypatch, *, answerable=None, prompt="the dog {index} sat on {index}"):
    """Let every text task give these prompts; example i asks for the answer 100 + i, and 200 + i is false."""
    fits = answerable or (lambda _: True)

    def make_texts(name, count, *, length, depth, examples, seed, haystack):
        return [
            TextExample(
                prompt=prompt.format(index=index),
                answers=(str(100 + index),) if fits(index) else ("NONE",),
                spans=(),
                false_answers=(str(200 + index),),
                length=count(prompt.format(index=index)),
                answerable=fits(index),
                max_new_tokens=5 + index,
            )
            for index in range(examples)
        ]

    monkeypatch.setattr(diffattn.tasks, "make_texts", make_texts)


def answering(model, tokenizer, replies):
    """The model, but that it goes on with `replies[prompt]`."""

    def generate(input_ids, **given):
        prompts = tokenizer.batch_decode(input_ids, skip_special_tokens=True)
        tokens = tokenizer([replies[prompt] for prompt in prompts], add_special_tokens=False)["input_ids"]
        width = max(map(len, tokens))
        padded = [row + [tokenizer.pad_token_id] * (width - len(row)) for row in tokens]
        return torch.cat([input_ids, torch.tensor(padded)], dim=1)

    model.generate = generate
    return model


def build(model, variant):
    """A new model of the sizes of a Llama, with as many key/value heads as heads."""
    torch.manual_seed(1)
    config = copy.deepcopy(model.config)
    config.num_key_value_heads = 2
    if variant == "softmax":
        return LlamaForCausalLM(config).eval()
    return DiffTransformerForCausalLM(DiffTransformerConfig.from_baseline(config, variant)).eval()

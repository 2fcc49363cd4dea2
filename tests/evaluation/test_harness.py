from __future__ import annotations

import json
import logging
import math
from itertools import product

import pytest
import torch

from diffattn.errors import UserError
from diffattn.evaluation import harness
from diffattn.evaluation.harness import HarnessConfig, measure
from diffattn.tasks import TASKS
from questions import answering, build, plant

needs_harness = pytest.mark.skipif(
    harness.find_spec("lm_eval") is None, reason="lm_eval is not installed: pip install 'diffattn[eval]'"
)


def ask(model, data, **changes):
    return measure(model, data.tokenizer, HarnessConfig(**{"tasks": ("needle",), "examples": 4, **changes}))


@needs_harness
def test_planted_answers_give_the_exact_scores(model, data, monkeypatch, tmp_path, capfd):
    monkeypatch.chdir(tmp_path)  # git is not asked for a commit, and so cannot complain that there is none
    plant(monkeypatch, answerable=lambda index: index < 3)
    said = ["it is 100", "101", "1020 or 202", "203"]
    replies = {f"the dog {index} sat on {index}": text for index, text in enumerate(said)}
    found = ask(answering(build(model, "v2"), data.tokenizer, replies), data, lengths=(64, 32))
    scores = found["results"]["diffattn_needle"]
    expected = {"found": 2 / 3, "fabrication": 1.0, "false_citation": 2 / 4}
    for (name, value), suffix in product(expected.items(), ("", "_32", "_64")):
        assert scores[f"{name}{suffix},none"] == pytest.approx(value)
    # Three right and wrong answers: the variance with n - 1 is 1/3, over n = 3; with both lengths 4/15 over 6.
    assert scores["found_32_stderr,none"] == pytest.approx(1 / 3)
    assert scores["found_stderr,none"] == pytest.approx(math.sqrt(4 / 15 / 6))
    assert found["n-samples"] == {"diffattn_needle": {"original": 8, "effective": 8}}
    assert found["higher_is_better"]["diffattn_needle"]["fabrication"] is False
    assert found["notes"] == []
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert capfd.readouterr() == ("", "")


@needs_harness
def test_the_prompt_is_given_as_it_is_and_answers_get_the_tokens_they_need(model, data, monkeypatch):
    seen = []

    def generate(input_ids, max_length, **given):
        seen.append((data.tokenizer.decode(input_ids[0]), max_length - input_ids.shape[1], given["do_sample"]))
        return input_ids

    plant(monkeypatch, prompt=" a\n{index}: ")
    monkeypatch.setattr(model, "generate", generate)
    ask(model, data, examples=2, batch_size=1)
    assert sorted(seen) == [("<|endoftext|> a\n0: ", 6, False), ("<|endoftext|> a\n1: ", 6, False)]


@needs_harness
def test_a_task_of_choices_from_a_file(model, data, tmp_path, monkeypatch):
    """One of the harness's own kind: the choice is right where our own log-likelihoods say so."""
    rows = [{"q": f"the {noun}", "choices": [" sat", " zyzzyva", " and the dog"], "gold": 0} for noun in ("cat", "mat")]
    (tmp_path / "rows.json").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "own.yaml").write_text(
        f"task: own_choices\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: {tmp_path / 'rows.json'}\n"
        "  cache_dir: " + str(tmp_path / "cache") + "\n"
        "test_split: test\noutput_type: multiple_choice\ntarget_delimiter: ''\n"
        "doc_to_text: '{{q}}'\ndoc_to_choice: '{{choices}}'\ndoc_to_target: gold\n"
        "metric_list:\n  - metric: acc\n    aggregation: mean\n    higher_is_better: true\nmetadata:\n  version: 3\n"
    )
    monkeypatch.setattr(harness, "FOLDER", tmp_path)
    built = build(model, "v1")
    right = []
    for row in rows:
        scores = [nll(built, data.tokenizer, row["q"], choice) for choice in row["choices"]]
        right.append(min(range(3), key=scores.__getitem__) == row["gold"])
    found = ask(built, data, tasks=("own_choices",), limit=2)
    assert found["results"]["own_choices"]["acc,none"] == pytest.approx(sum(right) / 2)
    assert (found["versions"], found["cut"]) == ({"own_choices": 3}, {})


def nll(model, tokenizer, context, continuation):
    before = len(tokenizer(context)["input_ids"])
    tokens = torch.tensor([tokenizer(context + continuation)["input_ids"]])
    with torch.inference_mode():
        scores = model(tokens).logits[0, :-1].double().log_softmax(-1)
    return -scores.gather(1, tokens[0, 1:, None])[before - 1 :].sum().item()


@needs_harness
def test_the_tag_of_all_of_ours_and_a_task_twice(model, data, monkeypatch):
    plant(monkeypatch)
    monkeypatch.setattr(model, "generate", lambda input_ids, **_: input_ids)
    found = ask(model, data, tasks=("diffattn", "needle"), limit=1, haystack="Storks are birds. ")
    assert found["config"]["haystack"] == 18
    assert set(found["results"]) == {f"diffattn_{name}" for name, task in TASKS.items() if task.texts}


@needs_harness
def test_our_prompts_are_never_cut(model, data, monkeypatch):
    plant(monkeypatch, prompt="the dog " * 40 + "{index}")
    with pytest.raises(UserError, match=r"the task takes \d+ tokens and the model's context holds 64"):
        ask(model, data)


@needs_harness
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nedle", r"did you mean .*\bneedle\b.*\?"),
        ("diffattn_nedle", r"did you mean .*\bdiffattn_needle\b.*\?"),
        ("@", "`lm_eval ls tasks` lists"),
    ],
)
def test_unknown_tasks_list_what_is_near(name, hint, model, data, monkeypatch):
    import lm_eval.tasks

    # The index of all of the harness's tasks takes ten seconds.
    every = lm_eval.tasks.TaskManager
    monkeypatch.setattr(lm_eval.tasks, "TaskManager", lambda **given: every(**{**given, "include_defaults": False}))
    with pytest.raises(UserError, match=f"there is no task '{name}': {hint}") as caught:
        ask(model, data, tasks=("needle", name))
    assert "\n" not in str(caught.value)


class Manager:
    def __init__(self, raised):
        self.raised = raised

    def load(self, names):
        raise self.raised


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (ModuleNotFoundError("No module named 'bar'", name="bar"), "the task wiki needs bar: install it"),
        (ConnectionError("no way\nto the hub"), r"the task wiki cannot be had \(no way\): is its data on the network"),
        (KeyError(), r"the task wiki cannot be had \(KeyError\)"),
        (UserError("name a tokenizer"), "^name a tokenizer$"),
    ],
)
def test_tasks_that_cannot_be_had(raised, message):
    with pytest.raises(UserError, match=message) as caught:
        harness._load(Manager(raised), "wiki", [])
    assert "\n" not in str(caught.value)


def test_an_error_in_a_task_of_ours_is_not_taken_for_the_networks():
    with pytest.raises(KeyError):
        harness._load(Manager(KeyError("prompt")), "diffattn_needle", [])


@needs_harness
def test_a_tokenizer_without_an_end_of_text(model, data):
    tokenizer = type(data.tokenizer)(tokenizer_object=data.tokenizer.backend_tokenizer)
    with pytest.raises(UserError, match="no token for the end of a text"):
        measure(model, tokenizer, HarnessConfig(tasks=("needle",)))


@needs_harness
def test_code_that_a_tokenizer_names_is_not_passed_on(data, tmp_path):
    data.tokenizer.init_kwargs["auto_map"] = {"AutoTokenizer": ["own.Tokenizer", None]}
    try:
        harness._saved(data.tokenizer, tmp_path)
    finally:
        del data.tokenizer.init_kwargs["auto_map"]
    assert "auto_map" not in (tmp_path / "tokenizer_config.json").read_text()


@needs_harness
def test_everything_is_put_back():
    import evaluate
    from tqdm import tqdm

    from diffattn.evaluation.harness_quiet import quiet_harness

    def state():
        return tqdm.__init__, evaluate.load, logging.getLogger("lm_eval").level

    before = state()
    with quiet_harness() as wanted:
        assert all(one != other for one, other in zip(state(), before, strict=True))
        assert tqdm(range(3), disable=False).disable
        with pytest.raises(RuntimeError, match="not fetched"):
            evaluate.load("code_eval")
    assert wanted == ["code_eval"]
    assert state() == before
    with pytest.raises(KeyError), quiet_harness():
        raise KeyError
    assert state() == before


@needs_harness
def test_code_of_a_metric_is_not_fetched():
    class Fetching:
        def load(self, names):
            return {"tasks": {}}

    with pytest.raises(UserError, match="wants the code of code_eval from the hub, which is never run here"):
        harness._load(Fetching(), "humaneval", ["code_eval"])


def test_without_the_harness(model, data, monkeypatch):
    monkeypatch.setattr(harness, "find_spec", {}.get)
    with pytest.raises(UserError, match=r"pip install 'diffattn\[eval\]'"):
        ask(model, data)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": ()}, "tasks"),
        ({"batch_size": 0}, "batch_size"),
        ({"limit": 0}, "limit"),
        ({"num_fewshot": -1}, "num_fewshot"),
        ({"lengths": ()}, "lengths"),
        ({"lengths": (8, 0)}, "lengths"),
        ({"examples": 0}, "examples"),
    ],
)
def test_bad_configurations(changes, message):
    with pytest.raises(ValueError, match=f"HarnessConfig: {message}"):
        HarnessConfig(**{"tasks": ("needle",), **changes})


@needs_harness
def test_a_model_that_diverged_is_asked_nothing(model, data):
    broken = build(model, "v2")
    with torch.no_grad():
        next(broken.parameters())[0, 0] = math.inf
    with pytest.raises(UserError, match="the model diverged: 1 of its weights are NaN or infinite"):
        ask(broken, data)

"""A study's folder: the protocol before any run, one request only, and the same call going on."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from diffattn.errors import UserError
from diffattn.experiments.studies import jobs, language, needle, scale, text_job
from diffattn.experiments.studies.stored import stored_request
from diffattn.experiments.studies.study import STUDIES, StudyRequest, choose, run_study
from diffattn.storage import read_json
from tiny import write_corpus
from tiny_studies import study_request

LEAST = {"rates": (1e-2,), "seeds": 1, "variants": ("softmax", "v1")}


def test_the_protocol_is_there_before_the_first_run_and_the_call_goes_on(corpus_folder, tmp_path, monkeypatch):
    folder, asked = tmp_path / "out", study_request("language", corpus_folder, **LEAST)
    seen, real = [], text_job.run

    def stopped(arguments, place):
        seen.append((read_json(folder / "protocol.json"), arguments["variant"]))
        if len(seen) == 2:
            raise RuntimeError("the power went")
        return real(arguments, place)

    monkeypatch.setattr(text_job, "run", stopped)
    with pytest.raises(RuntimeError, match="power"):
        run_study(asked, folder, command="first", progress=False)
    stored = seen[0][0]["protocol"]
    assert [one["name"] for one in stored["hypotheses"]][:1] == ["v1 at equal tokens"]
    assert "1 seed of each, fixed beforehand" in stored["stopping_rule"]
    assert stored["written"].endswith("Z")
    assert not (folder / "results.json").exists()
    results = run_study(asked, folder, command="second", progress=False)
    assert [variant for _, variant in seen] == ["softmax", "v1", "v1"]
    assert results["protocol"] == stored
    assert results["seconds"] > 0


def test_done_again_it_only_concludes(finished, corpus_folder, monkeypatch):
    folder, results = finished("language")
    monkeypatch.delattr(jobs, "_do")
    monkeypatch.setattr(language, "_verdict", lambda *_: ["Another conclusion."])
    (folder / "report.html").unlink()
    again = run_study(study_request("language", corpus_folder), folder, command="later", progress=False)
    assert again["verdict"] == ["Another conclusion."]
    assert "Another conclusion." in (folder / "report.html").read_text()
    assert {key: value for key, value in again.items() if key != "verdict"} == {
        key: value for key, value in results.items() if key != "verdict"
    }


def test_another_request_is_refused(finished, corpus_folder):
    folder, _ = finished("needle")
    asked = study_request("needle", corpus_folder)
    longer = replace(asked.preset.training, lengths=(16, 32))
    for changed in (
        study_request("needle", corpus_folder, seeds=4),
        study_request("needle", corpus_folder, training=longer),
        study_request("stability", corpus_folder),
    ):
        with pytest.raises(UserError, match="holds another run"):
            run_study(changed, folder, command="", progress=False)


def test_another_corpus_or_strange_files_are_refused(tmp_path, monkeypatch):
    corpus = write_corpus(tmp_path / "words")
    asked = study_request("language", corpus, **LEAST)
    monkeypatch.setattr(language, "collect", lambda *_: pytest.fail("was run"))
    with pytest.raises(pytest.fail.Exception):
        run_study(asked, tmp_path / "out", command="", progress=False)
    (corpus / "train.txt").write_text("one two three\n" * 500)
    with pytest.raises(UserError, match="corpus has changed"):
        run_study(asked, tmp_path / "out", command="", progress=False)
    shutil.rmtree(tmp_path / "out" / "data")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(UserError, match="not empty"):
        run_study(asked, tmp_path / "mine", command="", progress=False)


@pytest.mark.parametrize(
    ("study", "preset", "changes", "words"),
    [
        ("nothing", "default", {}, "there is no study 'nothing': use needle, language, stability, lambda, scale"),
        ("needle", "huge", {}, "there is no preset 'huge' of needle: use default or large"),
        ("lambda", "default", {"variants": ("v1",)}, "the study lambda takes no --variants"),
        ("needle", "default", {"seeds": 0}, "seeds must be at least 1"),
        ("language", "default", {"seeds": 0}, "seeds must be at least 1, got 0"),
        ("stability", "default", {"rates": (0.0,)}, "different numbers above 0, got 0"),
        ("needle", "default", {"rates": (1e-3, 1e-3)}, "different numbers above 0"),
        ("language", "default", {"rates": (float("nan"),)}, "got nan"),
        ("language", "default", {"variants": ("softmax", "v2")}, "variants must hold wide"),
        ("needle", "default", {"variants": ("v2",)}, "variants must hold softmax"),
        ("stability", "default", {"variants": ("v9",)}, "there is no variant 'v9'"),
        ("scale", "default", {"variants": ("v9",)}, "there is no variant 'v9'"),
        ("scale", "default", {"variants": ("wide", "v2")}, "variants must not hold softmax or wide"),
        ("stability", "default", {"variants": ("v1", "v1")}, "named twice"),
    ],
)
def test_what_cannot_be_chosen(study, preset, changes, words):
    with pytest.raises(UserError) as caught:
        choose(study, preset, None, **changes)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_chosen():
    asked = choose("needle", "default", None, seeds=7, variants=None)
    assert asked.preset == replace(needle.PRESETS["default"], seeds=7)
    assert asked.folder_name == choose("needle", "default", None, seeds=7).folder_name
    assert asked.folder_name != choose("needle", "default", None).folder_name
    assert asked.folder_name.startswith("needle-default-")


def test_scale_compares_with_the_softmax_of_as_many_parameters():
    asked = choose("scale", "default", None, variants=("v1", "v2"))
    texts = [one["text"] for one in scale.protocol(asked.preset)["hypotheses"]]
    assert "V1, width 64 has a lower test loss than softmax, width 64" in texts[0]
    assert "V2, width 64 has a lower test loss than wide softmax, width 64" in texts[3]


@pytest.mark.parametrize("preset", ["default", "large"])
@pytest.mark.parametrize("study", STUDIES)
def test_a_request_comes_back_from_its_results(study, preset):
    asked = choose(study, preset, "stdlib", seeds=2)
    assert stored_request({"request": asked.to_dict()}) == StudyRequest(study=study, preset=asked.preset)
    changed = asked.to_dict()
    changed["preset"]["colour"] = "red"
    with pytest.raises(UserError, match=r"another version of diffattn, whose studies differ.*colour"):
        stored_request({"request": changed})

"""JSON files: whole or absent, and readable by everyone."""

from __future__ import annotations

import json

import pytest

from diffattn.errors import UserError
from diffattn.storage import make_folder, read_json, to_json, write_json


def test_round_trip_and_no_leftovers(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"x": [1, 2.5, None]})
    write_json(path, {"x": (3,)})
    assert read_json(path) == {"x": [3]}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_numbers_that_json_lacks_become_null():
    assert json.loads(to_json({"a": float("nan"), "b": [float("inf")]})) == {"a": None, "b": [None]}


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, 1)
    with pytest.raises(TypeError):
        write_json(path, {"x": object()})
    assert read_json(path) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_missing_file_is_none_and_a_damaged_one_is_named(tmp_path):
    path = tmp_path / "a.json"
    assert read_json(path) is None
    path.write_text("{")
    with pytest.raises(UserError, match=r"a\.json is damaged.*delete it"):
        read_json(path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file"):
        make_folder(tmp_path / "file" / "below")

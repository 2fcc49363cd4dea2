"""JSON files: whole or absent, and readable by everyone."""

from __future__ import annotations

import json
import os
import threading

import pytest

from diffattn.errors import UserError
from diffattn.storage import make_folder, read_json, to_json, write_json, write_text


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


def test_a_link_keeps_pointing_where_it_points(tmp_path):
    (tmp_path / "target.json").write_text("old")
    (tmp_path / "link.json").symlink_to("target.json")
    write_json(tmp_path / "link.json", 1)
    assert (tmp_path / "link.json").is_symlink()
    assert read_json(tmp_path / "target.json") == 1


def test_a_pipe_is_written_into_and_stays_a_pipe(tmp_path):
    pipe, heard = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "said")
    reader.join(timeout=30)
    assert heard == ["said"]
    assert pipe.is_fifo()

"""The lesson as a command and as a script with nothing installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import diffattn.lesson.main
from diffattn.cli.main import main as command_line
from diffattn.errors import UserError
from diffattn.lesson.main import main as script
from diffattn.lesson.pages import course
from diffattn.lesson.pages.course import part, teach

SCRIPT = Path(diffattn.lesson.main.__file__)
HEAVY = ("torch", "transformers", "numpy", "jinja2", "matplotlib", "scipy", "diffattn.report")


def bare(*arguments, **more):
    """The script by an interpreter that finds the standard library and nothing else."""
    return subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), *arguments], capture_output=True, text=True, timeout=120, **more
    )


def call(*arguments):
    with pytest.raises(SystemExit) as leave:
        command_line(["lesson", *arguments])
    return leave.value.code


def test_the_script_needs_nothing_installed():
    done = bare("2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.lstrip().startswith("Part 2. The operator from nothing")
    assert "Shows: " in done.stdout


def test_the_script_runs_from_any_folder_and_writes_the_page(tmp_path):
    done = bare("8", "--html", "lesson.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "wrote lesson.html\n"
    assert (tmp_path / "lesson.html").read_text().startswith("<!doctype html>")


def test_the_whole_lesson_imports_the_standard_library_alone(tmp_path):
    program = (
        "import sys\nfrom pathlib import Path\nsys.path.insert(0, sys.argv[1])\n"
        "from diffattn.lesson.pages.course import teach\n"
        "teach(show=lambda text: None)\nteach(4, html=Path(sys.argv[2]), show=lambda text: None)\n"
        "print(*{name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(SCRIPT.parents[2]), str(tmp_path / "lesson.html")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= {"__main__", "diffattn"}


def test_no_module_of_the_lesson_stands_for_one_of_the_standard_library():
    """Run by its path, the script has its own folder on the path, before the standard library."""
    names = {path.stem for path in SCRIPT.parent.glob("*.py")}
    assert not names & set(sys.stdlib_module_names)


def test_the_command_loads_nothing_heavy():
    program = (
        "import sys; from diffattn.cli.main import main\n"
        "try: main(['lesson', '7'])\nexcept SystemExit as leave: assert not leave.code\n"
        "print('modules', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    modules = set(done.stdout.rpartition("modules ")[2].split())
    assert not modules & set(HEAVY)
    assert "diffattn.lesson.parts.counting" in modules
    assert "diffattn.lesson.parts.sweep" not in modules


def test_the_command_and_the_script_say_the_same(capsys):
    assert call("7") == 0
    shown = capsys.readouterr().out
    assert script(["7"]) == 0
    assert capsys.readouterr().out == shown
    assert "541,065,216" in shown


def test_the_script_runs_without_isolation_too():
    done = subprocess.run([sys.executable, str(SCRIPT), "8"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Part 8. Grouped queries" in done.stdout


def test_answers_show_what_exercises_hide(capsys):
    assert call("6", "--exercise") == 0
    asked = capsys.readouterr().out
    assert call("6", "--answer") == 0
    answered = capsys.readouterr().out
    for one in part(6).exercises():
        assert one.question[:40] in asked
        assert one.question[:40] in answered
        assert one.answer[:40] in answered
        assert one.answer[:40] not in asked
    assert "Answer: " in answered
    assert "Answer: " not in asked


def test_without_a_number_exercises_of_all_parts(capsys):
    assert script(["--answer"]) == 0
    shown = capsys.readouterr().out
    assert all(f"Part {number}." in shown for number in range(1, 14))


@pytest.mark.parametrize("number", ["0", "14", "-1"])
def test_a_part_that_is_not_there(number, capsys):
    assert call("--", number) == 2
    assert capsys.readouterr().err == f"diffattn: there is no part {number}: name one from 1 to 13, or none for all\n"
    assert script(["--", number]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"lesson: there is no part {number}: name one from 1 to 13, or none for all\n"
    assert captured.out == ""


def test_a_page_that_cannot_be_written(tmp_path, capsys):
    for target in (tmp_path, tmp_path / "missing" / "page.html"):
        assert call("2", "--html", str(target)) == 2
        error = capsys.readouterr().err
        assert error.startswith("diffattn: the page ")
        assert error.count("\n") == 1
    done = bare("2", "--html", str(tmp_path / "missing" / "page.html"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("lesson: the page ")
    assert done.stderr.count("\n") == 1


def test_a_page_that_cannot_be_written_is_refused_before_any_work(tmp_path, monkeypatch):
    def unwanted(number):
        pytest.fail("computed in vain")

    monkeypatch.setattr(course, "part", unwanted)
    with pytest.raises(UserError, match="cannot be written"):
        teach(html=tmp_path / "missing" / "page.html")


def test_a_page_and_exercises_at_once_are_refused(tmp_path):
    with pytest.raises(UserError, match="leave out --exercise"):
        teach(1, html=tmp_path / "page.html", exercise=True)


@pytest.mark.parametrize("arguments", [["many"], ["--loud"], ["1", "2"]])
def test_a_wrong_command_line_is_one_line(arguments):
    done = bare(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("lesson: ")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_goes_away_is_no_traceback():
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(SCRIPT), "--answer"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    assert process.stderr.read() == ""
    process.stderr.close()


def test_ctrl_c_is_one_line(monkeypatch, capsys):
    def interrupted(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(diffattn.lesson.main, "teach", interrupted)
    assert script([]) == 130
    assert capsys.readouterr().err == "lesson: stopped\n"


def test_the_whole_lesson_has_a_beginning_and_an_end(monkeypatch):
    monkeypatch.setattr(course, "_MODULES", ("from_nothing", "grouped"))
    monkeypatch.setattr(course, "LAST", 2)
    shown: list[str] = []
    teach(show=shown.append)
    assert "a lesson" in shown[0].splitlines()[0]
    assert "What comes next" in shown[-1]
    assert "Exercises: diffattn lesson 2 --exercise." in "".join(shown)
    shown.clear()
    teach(1, show=shown.append)
    assert not any("What comes next" in text for text in shown)


def test_a_long_step_says_that_it_is_being_computed(monkeypatch, capsys):
    import time

    monkeypatch.setattr(course, "PATIENCE", 0.01)
    said, deadline = "", time.monotonic() + 30
    with course._working("part 5, step 1"):
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)
            said = capsys.readouterr().err
    assert said == "working on part 5, step 1\n"
    monkeypatch.setattr(course, "PATIENCE", 60)
    with course._working("part 5, step 1"):
        pass
    assert capsys.readouterr().err == ""

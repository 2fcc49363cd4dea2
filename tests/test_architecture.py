"""Who may import whom, and what an import costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import diffattn

SOURCE = Path(diffattn.__file__).parent

# Each room and the rooms of this package that it may import.
MAY_IMPORT = {
    "errors": set(),
    "storage": {"errors"},
    "planning": {"errors"},
    "lesson": {"planning", "errors", "storage"},
    "ops": {"errors"},
    "nn": {"ops", "errors"},
    "models": {"nn", "ops", "planning", "errors"},
    "data": {"storage", "errors"},
    "report": {"storage", "errors"},
    "tasks": {"errors"},
    "training": {"models", "nn", "ops", "data", "tasks", "storage", "errors"},
    "evaluation": {"models", "nn", "ops", "data", "tasks", "planning", "storage", "errors"},
}
MAY_IMPORT["experiments"] = {*MAY_IMPORT} - {"lesson"}
MAY_IMPORT["cli"] = {*MAY_IMPORT, "cli"}


def imports(path: Path) -> set[str]:
    """Rooms of the package that a file imports, at any depth of its code."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module or ""]
            if node.module == "diffattn":
                names = [diffattn._HOME.get(alias.name, f"diffattn.{alias.name}") for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("diffattn.")}
    return rooms


def rooms_on_disk():
    return sorted(p.name for p in SOURCE.iterdir() if p.is_dir() and any(p.glob("*.py")))


@pytest.mark.parametrize("room", rooms_on_disk())
def test_imports_flow_one_way(room):
    for path in (SOURCE / room).rglob("*.py"):
        extra = imports(path) - MAY_IMPORT[room] - {room, "__version__"}
        assert not extra, f"{path.relative_to(SOURCE)} imports {sorted(extra)}"


def test_backends_never_import_one_another():
    for path in (SOURCE / "ops" / "backends").glob("*.py"):
        assert "diffattn.ops.backends" not in path.read_text()


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_the_operator_and_the_layers_need_torch_alone():
    others = ("transformers", "numpy", "scipy", "accelerate", "datasets", "tokenizers", "typer", "rich", "matplotlib")
    blocked = f"import sys\nfor name in {others!r}: sys.modules[name] = None\n"
    result = run(blocked + "import diffattn\nx = diffattn.diff_attention, diffattn.DiffAttentionV1, diffattn.UserError")
    assert result.returncode == 0, result.stderr


def test_importing_the_package_imports_nothing_else():
    result = run("import sys, diffattn; assert 'torch' not in sys.modules; assert 'DiffAttentionV2' in dir(diffattn)")
    assert result.returncode == 0, result.stderr


def test_every_public_name_exists_and_has_a_docstring():
    for name in diffattn.__all__:
        assert getattr(diffattn, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = diffattn.nothing


def test_no_pickle_and_no_remote_code():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        for word in ("import pickle", "trust_remote_code=True", "weights_only=False", "eval(" + "compile"):
            assert word not in text, f"{path}: {word}"

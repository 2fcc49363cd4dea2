"""The whole lesson, computed once."""

from __future__ import annotations

import pytest

from diffattn.lesson.pages.course import parts


@pytest.fixture(scope="session")
def made():
    """Every part with its steps and exercises."""
    return [(part, [step() for step in part.steps], part.exercises()) for part in parts()]


@pytest.fixture(scope="session")
def steps(made):
    """Every step by its heading."""
    return {step.heading: step for _, walked, _ in made for step in walked}

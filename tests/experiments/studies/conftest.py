from __future__ import annotations

import pytest

from diffattn.experiments.studies import lambdas
from diffattn.experiments.studies.study import run_study
from tiny_studies import study_request


@pytest.fixture(scope="session")
def finished(corpus_folder, tmp_path_factory):
    """A study's folder and results at the tiniest size, run once a session."""
    known = {}

    def run(name):
        if name not in known:
            folder = tmp_path_factory.mktemp("studies") / name
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(lambdas, "ARMS", {arm: lambdas.ARMS[arm] for arm in FEW_ARMS})
                asked = study_request(name, corpus_folder)
                known[name] = folder, run_study(asked, folder, command=f"diffattn {name}", progress=False)
        return known[name]

    return run


FEW_ARMS = ("V1 layer, schedule", "V1 fixed, 0.8", "V2 token", "V2 head")

# make compare   train three small language models on real text and say which is better
# make test      run the tests
# Both make .venv first where it is missing or older than pyproject.toml or constraints.txt.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
ARGS ?=

.PHONY: setup compare test lint types format clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@rm -f $(READY)
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing diffattn and what it needs into .venv (a few minutes the first time)"
	@$(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	@touch $(READY)

compare: $(READY)
	@$(BIN)/diffattn compare $(ARGS)

test: $(READY)
	@$(BIN)/python -m pytest $(ARGS)

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(READY)
	@$(BIN)/mypy

format: $(READY)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis

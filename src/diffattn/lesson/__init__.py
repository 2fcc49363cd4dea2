"""A lesson on differential attention, with the standard library alone: `python src/diffattn/lesson/main.py`."""

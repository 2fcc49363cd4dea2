"""Token forms beside `diffattn.tasks.facts`, for small models trained on them."""

"""One module a backend, each with `why_not(inputs)`, `cost(inputs)` and `forward(inputs)`; none imports another."""

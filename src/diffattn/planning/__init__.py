"""Pure arithmetic about differential attention: noise, parameters, cache, FLOPs, time, advice. Standard library only."""

"""Pure arithmetic about differential attention, of the standard library only: noise, sizes, time, advice."""

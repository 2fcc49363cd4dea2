"""Compositions of training and measures, each of which writes a results file that a report is made from."""

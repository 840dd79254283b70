"""Random input against laws: tables, model files and command lines, and runs that are killed.

    python -m benchmarks.fuzz tables --cases 100 --seed 0

A case is drawn from a seed and its number, so that a failure can be run again by itself.
"""

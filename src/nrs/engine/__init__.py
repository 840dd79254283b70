"""The compiled engine: a forest's training and predictions in C++, for the CPU.

`engine.h` is its C interface; `forest.py` loads it, and checks everything that goes in.
"""

from nrs.engine.forest import (
    LOSSES,
    MAX_LAYERS,
    Directions,
    Norm,
    Parameter,
    Predictor,
    Settings,
    Shape,
    Step,
    Training,
    count_threads,
    instructions,
    show_config,
)

__all__ = [
    "LOSSES", "MAX_LAYERS", "Directions", "Norm", "Parameter", "Predictor", "Settings", "Shape",
    "Step", "Training", "count_threads", "instructions", "show_config",
]  # fmt: skip

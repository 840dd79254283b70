"""One training loop for every kind of data, with its callbacks, checkpoints and model files."""

from nrs.training.callbacks import Callback, Progress, TensorBoard, TimeLimit
from nrs.training.checkpoint import Checkpoint, CheckpointError
from nrs.training.files import ModelFile, ModelFileError, atomic_write, read_model, write_model
from nrs.training.history import History
from nrs.training.loop import DivergenceError, train
from nrs.training.settings import TrainSettings
from nrs.training.state import TrainState

__all__ = [
    "Callback",
    "Checkpoint",
    "CheckpointError",
    "DivergenceError",
    "History",
    "ModelFile",
    "ModelFileError",
    "Progress",
    "TensorBoard",
    "TimeLimit",
    "TrainSettings",
    "TrainState",
    "atomic_write",
    "read_model",
    "train",
    "write_model",
]

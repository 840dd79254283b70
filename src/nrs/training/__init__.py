"""One training loop for every kind of data, with its callbacks, checkpoints and model files."""

from nrs.training.assemble import load_network
from nrs.training.callbacks import Callback, Progress, TensorBoard, TimeLimit
from nrs.training.checkpoint import Checkpoint, CheckpointError
from nrs.training.config import ConfigError, read_config
from nrs.training.files import (
    ModelFile,
    ModelFileError,
    loading,
    read_kind,
    read_model,
    write_model,
)
from nrs.training.history import History
from nrs.training.loop import DivergenceError, train
from nrs.training.network import RunSettings, SampleError, save_network, train_network
from nrs.training.origin import fingerprint, made_now
from nrs.training.processes import Processes, processes
from nrs.training.settings import TrainSettings
from nrs.training.state import TrainState

__all__ = [
    "Callback",
    "Checkpoint",
    "CheckpointError",
    "ConfigError",
    "DivergenceError",
    "History",
    "ModelFile",
    "ModelFileError",
    "Processes",
    "Progress",
    "RunSettings",
    "SampleError",
    "TensorBoard",
    "TimeLimit",
    "TrainSettings",
    "TrainState",
    "fingerprint",
    "load_network",
    "loading",
    "made_now",
    "processes",
    "read_config",
    "read_kind",
    "read_model",
    "save_network",
    "train",
    "train_network",
    "write_model",
]

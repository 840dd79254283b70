"""One training loop for every kind of data, with its callbacks, checkpoints and model files."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nrs._util.lazy import names_of

if TYPE_CHECKING:
    from nrs.training.assemble import load_network
    from nrs.training.callbacks import Callback, Progress, TensorBoard, TimeLimit
    from nrs.training.checkpoint import Checkpoint, CheckpointError
    from nrs.training.config import ConfigError, read_config
    from nrs.training.files import ModelFile, loading, read_kind, read_model, write_model
    from nrs.training.history import History
    from nrs.training.loop import DivergenceError, train
    from nrs.training.network import RunSettings, SampleError, save_network, train_network
    from nrs.training.origin import fingerprint, made_now
    from nrs.training.processes import Processes, processes
    from nrs.training.schema import ModelFileError
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

# Model files are read without torch.
_MODULES = {
    "assemble": ["load_network"],
    "callbacks": ["Callback", "Progress", "TensorBoard", "TimeLimit"],
    "checkpoint": ["Checkpoint", "CheckpointError"],
    "config": ["ConfigError", "read_config"],
    "files": ["ModelFile", "loading", "read_kind", "read_model", "write_model"],
    "history": ["History"],
    "loop": ["DivergenceError", "train"],
    "network": ["RunSettings", "SampleError", "save_network", "train_network"],
    "origin": ["fingerprint", "made_now"],
    "processes": ["Processes"],
    "schema": ["ModelFileError"],
    "settings": ["TrainSettings"],
    "state": ["TrainState"],
}

__getattr__ = names_of(
    __name__, {name: f"{__name__}.{home}" for home, names in _MODULES.items() for name in names}
)


class _Package(ModuleType):
    # The function, whoever has imported the module of this name before.
    @property
    def processes(self) -> Any:
        return names_of(self.__name__, {"processes": "nrs.training.processes"})("processes")

    @processes.setter
    def processes(self, module: ModuleType) -> None:
        pass


sys.modules[__name__].__class__ = _Package

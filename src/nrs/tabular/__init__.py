"""Table in, predictions out: encoding, network, estimators."""

from typing import TYPE_CHECKING

from nrs._util.lazy import names_of

if TYPE_CHECKING:
    from nrs.tabular.classifier import NRSClassifier
    from nrs.tabular.encode.column_encoder import ColumnWarning
    from nrs.tabular.encode.encoder import TableEncoder
    from nrs.tabular.forest.workers import WorkerError
    from nrs.tabular.network import TableNetwork
    from nrs.tabular.regressor import NRSRegressor

__all__ = [
    "ColumnWarning",
    "NRSClassifier",
    "NRSRegressor",
    "TableEncoder",
    "TableNetwork",
    "WorkerError",
]

__getattr__ = names_of(
    __name__,
    {
        "ColumnWarning": "nrs.tabular.encode.column_encoder",
        "NRSClassifier": "nrs.tabular.classifier",
        "NRSRegressor": "nrs.tabular.regressor",
        "TableEncoder": "nrs.tabular.encode.encoder",
        "TableNetwork": "nrs.tabular.network",
        "WorkerError": "nrs.tabular.forest.workers",
    },
)

"""Table in, predictions out: encoding, network, estimators."""

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

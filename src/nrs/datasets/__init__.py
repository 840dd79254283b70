"""Where data comes from: a catalog of datasets, their readers, and the paper's splits."""

from nrs.datasets.arrays import read_npz, save_npz
from nrs.datasets.catalog import info, names, variants_of
from nrs.datasets.cloud_folders import CloudFolder, read_cloud_folder
from nrs.datasets.clouds import read_cloud
from nrs.datasets.dataset import Dataset
from nrs.datasets.entry import Entry, Source
from nrs.datasets.errors import (
    ArchiveError,
    DatasetFileError,
    DatasetNotFoundError,
    DatasetUnreachableError,
    DownloadError,
    EntryError,
    UnreachableError,
)
from nrs.datasets.folders import cache_folder, data_folders
from nrs.datasets.load import get, load
from nrs.datasets.paper_table import PaperRow, paper_table
from nrs.datasets.preprocess import paper_preprocess
from nrs.datasets.readers import Rows, iter_letor, read_letor, write_letor
from nrs.datasets.readers.mesh import Mesh, read_mesh
from nrs.datasets.splits import folds, random_split
from nrs.datasets.surface import sample_surface
from nrs.datasets.table_file_errors import TableFileError

__all__ = [
    "ArchiveError",
    "CloudFolder",
    "Dataset",
    "DatasetFileError",
    "DatasetNotFoundError",
    "DatasetUnreachableError",
    "DownloadError",
    "Entry",
    "EntryError",
    "Mesh",
    "PaperRow",
    "Rows",
    "Source",
    "TableFileError",
    "UnreachableError",
    "cache_folder",
    "data_folders",
    "folds",
    "get",
    "info",
    "iter_letor",
    "load",
    "names",
    "paper_preprocess",
    "paper_table",
    "random_split",
    "read_cloud",
    "read_cloud_folder",
    "read_letor",
    "read_mesh",
    "read_npz",
    "sample_surface",
    "save_npz",
    "variants_of",
    "write_letor",
]

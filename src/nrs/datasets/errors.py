"""What can go wrong between a dataset's name and its arrays."""

from __future__ import annotations


class DatasetNotFoundError(FileNotFoundError):
    """A dataset is in no local folder and cannot be fetched; the message says what to do."""

    # FileNotFoundError formats itself from (errno, text); here the message is the text alone.
    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class DatasetFileError(ValueError):
    """A file that is there does not hold what the catalog says it should."""


class ArchiveError(ValueError):
    """An archive is damaged, larger than allowed, or tries to write outside its folder."""


class DownloadError(OSError):
    """A download failed. Whatever goes wrong in one is this error or one of its kinds below.

    That is: the network (`UnreachableError`, or `DatasetUnreachableError` where a dataset is loaded
    by name), a transfer that was cut or too slow, another size or checksum than expected, a file
    larger than allowed, a damaged archive, a disk that cannot be written, and an entry of a catalog
    that cannot be used (`EntryError`).
    """


class UnreachableError(DownloadError):
    """The address did not answer, or does not have the file."""


class DatasetUnreachableError(DownloadError, DatasetNotFoundError):
    """A dataset is in no local folder, and its address cannot be reached."""


class EntryError(DownloadError, ValueError):
    """An entry of a catalog holds a value that it cannot have, such as a size of NaN."""

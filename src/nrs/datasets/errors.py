"""What can go wrong between a dataset's name and its arrays."""

from __future__ import annotations


class DatasetNotFoundError(FileNotFoundError):
    """A dataset is neither in a local folder nor to be fetched; the message says what to do."""

    # FileNotFoundError formats itself from (errno, text); here the message is the text alone.
    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class DatasetFileError(ValueError):
    """A file that is there does not hold what the catalog says it should."""


class ArchiveError(ValueError):
    """An archive is damaged, larger than allowed, or tries to write outside its folder."""


class DownloadError(OSError):
    """A download ended early, differs from what was expected, or is larger than allowed."""


class UnreachableError(DownloadError):
    """The address did not answer, or does not have the file."""

"""Pages people look at: HTML that needs no network, Markdown, and the pictures in both."""

from nrs.pages.agreement import Agreement, Tolerance
from nrs.pages.paper_report import write_report

__all__ = ["Agreement", "Tolerance", "write_report"]

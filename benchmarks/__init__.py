"""Ratios against peers, one file a question."""

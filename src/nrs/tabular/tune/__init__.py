"""Searching the settings of an estimator."""

"""Why a fitted model says what it says: the public name of :mod:`nrs.tabular.explain`."""

from nrs.tabular.explain import *  # noqa: F403
from nrs.tabular.explain import __all__ as __all__

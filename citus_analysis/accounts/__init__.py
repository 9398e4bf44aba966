"""Accounts of differences: where two sets of runs, or two stretches of server logs, differ, in terms that add up."""

from citus_analysis.accounts.causes import Cause, Explanation
from citus_analysis.accounts.explanation import why
from citus_analysis.public_names import public

__all__ = ["Cause", "Explanation", "why"]

__dir__, __getattr__ = public(__name__, __all__)

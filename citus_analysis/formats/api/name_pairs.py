"""Tables of names: what a file calls something, and what it is called here."""

from __future__ import annotations


def name_pairs(text: str) -> dict[str, str]:
    """Names and their meanings, from pairs `name=meaning` between blanks.

    Example:
        >>> name_pairs("us=user_percent sy=system_percent")
        {'us': 'user_percent', 'sy': 'system_percent'}
    """
    pairs = (pair.partition("=") for pair in text.split())
    return {name: meaning for name, _, meaning in pairs}

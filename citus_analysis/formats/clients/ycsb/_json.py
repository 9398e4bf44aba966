"""The summary of the JSON exporters: an object per value.

`JSONMeasurementsExporter` writes objects without a separator, and `JSONArrayMeasurementsExporter` an array of objects.
Both print each field on a separate line; tools that rewrite JSON put an object on one line. Either way a value is
recognised by its three fields, so the punctuation between objects does not matter.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.formats.clients.ycsb._lines import NUMBER

_OBJECT: Final = r'\{[^{}]*"metric"[^{}]*\}'
_FIELDS: Final = {
    "section": r'"metric"\s*:\s*"([^"]*)"',
    "name": r'"measurement"\s*:\s*"([^"]*)"',
    "value": rf'"value"\s*:\s*"?({NUMBER})',
}


def json_values(lines: pl.DataFrame, before: tuple[str | None, str | None]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Values of JSON lines, and the fields of the lines; the last fields are needed by the next block.

    Args:
        lines: lines of kind json, in order.
        before: section and name of the object at the end of the previous block.

    Returns:
        A frame like that of `named_values` for the text summary (`offset`, `length`, `section`, `name`, `value`),
        and the lines with the last `section` and `name` up to each line.
    """
    section, name = before
    objects = pl.coalesce(
        pl.when(pl.col("text").str.contains(_OBJECT)).then(pl.col("text").str.extract_all(_OBJECT)),
        pl.concat_list("text"),
    )
    pieces = lines.with_columns(piece=objects).explode("piece")
    fields = pieces.select(
        "offset", "length", *(pl.col("piece").str.extract(pattern).alias(field) for field, pattern in _FIELDS.items())
    )
    known = fields.with_columns(
        pl.col("section").forward_fill().fill_null(pl.lit(section, pl.String)),
        pl.col("name").forward_fill().fill_null(pl.lit(name, pl.String)),
    )
    return known.filter(pl.all_horizontal(pl.col("section", "name", "value").is_not_null())), known

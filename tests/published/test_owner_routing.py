"""What owner routing would have gained by the thesis' printed numbers, computed by hand."""

import pytest

from citus_analysis.published.owner_routing import estimate_owner_routing


def test_bounds_are_those_of_the_printed_means() -> None:
    found = estimate_owner_routing()
    rows = {(row["operation"], row["workers"]): row for row in found.rows.iter_rows(named=True)}
    insert = rows["INSERT", 32]
    # Table 5.5: 13.78 ms at the client, a statement of 8.04 ms, of which 7.48 ms wait for a child of 7.22 ms.
    assert insert["ratio_low"] == pytest.approx(13.78 / (13.78 - 31 / 32 * 0.26))
    assert insert["ratio_high"] == pytest.approx(13.78 / (13.78 - 31 / 32 * 0.82))
    # Table 5.8: a median of 0.77 ms, more than half of it on the parent, at 1.25 ms for the client.
    assert rows["SELECT", 16]["ratio_high"] == pytest.approx(1.25 / (1.25 - 15 / 16 * 0.385))
    assert rows["SELECT", 16]["ratio_low"] == 1
    assert rows["SELECT", 4]["ratio_high"] is None


def test_sentences_say_that_they_are_estimates_and_what_is_not_known() -> None:
    lines = estimate_owner_routing().summary_lines()
    gains = [line for line in lines if line.startswith("An estimate, not a measurement")]
    assert [line.rpartition(" workers ")[2] for line in gains] == [
        "1.019- to 1.061-fold.",
        "at most 1.276-fold.",
        "at most 1.406-fold.",
        "at most 1.588-fold.",
    ]
    assert any("(2, 4 workers) nothing is known: the median" in line for line in lines)
    assert sum(line.startswith("assumed: ") for line in lines) == 3

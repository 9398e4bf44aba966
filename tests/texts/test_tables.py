"""Tables of a limited width keep every cell."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.texts.tables import render_grouped_table

FACTS = ("system", "workers", "threads", "settings")
ROW = st.tuples(*(st.sampled_from([f"{name}{number}" * number for number in (1, 2, 3)]) for name in FACTS))


@given(rows=st.lists(ROW, min_size=1, max_size=12, unique=True), width=st.integers(12, 120))
def test_columns_that_do_not_fit_stand_above_their_rows(rows: list[tuple[str, ...]], width: int) -> None:
    table = [[*row, str(number)] for number, row in enumerate(rows)]
    lines = render_grouped_table([*FACTS, "mean"], table, movable=len(FACTS), width=width)
    read, above, head = list[tuple[str, ...]](), dict[str, str](), list[str]()
    for line in lines:
        if not line:
            above = {}
        elif "=" in line:
            above |= dict(fact.split("=", 1) for fact in line.split("  "))
        elif line.split()[-1] == "mean":
            head = line.split()
        else:
            cells = above | dict(zip(head, line.split(), strict=True))
            read.append(tuple(cells[name] for name in (*FACTS, "mean")))
    assert Counter(read) == Counter(map(tuple, table))
    if width >= max(len(f"{name}={cell}") for row in rows for name, cell in zip(FACTS, row, strict=True)):
        assert max(map(len, lines)) <= width

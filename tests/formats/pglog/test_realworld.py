"""Logs of other people's servers: every file is read, every byte accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest

from citus_analysis.formats import Content, Hints, detect_format

from .logs import gathered

FOLDER = Path(__file__).parents[3].parent / "shared" / "realworld" / "pglog"
FILES = sorted(FOLDER.iterdir()) if FOLDER.is_dir() else []
#: Bytes in them that another program wrote: what pg_ctl said on the terminal.
OF_OTHERS = {"darold__pgbadger__t_fixtures_pg_rawcsv.log": 55}


@pytest.mark.realworld
@pytest.mark.skipif(not FILES, reason="the folder of recordings made by others is absent")
@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_everything_is_read(path: Path) -> None:
    content = Content(path)
    found = detect_format(content)
    assert found is not None
    log = gathered(list(found.parse(content, Hints(path.name))))
    with content.open() as stream:
        size = len(stream.read())
    assert log.accounted == size
    assert log.parsed >= 0.9999 * (size - OF_OTHERS.get(path.name, 0))
    assert log.events.height > 0

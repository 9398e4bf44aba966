"""Logs of other people's servers: every file is read, every byte accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest

from citus_analysis.formats import Content, Hints
from citus_analysis.formats.parsing.recognition import recognise_sources

from .logs import gathered

FOLDER = Path(__file__).parents[3].parent / "shared" / "realworld" / "pglog"
FILES = sorted(FOLDER.iterdir()) if FOLDER.is_dir() else []
#: Bytes in them that another program wrote: what pg_ctl said on the terminal.
OF_OTHERS = {"darold__pgbadger__t_fixtures_pg_rawcsv.log": 55}


@pytest.mark.realworld
@pytest.mark.skipif(not FILES, reason="the folder of recordings made by others is absent")
@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_everything_is_read(path: Path, tmp_path: Path) -> None:
    (source,) = recognise_sources(Content(path))
    assert source.format is not None
    undone = tmp_path / path.name
    places = source.delivery.write(Content(path), undone)
    log = gathered(list(source.format.parse(Content(undone), Hints(path.name))))
    size = places.text_bytes
    assert log.accounted == size
    assert log.parsed >= 0.9999 * (size - OF_OTHERS.get(path.name, 0))
    assert log.events.height > 0

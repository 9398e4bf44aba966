"""The server as a program starts it, its limits, and the transcript of docs/agents.md."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from anyio.from_thread import start_blocking_portal

import citus_analysis as ca
from citus_analysis.agents.isolation import IsolatedTools
from citus_analysis.agents.tools import TOOLS
from citus_analysis.runner.embedded import find_free_port
from tests.documentation.blocks import ROOT, blocks_of, blocks_run_by
from tests.test_lazy_imports import loaded_by

mcp = pytest.importorskip("mcp")

PAGE: Final = ROOT / "docs" / "agents.md"
CITUS: Final = ROOT / "tests" / "data" / "plan_changes" / "citus"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Path]]:
    """The SDK's client of a server process over standard input and output, and its folder."""
    home = tmp_path_factory.mktemp("served")
    (csv,) = (block.text for block in blocks_of(PAGE) if block.language == "csv")
    (home / "variants").mkdir()
    (home / "variants" / "results.csv").write_text(csv, encoding="utf-8")
    environment = {"XDG_CACHE_HOME": str(home / "cache"), "PYTHONPATH": str(ROOT)}
    command = ["-m", "citus_analysis", "serve", "--mcp", "variants", str(CITUS)]
    server = mcp.StdioServerParameters(command=sys.executable, args=command, cwd=home, env=environment)
    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())
        client = stack.enter_context(portal.wrap_async_context_manager(mcp.Client(server)))
        yield lambda name, *arguments: portal.call(getattr(client, name), *arguments), home


def read_transcript() -> list[tuple[str, dict[str, Any], str]]:
    """Tool, arguments and answer of each question of the page."""
    (text,) = (block.text for block in blocks_of(PAGE) if block.language == "text")
    parts = re.split(r"(?m)^> (\w+) (.*)$", text)[1:]
    return [(parts[i], json.loads(parts[i + 1]), parts[i + 2].strip()) for i in range(0, len(parts), 3)]


def write_answer(text: str, home: Path) -> str:
    """An answer as the page shows it: a line for each key and row."""
    plain = re.sub(rf"{re.escape(str(home))}/cache/\S*?/variants-[0-9a-f]+", "DIR", text)
    if not plain.startswith("{"):
        return plain
    document = json.loads(plain)
    rows = document.pop("rows", [])
    lines = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in document.items()]
    lines += [f"row {number}: {json.dumps(row, ensure_ascii=False)}" for number, row in enumerate(rows, 1)]
    return "\n".join(lines)


def test_the_transcript_is_what_a_client_gets(served: tuple[Any, Path]) -> None:
    ask, home = served
    transcript = read_transcript()
    assert len(transcript) >= 5
    for tool, arguments, answer in transcript:
        assert write_answer(ask("call_tool", tool, arguments).content[0].text, home) == answer, tool


def test_the_server_lists_read_only_tools_with_typed_arguments(served: tuple[Any, Path]) -> None:
    ask, _ = served
    tools = {tool.name: tool for tool in ask("list_tools").tools}
    assert tools.keys() == TOOLS.keys()
    assert all(tool.annotations.read_only_hint and tool.input_schema["properties"] for tool in tools.values())
    # The page names each.
    assert {name for name in tools if f"| `{name}` |" not in PAGE.read_text(encoding="utf-8")} == set()


def test_the_commands_of_the_page_start_a_server(tmp_path: Path) -> None:
    (block,) = blocks_run_by(__file__)
    _, *arguments = block.text.split()
    command = [sys.executable, "-m", "citus_analysis", *arguments]
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "PATH": ""}
    # A client that leaves at once.
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_port_answers_this_machine_under_its_own_name_only(tmp_path: Path) -> None:
    port = find_free_port()
    command = [sys.executable, "-m", "citus_analysis", "serve", "--mcp", str(CITUS), "--port", str(port)]
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "PATH": ""}
    url = f"http://127.0.0.1:{port}/mcp"
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert any(line == f"{url}\n" for line in process.stderr)
            wait_for_port(port)
            # A page of the web could reach it under a name of its own.
            named = {"Host": "example.org", "Content-Type": "application/json", "Accept": "application/json"}
            request = urllib.request.Request(url, data=b"{}", headers=named)
            with pytest.raises(urllib.error.HTTPError, match="421"):
                urllib.request.urlopen(request)
            with start_blocking_portal() as portal, portal.wrap_async_context_manager(mcp.Client(url)) as client:
                (content,) = portal.call(client.call_tool, "plans").content
                assert json.loads(content.text)["verdict"] == "changed"
            own = {one.laddr.ip for one in psutil.Process(process.pid).net_connections() if one.status == "LISTEN"}
            assert own == {"127.0.0.1"}
        finally:
            process.send_signal(signal.SIGINT)


def wait_for_port(port: int) -> None:
    """Until a server of this machine accepts connections."""
    for _ in range(600):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(port)


def test_a_question_has_limits_of_time_and_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ca.ingest(CITUS, tmp_path / "ds")
    tools = IsolatedTools({"ds": str(tmp_path / "ds")}, seconds=20, memory_mb=512)
    try:
        assert json.loads(tools.ask("sql", {"query": "SELECT 1 AS one"}).text)["rows"] == [{"one": 1}]
        large = tools.ask("sql", {"query": "SELECT list(i) FROM range(400_000_000) t(i)"})
        assert large.failed
        assert "memory" in large.text.lower()
        # DuckDB would otherwise sort in files of the working directory.
        sort = "SELECT sum(i) FROM (SELECT i, hash(i) AS h FROM range(100_000_000) t(i) ORDER BY h DESC)"
        assert tools.ask("sql", {"query": sort}).failed
        assert not Path(".tmp").exists()
        tools._seconds = 1.0
        slow = tools.ask("sql", {"query": "SELECT count(*) FROM range(1_000_000_000_000) t(i) WHERE i % 7 = 3"})
        assert (slow.failed, slow.text) == (True, "sql: took more than 1 s and was ended; ask for less")
        tools._seconds = 60.0
        assert not tools.ask("inspect", {}).failed
    finally:
        tools.close()


def test_nothing_of_it_is_imported_where_it_is_not_used() -> None:
    loaded = loaded_by(f"import citus_analysis as ca; ca.plan_changes({str(CITUS)!r}); import citus_analysis.cli")
    assert not loaded & {"mcp", "mcp_types", "starlette", "uvicorn"}

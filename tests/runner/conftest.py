"""Servers and machines that several tests of the runner use: a Citus cluster of somebody else's, and an sshd."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from citus_analysis.runner.embedded import LOOPBACK, Embedded, find_free_port
from tests.citus_cluster import citus_cluster

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"


@pytest.fixture
def citus(tmp_path: Path) -> Iterator[Embedded]:
    """A coordinator and two workers of somebody else's."""
    with citus_cluster(tmp_path / "theirs") as cluster:
        yield cluster


@pytest.fixture
def ssh_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A real sshd on loopback that knows one key, and a home folder that knows the host."""
    if not Path(SSHD).exists():
        pytest.skip("needs sshd: install openssh-server")
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    for name in ("host", "home/.ssh/id_ed25519"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    shutil.copy(home / ".ssh/id_ed25519.pub", tmp_path / "authorized")
    port = find_free_port()
    host_key = " ".join((tmp_path / "host.pub").read_text().split()[:2])
    (home / ".ssh/known_hosts").write_text(f"[{LOOPBACK}]:{port} {host_key}\n")
    options = {
        "Port": port,
        "ListenAddress": LOOPBACK,
        "HostKey": tmp_path / "host",
        "AuthorizedKeysFile": tmp_path / "authorized",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "yes",
        "Subsystem": "sftp internal-sftp",
    }
    (tmp_path / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in options.items()))
    Path("/run/sshd").mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    daemon = subprocess.Popen([SSHD, "-D", "-e", "-f", tmp_path / "sshd_config"], stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    yield port
    daemon.terminate()
    daemon.wait()

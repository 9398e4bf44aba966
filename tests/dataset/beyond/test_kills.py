"""Workers, drivers and the store are killed a hundred times: nothing is ever half done, and the next ingest ends it.

`KILLS=10` in the environment kills less often.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.dataset.object_place import ObjectPlace
from tests.dataset.beyond.running_cluster import RunningCluster, driver, ended, started
from tests.dataset.beyond.s3_servers import Versitygw
from tests.dataset.beyond.same_rows import assert_same_rows, assert_whole

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("KILLS", "100"))
VICTIMS = ("worker", "driver", "store")


def kill(victim: str, process: subprocess.Popen[bytes], cluster: RunningCluster, store: Versitygw) -> bool:
    """Whether there was something to be killed."""
    if victim == "driver":
        running = process.poll() is None
        process.kill()
        return running
    if victim == "worker":
        with suppress(psutil.Error):
            cluster.a_worker().kill()
            return True
        return False
    store.kill()
    time.sleep(random.uniform(0.0, 3.0))
    store.start()
    return True


def test_a_hundred_kills(
    few: Path,
    local_few: Dataset,
    true_s3: Versitygw,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    cluster = started(tmp_path)
    killed, ends, number = Counter[str](), Counter[int](), 0
    try:
        while killed.total() < KILLS:
            out, number = true_s3.place(f"many{number}"), number + 1
            for _ in range(4):
                process = driver(few, out, cluster.address)
                for victim in random.choices(VICTIMS, k=random.choice((1, 2))):
                    time.sleep(random.uniform(0.3, 3.0))
                    killed[victim] += kill(victim, process, cluster, true_s3)
                _, said = process.communicate(timeout=300)
                # One that was not killed ended, or says in a line why it did not.
                assert b"Traceback" not in said, said.decode()
                ends[process.returncode] += 1
                assert_whole(out, local_few)
                # Nor does a lease that nobody holds make the next one wait.
                ObjectPlace.of(out).remove(["_lease.json"])
            assert ingest([few], out, cluster=cluster.address).exit_code == 0
            assert_same_rows(local_few, open_dataset(out))
    finally:
        ended(cluster)
    record_property("result", f"killed: {dict(killed)}; drivers ended with: {dict(ends)}; datasets: {number}")

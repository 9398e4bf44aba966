"""Fields that determine how runs are measured: `monitor`, `samplers`, `limits`, `stop`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from citus_analysis.defaults import LEVEL
from citus_analysis.runner.experiment_file.fields import LocalPath, Part, Positive


class Monitor(Part):
    """The sampled client: its statements are logged by every node, the main client's are not."""

    role: str = Field("monitor", description="database role; created with logging if the runner has the right")
    login_env: str | None = Field(
        None, min_length=1, description="environment variable with the role's password; default: libpq's rules"
    )
    login_file: LocalPath | None = Field(None, description="file whose first line is the role's password")
    log_min_messages: Literal["auto", "debug1", "debug2", "debug3", "debug4"] = Field(
        "auto",
        description="setting of the role; `auto`: the level at which the cluster reports task times (stock Citus: "
        "debug4; a build for measurements: debug1)",
    )
    share: float = Field(0.001, gt=0, le=0.5, description="share of the operations")
    rate_ops_s: float | None = Field(
        None,
        gt=0,
        description="operations per second; unlike `share`, it requires no previous measurement",
    )
    connections: Positive = Field(1, description="connections to every node")


class Samplers(Part):
    """Recordings during the load, on every node with a shell."""

    iostat: bool = Field(True, description="CPU and devices, with times")
    vmstat: bool = Field(True, description="memory and scheduler, with times")
    host: bool = Field(True, description="pressure, network and throttling as the kernel counts them, with times")
    activity: bool = Field(True, description="sessions and their waits (pg_stat_activity) on every node, each second")
    counters: bool = Field(True, description="cumulative views of every node (pg_stat_...) before and after each run")
    perf: bool = Field(
        False,
        description="perf record of the server processes of every machine with a shell, reported with call graphs",
    )
    plans: tuple[str, ...] = Field(
        (),
        description="statements that are explained on the coordinator once after each run, with ANALYZE and BUFFERS "
        "and all tasks; they are executed, and their changes are rolled back",
    )
    interval_s: Positive = Field(1, description="time between two samples")


class Limits(Part):
    """When a measured run ends."""

    duration_s: Positive | None = Field(None, description="time limit; default: when the operations are done")
    timeout_s: Positive = Field(3600, description="a run that takes longer is stopped and marked failed")
    max_failures: Positive = Field(
        5,
        description="the experiment stops if this number of runs of one call fails for the same reason",
    )


class StopRule(Part):
    """Rule for the number of iterations."""

    rule: Literal["fixed", "interval"] = Field(
        "fixed", description="`interval`: at least `iterations`, then until the mean's interval is narrow enough"
    )
    relative_half_width: float = Field(
        0.05, gt=0, lt=1, description="half width of the interval over the mean throughput"
    )
    level: float = Field(LEVEL, gt=0, lt=1, description="confidence level of the interval (Student's t)")
    max_iterations: Positive = Field(20, description="the experiment makes no more iterations than this")

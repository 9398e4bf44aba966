"""One method per table, so that editors complete `dataset.runs()`."""

from __future__ import annotations

from abc import abstractmethod

import polars as pl


class Shorthands:
    """Methods of which `dataset.NAME()` is the same as `dataset.table("NAME")`."""

    @abstractmethod
    def scan(self, name: str) -> pl.LazyFrame:
        """A table as a lazy frame."""

    def sources(self) -> pl.DataFrame:
        """One row per file that an ingest examined."""
        return self.scan("sources").collect()

    def rejects(self) -> pl.DataFrame:
        """Parts of sources that could not be parsed. Nothing is dropped silently."""
        return self.scan("rejects").collect()

    def nodes(self) -> pl.DataFrame:
        """The nodes of a cluster."""
        return self.scan("nodes").collect()

    def shards(self) -> pl.DataFrame:
        """Shards and their placements."""
        return self.scan("shards").collect()

    def settings(self) -> pl.DataFrame:
        """Versions, hardware and server settings of each resource."""
        return self.scan("settings").collect()

    def runs(self) -> pl.DataFrame:
        """One row per measured run: phase x configuration x iteration, its load generators merged."""
        return self.scan("runs").collect()

    def operation_latencies(self) -> pl.DataFrame:
        """Client-side latency per run and operation, load generators merged (percentiles never averaged)."""
        return self.scan("operation_latencies").collect()

    def clients(self) -> pl.DataFrame:
        """One row per load-generator process."""
        return self.scan("clients").collect()

    def client_metrics(self) -> pl.DataFrame:
        """Every line of a client's final summary."""
        return self.scan("client_metrics").collect()

    def client_series(self) -> pl.DataFrame:
        """Status lines of clients: one row per status line and operation, and one for the total."""
        return self.scan("client_series").collect()

    def client_histogram(self) -> pl.DataFrame:
        """Latency histograms; buckets of several clients merge by adding counts."""
        return self.scan("client_histogram").collect()

    def client_latencies(self) -> pl.DataFrame:
        """Single latencies, where a client logged every operation."""
        return self.scan("client_latencies").collect()

    def client_errors(self) -> pl.DataFrame:
        """Exceptions and error messages printed by clients, counted by message class."""
        return self.scan("client_errors").collect()

    def log_events(self) -> pl.DataFrame:
        """One row per record of a PostgreSQL server log (a record with its continuation lines)."""
        return self.scan("log_events").collect()

    def checkpoints(self) -> pl.DataFrame:
        """One row per completed checkpoint or restartpoint."""
        return self.scan("checkpoints").collect()

    def spans(self) -> pl.DataFrame:
        """Trace tree of every sampled statement: statement -> phases and tasks -> remote or local execution."""
        return self.scan("spans").collect()

    def statements(self) -> pl.DataFrame:
        """One row per statement execution seen by a parent, with its profile."""
        return self.scan("statements").collect()

    def match_quality(self) -> pl.DataFrame:
        """Quality of the pairing of parent tasks and child statements, per pair of nodes."""
        return self.scan("match_quality").collect()

    def clock_offsets(self) -> pl.DataFrame:
        """Offset between the clocks of two nodes, bounded by causality over the exact pairs."""
        return self.scan("clock_offsets").collect()

    def activity_samples(self) -> pl.DataFrame:
        """Snapshots of a server's sessions with the wait event of each."""
        return self.scan("activity_samples").collect()

    def server_counters(self) -> pl.DataFrame:
        """Cumulative counters of a server's views as differences between two snapshots, never across a reset."""
        return self.scan("server_counters").collect()

    def pressure_samples(self) -> pl.DataFrame:
        """Time in which tasks of a host were stalled (pressure stall information)."""
        return self.scan("pressure_samples").collect()

    def net_samples(self) -> pl.DataFrame:
        """Network interfaces: rates since the previous sample; null for the first and if a counter decreased."""
        return self.scan("net_samples").collect()

    def throttle_samples(self) -> pl.DataFrame:
        """CPU throttling of a control group since the previous sample."""
        return self.scan("throttle_samples").collect()

    def cpu_samples(self) -> pl.DataFrame:
        """CPU time shares."""
        return self.scan("cpu_samples").collect()

    def core_samples(self) -> pl.DataFrame:
        """CPU time shares of single CPUs."""
        return self.scan("core_samples").collect()

    def device_samples(self) -> pl.DataFrame:
        """Block device activity."""
        return self.scan("device_samples").collect()

    def pooler_events(self) -> pl.DataFrame:
        """Lines of a pooler's log."""
        return self.scan("pooler_events").collect()

    def pooler_samples(self) -> pl.DataFrame:
        """Values that a pooler's log or console states about databases, pools and connections."""
        return self.scan("pooler_samples").collect()

    def stated_runs(self) -> pl.DataFrame:
        """Facts of runs that tables of results state."""
        return self.scan("stated_runs").collect()

    def vm_samples(self) -> pl.DataFrame:
        """Memory, swap, block I/O and scheduler counters."""
        return self.scan("vm_samples").collect()

    def process_samples(self) -> pl.DataFrame:
        """Activity of single processes and threads."""
        return self.scan("process_samples").collect()

    def perf_symbols(self) -> pl.DataFrame:
        """Share of samples per symbol."""
        return self.scan("perf_symbols").collect()

    def perf_stacks(self) -> pl.DataFrame:
        """Call stacks with their weight."""
        return self.scan("perf_stacks").collect()

    def perf_counters(self) -> pl.DataFrame:
        """Counter values."""
        return self.scan("perf_counters").collect()

    def outcomes(self) -> pl.DataFrame:
        """The runner's verdicts on the iterations of a resource, with failures that client output does not show."""
        return self.scan("outcomes").collect()

    def plans(self) -> pl.DataFrame:
        """Plans of statements, as EXPLAIN or auto_explain printed them."""
        return self.scan("plans").collect()

    def plan_nodes(self) -> pl.DataFrame:
        """Nodes of the plans, estimated and actual, of each task and worker."""
        return self.scan("plan_nodes").collect()

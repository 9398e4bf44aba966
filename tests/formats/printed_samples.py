"""Outputs of samplers with known contents, in which some samples cannot be.

`KINDS` are the ways in which a sampler prints what cannot be: a counter that went back is printed as a number beyond
any machine or below zero, a sample without any time as zeros, and amounts in a wrong unit contradict their parts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

Row = dict[str, float]

CPU: Final = ("user", "nice", "system", "iowait", "steal", "idle")
OVERFLOWS: Final = (2.0**63, 2.0**64 / 100, 2.0**64 / 60, 2.0**32)


@dataclass
class Printed:
    """A text, and for each table the offsets of the lines of doubtful samples."""

    text: str = ""
    doubtful: dict[str, list[int]] = field(default_factory=dict)

    def add(self, line: str, table: str = "", *, broken: bool = False) -> None:
        """Print a line; a broken one is of a table."""
        if broken:
            self.doubtful.setdefault(table, []).append(len(self.text.encode()))
        self.text += line + "\n"


def cpu_row(random: Random) -> Row:
    """Shares that add up to 100."""
    cuts = sorted(random.uniform(0, 100) for _ in range(5))
    return dict(zip(CPU, (b - a for a, b in zip([0, *cuts], [*cuts, 100], strict=True)), strict=True))


def device_row(random: Random) -> Row:
    """Requests, their sizes and their data, which agree."""
    row: Row = {"util": random.uniform(0, 101)}
    for letter in "rw":
        number, size, merges = random.uniform(0, 5000), random.uniform(4, 256), random.uniform(0, 100)
        row |= {f"{letter}/s": number, f"{letter}areq-sz": size, f"{letter}kB/s": number * size}
        row |= {f"{letter}rqm/s": merges, f"{letter}rqm": 100 * merges / (merges + number) if merges else 0.0}
    return row


def _zeros(row: Row, _: Random) -> Row:
    return dict.fromkeys(row, 0.0)


def _overflow(name: str) -> Callable[[Row, Random], Row]:
    return lambda row, random: row | {name: random.choice(OVERFLOWS)}


def _negative(name: str) -> Callable[[Row, Random], Row]:
    return lambda row, random: row | {name: -random.uniform(1, 1e8)}


def _times(name: str, factor: float) -> Callable[[Row, Random], Row]:
    # A little data may be rounding.
    return lambda row, _: row | {name: (row[name] + 1000) * factor}


CPU_KINDS: Final[Mapping[str, Callable[[Row, Random], Row]]] = {
    "zeros": _zeros,
    "overflow": _overflow("user"),
    "negative": _negative("iowait"),
    "too much idle": lambda row, random: row | {"idle": row["idle"] + random.uniform(6, 90)},
}
DEVICE_KINDS: Final[Mapping[str, Callable[[Row, Random], Row]]] = {
    "rate beyond any device": _overflow("r/s"),
    "negative rate": _negative("wkB/s"),
    "busy for longer than the time": lambda row, random: row | {"util": random.uniform(106, 3e8)},
    "2048 times the data": _times("wkB/s", 2048),
    "sectors taken for kB": lambda row, _: row | {"r/s": 5000.0, "rareq-sz": 64.0, "rkB/s": 640000.0},
    "merges of another release": lambda row, _: (
        row | {"w/s": 100.0, "wrqm/s": 300.0, "wrqm": 0.0, "wkB/s": 100 * row["wareq-sz"]}
    ),
}
_DEVICE: Final = ("r/s", "rkB/s", "rrqm/s", "rrqm", "rareq-sz", "w/s", "wkB/s", "wrqm/s", "wrqm", "wareq-sz", "util")


def iostat(seed: int, *, megabytes: bool = False, decimals: int = 2, broken: bool = True) -> Printed:
    """`iostat -xt`, with -m or -k, and --dec: 20 reports of CPU and two devices."""
    random, out = Random(seed), Printed()
    out.add("Linux 6.1.0 (host) \t01/02/2026 \t_x86_64_\t(4 CPU)\n")
    unit, size = ("MB/s", 1 / 1024) if megabytes else ("kB/s", 1.0)
    names = ("%" + name if name in ("rrqm", "wrqm", "util") else name.replace("kB/s", unit) for name in _DEVICE)
    header = "Device " + " ".join(names)
    for report in range(20):
        out.add(f"01/02/2026 10:{report:02}:00 AM")
        out.add("avg-cpu:  %user   %nice %system %iowait  %steal   %idle")
        row, wrong = _maybe(cpu_row(random), CPU_KINDS, random, broken=broken)
        out.add("      " + " ".join(f"{row[name]:7.{decimals}f}" for name in CPU), "cpu_samples", broken=wrong)
        out.add("\n" + header)
        for device in ("sda", "nvme0n1"):
            row, wrong = _maybe(device_row(random), DEVICE_KINDS, random, broken=broken)
            shown = (row[name] * (size if name.endswith("kB/s") else 1) for name in _DEVICE)
            out.add(
                f"{device:10} " + " ".join(f"{value:8.{decimals}f}" for value in shown), "device_samples", broken=wrong
            )
        out.add("")
    return out


def sar(seed: int, *, broken: bool = True) -> Printed:
    """`sar -u -P ALL` of 20 intervals and two CPUs, with a header for each interval."""
    random, out = Random(seed), Printed()
    out.add("Linux 6.1.0 (host) \t01/02/2026 \t_x86_64_\t(2 CPU)\n")
    for report in range(20):
        out.add(f"10:{report:02}:00     CPU     %user     %nice   %system   %iowait    %steal     %idle")
        for cpu in ("all", "0", "1"):
            row, wrong = _maybe(cpu_row(random), CPU_KINDS, random, broken=broken)
            table = "cpu_samples" if cpu == "all" else "core_samples"
            values = " ".join(f"{row[name]:9.2f}" for name in CPU)
            out.add(f"10:{report + 1:02}:00     {cpu:>3} {values}", table, broken=wrong)
        out.add("")
    return out


def vmstat(seed: int, *, broken: bool = True) -> Printed:
    """`vmstat` of 40 samples in whole percents."""
    random, out = Random(seed), Printed()
    out.add("procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----")
    out.add(" r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st")
    for _ in range(40):
        row, wrong = _maybe(cpu_row(random), {"zeros": _zeros}, random, broken=broken)
        shares = [row["user"] + row["nice"], row["system"], row["idle"], row["iowait"], row["steal"]]
        values = " ".join(f"{share:.0f}" for share in shares)
        out.add(
            f" 1  0      0 812345  20480 512000    0    0     5    12  100  200 {values}", "cpu_samples", broken=wrong
        )
    return out


def dstat(seed: int, *, broken: bool = True) -> Printed:
    """`dstat -cdn --output` of 40 samples."""
    random, out = Random(seed), Printed()
    out.add('"Dstat 0.7.2 CSV output"')
    out.add('"Host:","host1",,,,"User:","root"')
    out.add('"Cmdline:","dstat -cdn --output log.csv",,,,"Date:","07 Dec 2026 10:00:00 UTC"')
    out.add(
        '\n"total cpu usage",,,,,,"dsk/total",,"net/total",\n'
        '"usr","sys","idl","wai","hiq","siq","read","writ","recv","send"'
    )
    for _ in range(40):
        row, wrong = _maybe(cpu_row(random), {"zeros": _zeros}, random, broken=broken)
        shares = [row["user"] + row["nice"], row["system"], row["idle"], row["iowait"], row["steal"], 0.0]
        rates = [random.uniform(0, 1e6) for _ in range(4)]
        negative = random.choice(("device_samples", "net_samples", "")) if broken and random.random() < 0.3 else ""
        if negative:
            rates[0 if negative == "device_samples" else 3] *= -1
        for table, it in (("cpu_samples", wrong), ("device_samples", None), ("net_samples", None)):
            if it or table == negative:
                out.doubtful.setdefault(table, []).append(len(out.text.encode()))
        out.add(",".join(f"{value:.3f}" for value in (*shares, *rates)))
    return out


def _maybe(
    row: Row, kinds: Mapping[str, Callable[[Row, Random], Row]], random: Random, *, broken: bool
) -> tuple[Row, bool]:
    """The row, or in one of four cases what cannot be, and whether it cannot."""
    if not broken or random.random() > 0.25:
        return row, False
    return kinds[random.choice(list(kinds))](row, random), True


PRINTERS: Final[Mapping[str, Callable[..., Printed]]] = {
    "iostat": iostat,
    "iostat -m": lambda seed, **options: iostat(seed, megabytes=True, **options),
    "iostat --dec=0": lambda seed, **options: iostat(seed, decimals=0, **options),
    "iostat -m --dec=0": lambda seed, **options: iostat(seed, megabytes=True, decimals=0, **options),
    "sar": sar,
    "vmstat": vmstat,
    "dstat": dstat,
}

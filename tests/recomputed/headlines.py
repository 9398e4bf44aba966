"""Each headline's numbers, bound to what is recomputed from the raw files.

A binding is the form of a sentence, with `<n>` for each number, and a function that gives the value of each from the
recording. A sentence of no known form, or of a form with a number that nobody recomputes, is a complaint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from tests.recomputed.quantities import Ratio, adjust_by_holm, paired_ratio, rate_after, throttled_share
from tests.recomputed.truth import SKIP_FIRST, Truth

#: Numbers that sentences spell out.
WORDS: Final = {
    word: value
    for value, word in enumerate(
        ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    )
}
_SPELLED: Final = "|".join([*WORDS, *map(str.capitalize, WORDS)])
_NUMBER: Final = rf"(-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|(?:{_SPELLED})(?![\w-]))"
_KINDS: Final = {
    "n": _NUMBER,
    "op": "(INSERT|SELECT)",
    "clock": r"(\d\d:\d\d:\d\d)",
    "time": r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)",
    "text": "(.+?)",
    "name": "([^()]+)",
}
_PLACE: Final = re.compile(r"<(n|op|time|clock|text|name)>")


@dataclass(frozen=True)
class Within:
    """The raw files give no single value, but its bounds."""

    low: float
    high: float


Expected = Sequence[float | Within]


@dataclass(frozen=True)
class Said:
    """What a sentence says at the places of its form: its numbers as printed, and its words."""

    form: str
    numbers: tuple[str, ...]
    words: tuple[str, ...]

    def value(self, place: int) -> float:
        """The number at a place."""
        return read_number(self.numbers[place])


Recompute = Callable[[Truth, Said], Expected]


@dataclass(frozen=True)
class Binding:
    """A form of sentences, and what gives its numbers."""

    page: str
    form: str
    recompute: Recompute

    def match(self, sentence: str) -> Said | None:
        """The numbers and words of a sentence of this form; None: it has another form."""
        parts = _PLACE.split(self.form)
        pattern = "".join(re.escape(part) if place % 2 == 0 else _KINDS[part] for place, part in enumerate(parts))
        found = re.fullmatch(pattern, sentence)
        if found is None:
            return None
        kinds = parts[1::2]
        numbers = tuple(text for kind, text in zip(kinds, found.groups(), strict=True) if kind == "n")
        return Said(self.form, numbers, tuple(t for k, t in zip(kinds, found.groups(), strict=True) if k != "n"))


#: p up to which a difference counts as found.
ALPHA: Final = 0.05
#: Share of periods from which a quota is the limit of a server, in per cent.
STOPPED_PERCENT: Final = 50.0
#: Most seconds of a start-up, half of a run.
MOST_START_S: Final = 15
#: How sure the begin, the end and the amount of other work on a machine are.
UNSURE_S: Final = 4.0
UNSURE_PERCENT: Final = 3.0
BINDINGS: Final = list[Binding]()


def binds(page: str, form: str) -> Callable[[Recompute], Recompute]:
    """Bind a form of sentences of a page to the function below."""
    literal = _PLACE.sub("", form)
    if re.search(r"\d", literal):
        raise ValueError(f"a number of {form!r} is not recomputed")

    def bind(recompute: Recompute) -> Recompute:
        BINDINGS.append(Binding(page, form, recompute))
        return recompute

    return bind


def read_number(text: str) -> float:
    """The value of a printed number: `1,477` is 1477, `eight` is 8."""
    return float(WORDS[text.lower()]) if text.lower() in WORDS else float(text.replace(",", ""))


def agrees(text: str, expected: float | Within) -> bool:
    """Whether a printed number is the expected one, but for the rounding to its last printed digit.

    >>> agrees("7.6", 7.631), agrees("7.6", 7.69), agrees("1,477", 1476.9), agrees("eight", 8)
    (True, False, True, True)
    """
    if isinstance(expected, Within):
        return expected.low <= read_number(text) <= expected.high
    if text.lower() in WORDS:
        return expected == WORDS[text.lower()]
    mantissa, _, exponent = text.replace(",", "").partition("e")
    digits = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - digits)
    return abs(read_number(text) - expected) <= unit * 0.5 * (1 + 1e-6) + 1e-12


def complain(page: str, sentence: str, truth: Truth) -> list[str]:
    """What is wrong with a sentence of a page; empty: each of its numbers is what the raw files give."""
    forms = [(one, said) for one in BINDINGS if one.page == page and (said := one.match(sentence))]
    if len(forms) != 1:
        what = "nobody recomputed this sentence" if not forms else f"{len(forms)} forms fit this sentence"
        return [f"{page}: {what}: {sentence}"]
    ((binding, said),) = forms
    try:
        expected = binding.recompute(truth, said)
    except (AssertionError, LookupError, ValueError) as error:
        return [f"{page}: {error}: {sentence}"]
    if len(expected) != len(said.numbers):
        return [f"{page}: {len(said.numbers)} numbers, of which {len(expected)} were recomputed: {sentence}"]
    return [
        f"{page}: {text} is {value if isinstance(value, Within) else format(value, '.6g')} by the raw files: {sentence}"
        for text, value in zip(said.numbers, expected, strict=True)
        if not agrees(text, value)
    ]


# Servers


@binds(
    "server",
    "<n> records of <n> server logs, from <time> to <time> UTC, report <n> statements sent by clients (<n> s in total) "
    "and <n> statements sent by other nodes (<n> s in total).",
)
def count_statements(truth: Truth, said: Said) -> Expected:
    """All records and statements of the logs."""
    sent, asked = truth.recording.executions
    times = [time for log in truth.logs for time, *_ in log.records]
    assert said.words == (min(times)[:19], max(times)[:19]), f"the records are from {min(times)} to {max(times)}"
    seconds = [float(one["total_us"].sum()) / 1e6 for one in (sent, asked)]
    return [len(times), len(truth.logs), len(sent), seconds[0], len(asked), seconds[1]]


@binds("server", "The largest total time, <n> %, is that of <text> (<n> executions, mean <n> ms).")
def name_largest_total(truth: Truth, said: Said) -> Expected:
    """The statement with the largest total time among those of clients."""
    sent, _ = truth.recording.executions
    texts = sent["text"].str.replace(r"'[^']*'|\d{5,}|\$\d+", "?", regex=True)
    totals = sent["total_us"].groupby(texts).sum()
    largest = str(totals.idxmax())
    assert re.sub(r"\$\d+", "?", said.words[0])[:40] == largest[:40], f"the largest total is that of {largest}"
    rows = sent.loc[texts == largest, "total_us"]
    return [100 * float(rows.sum()) / float(totals.sum()), len(rows), float(rows.mean()) / 1000]


@binds("server", "The longest single statement took <n> s and ended at <time> UTC: <text>.")
def name_longest(truth: Truth, said: Said) -> Expected:
    """The longest statement of a client."""
    sent, _ = truth.recording.executions
    longest = sent.nlargest(1, "total_us").iloc[0]
    assert said.words == (f"{longest['end']:%F %T}", longest["text"]), f"the longest is {longest['text']}"
    return [longest["total_us"] / 1e6]


@binds("server", "No record of severity WARNING or worse was logged.")
def deny_warnings(truth: Truth, said: Said) -> Expected:
    """The levels of the records."""
    levels = {level for log in truth.logs for *_, level, _ in log.records}
    assert not levels & {"WARNING", "ERROR", "FATAL", "PANIC"}, f"there are records of {sorted(levels)}"
    return []


@binds(
    "server",
    "The servers logged <n> completed checkpoints, but no lock waits, deadlocks, automatic vacuums, temporary files "
    "or ended sessions; other events may have occurred that they are not configured to log.",
)
def count_events(truth: Truth, said: Said) -> Expected:
    """Records of other events than statements."""
    texts = [text for log in truth.logs for *_, text in log.records]
    absent = ("still waiting for", "deadlock detected", "automatic vacuum", "temporary file:", "disconnection:")
    found = [word for word in absent if any(word in text for text in texts)]
    assert not found, f"the logs have records of {found}"
    return [sum(text.startswith("checkpoint complete") for text in texts)]


@binds(
    "server",
    "In all logs together, <n> remote <op>s took <n> ms on average, whatever their configuration and the state of "
    "their session: <n> % in the parent, <n> % in the child and <n> % between them.",
)
def divide_remote(truth: Truth, said: Said) -> Expected:
    """All statements of that kind with tasks on other nodes."""
    sent, _ = truth.recording.executions
    return truth.divide(sent[(sent["kind"] == said.words[0]) & (sent["executed"] == "remote")])


# Profile


@binds(
    "profile",
    "On <n> workers with <n> client threads, a remote <op> of the sampled client takes <n> ms on the server in "
    "the steady "
    "state: <n> % in the parent, <n> % in the child and <n> % between them (means of <n> statements).",
)
def divide_steady(truth: Truth, said: Said) -> Expected:
    """Remote statements in the largest cluster of the usual set-up."""
    workers = truth.grid["workers"].max()
    n, *parts = truth.divide(truth.remote(truth.steady, said.words[0], workers))
    return [workers, truth.grid["threads"].iloc[0], *parts, n]


_CONNECTED = (
    "<n> of <n> remote <op>s (<n> %) opened one to another node and took <n> ms, <n> ms of it for the connection "
)
_CONNECTED += "(<n> ms for each of the <n>)"


@binds("profile", f"The steady state leaves out statements that opened a connection: {_CONNECTED}.")
@binds("profile", f"The steady state leaves out statements that opened a connection: {_CONNECTED}; {_CONNECTED}.")
def find_connecting(truth: Truth, said: Said) -> Expected:
    """Statements after the start of their session that waited for a connection, in the same clusters."""
    found = list[float]()
    later = truth.sampled[truth.sampled["place"] > SKIP_FIRST]
    for operation in said.words:
        every = truth.remote(later, operation, truth.grid["workers"].max())
        opened = every[every["opened"] > 0]
        wait_ms = opened["opened_us"].sum() / 1000
        found += [len(opened), len(every), 100 * len(opened) / len(every), opened["total_us"].mean() / 1000]
        found += [wait_ms / len(opened), wait_ms / len(every), len(every)]
    return found


def _compare_sizes(truth: Truth, operation: str) -> tuple[float, float, float, Ratio]:
    """The largest cluster, the smallest with statements for other nodes, threads, and the ratio of times."""
    steady = truth.steady[truth.steady["resource"].isin(truth.usual) & (truth.steady["operation"] == operation)]
    remote = steady[steady["executed"] == "remote"]
    large, small = remote["workers"].max(), remote["workers"].min()
    longer, shorter = (truth.means_by_run(truth.remote(truth.steady, operation, size)) for size in (large, small))
    return large, small, truth.grid["threads"].iloc[0], paired_ratio(longer, shorter)


@binds(
    "profile",
    "On <n> workers, a remote <op> takes <n> times as long as on <n> workers with <n> client threads (<n> to <n>).",
)
def compare_sizes(truth: Truth, said: Said) -> Expected:
    """The time of steady remote statements on the largest and on the smallest cluster, block by block."""
    large, small, threads, ratio = _compare_sizes(truth, said.words[0])
    assert not ratio.low <= 1 <= ratio.high, f"the interval {ratio.low:.2f} to {ratio.high:.2f} holds 1"
    return [large, ratio.value, small, threads, ratio.low, ratio.high]


@binds(
    "profile",
    "The runs do not decide whether a remote <op> takes longer on <n> workers than on <n> workers with <n> "
    "client threads.",
)
def leave_sizes_open(truth: Truth, said: Said) -> Expected:
    """The same where no difference was found."""
    large, small, threads, ratio = _compare_sizes(truth, said.words[0])
    assert ratio.low <= 1 <= ratio.high, f"the interval {ratio.low:.2f} to {ratio.high:.2f} excludes 1"
    return [large, small, threads]


@binds(
    "profile",
    "A SELECT whose shard is on its parent's own node takes <n> to <n> times as long as one that is sent to "
    "another node "
    "(in <n> configurations).",
)
def compare_places(truth: Truth, said: Said) -> Expected:
    """Steady SELECTs of the usual set-up, in each size and load of it, block by block."""
    ratios = []
    for _, rows in truth.steady.query("operation == 'SELECT'").groupby("resource"):
        if set(rows["resource"]) <= set(truth.usual_loads) and rows["executed"].nunique() == 2:
            local, remote = (truth.means_by_run(rows[rows["executed"] == place]) for place in ("local", "remote"))
            ratios.append(paired_ratio(local, remote))
    decided = [one.value for one, p in zip(ratios, adjust_by_holm([one.p for one in ratios]), strict=True) if p < 0.05]
    return [min(decided), max(decided), len(decided)]


_AT_CLIENT = "its <op>s took <n> ms at the client, <n> times as long as those of the main clients (<n> to <n>)"


@binds(
    "profile",
    f"These are times of the sampled client, not of the main clients: {_AT_CLIENT}, all states of its sessions "
    f"included.",
)
@binds(
    "profile",
    f"These are times of the sampled client, not of the main clients: {_AT_CLIENT}; {_AT_CLIENT}, all states of its "
    "sessions included.",
)
def compare_clients(truth: Truth, said: Said) -> Expected:
    """What both clients printed as their mean latency, block by block, in the same clusters."""
    found = list[float]()
    for operation in said.words:
        resource = truth.find_resource(operation, truth.grid["workers"].max())
        clients = truth.recording.clients
        clients = clients[clients["resource"] == resource].set_index("iteration")
        sampled, main = (clients.loc[clients["role"] == role, "latency_us"] for role in ("monitor", "main"))
        ratio = paired_ratio(sampled, main)
        found += [float(sampled.mean()) / 1000, ratio.value, ratio.low, ratio.high]
    return found


@binds(
    "profile",
    "<n> of <n> sampled statements of <n> runs were profiled, without <n> (one of the first <n> of its "
    "session) and <n> "
    "(opened a connection to another node); <n> % of <n> tasks on other nodes were paired exactly with their "
    "execution.",
)
@binds(
    "profile",
    "<n> of <n> sampled statements of <n> runs were profiled, without <n> (opened a connection to another "
    "node) and <n> "
    "(one of the first <n> of its session); all <n> tasks on other nodes were paired exactly with their execution.",
)
def count_sampled(truth: Truth, said: Said) -> Expected:
    """All sampled statements by state; pairs of which each child ended within its task are exact, and others may be."""
    sampled = truth.sampled
    start = sampled["place"] <= SKIP_FIRST
    opened = ~start & (sampled["opened"] > 0)
    apart = [int(start.sum()), SKIP_FIRST], [int(opened.sum())]
    if ") and <n> (one of" in said.form:
        apart = apart[1], apart[0]
    sent = truth.alone(truth.recording.statements)
    share = Within(100 * float(sent["in_time"].sum() / sent["tasks"].sum()), 100.0)
    pairs = [sent["tasks"].sum()] if "; all <n>" in said.form else [share, sent["tasks"].sum()]
    runs = sampled.groupby(["resource", "iteration"]).ngroups
    return [int((~start & ~opened).sum()), len(sampled), runs, *apart[0], *apart[1], *pairs]


# Comparison


def _find_variant(truth: Truth, operation: str, name: str) -> str:
    """The configuration of a variant by its name, which begins with that of its set-up."""
    variants = truth.variants(operation)
    (resource,) = variants.loc[[name.startswith(one) for one in variants["set_up"]], "resource"]
    return str(resource)


def _tell_variant(truth: Truth, operation: str, name: str) -> list[float]:
    """The ratio to the usual set-up and its interval, which the runs decide."""
    ratio = truth.compare_variants(operation)[_find_variant(truth, operation, name)]
    assert ratio.p <= ALPHA, f"{operation} with {name} is undecided, p = {ratio.p:.3f}"
    return [ratio.value, ratio.low, ratio.high]


_THAN_USUAL = "<n> times as fast as with “<text>” (<n> to <n>)"


@binds(
    "comparison",
    "With “<text>”, <op> on <n> workers with <n> threads is <n> times as fast as with “<text>” (<n> to <n>).",
)
def compare_variant(truth: Truth, said: Said) -> Expected:
    """One variant and one operation."""
    name, operation, base = said.words
    row = truth.runs[truth.runs["resource"] == truth.base(operation)].iloc[0]
    assert base.startswith(row["set_up"]), f"the base is {row['set_up']}"
    return [row["workers"], row["threads"], *_tell_variant(truth, operation, name)]


@binds(
    "comparison",
    "With “<text>”, on <n> workers with <n> threads, <op> is <n> times as fast as with “<text>” (<n> to <n>) "
    "and <op> <n> "
    "times (<n> to <n>).",
)
def compare_variant_twice(truth: Truth, said: Said) -> Expected:
    """One variant and both operations."""
    name, first, base, second = said.words
    row = truth.runs[truth.runs["resource"] == truth.base(first)].iloc[0]
    assert base.startswith(row["set_up"]), f"the base is {row['set_up']}"
    parts = [_tell_variant(truth, operation, name) for operation in (first, second)]
    return [row["workers"], row["threads"], *parts[0], *parts[1]]


def _compared(truth: Truth) -> list[tuple[str, str, float, float]]:
    """Operation, set-up, ratio of means or of blocks, and adjusted p (1 where one side has a single run) of each."""
    found = []
    for operation in ("INSERT", "SELECT"):
        base = truth.rates(truth.base(operation)) if operation in set(truth.grid["operation"]) else None
        if base is None:
            continue
        tested = truth.compare_variants(operation)
        for row in truth.variants(operation).itertuples():
            ratio = tested.get(str(row.resource))
            value = ratio.value if ratio else float(truth.rates(str(row.resource)).mean() / base.mean())
            found.append(
                (operation, f"{row.set_up} {row.drivers} {row.monitored}", value, ratio.p if ratio else float("nan"))
            )
    return found


@binds("comparison", "<n> of <n> comparisons are inconclusive (ratios from <n> to <n>).")
def count_undecided(truth: Truth, said: Said) -> Expected:
    """Comparisons that the runs do not decide."""
    found = _compared(truth)
    ratios = [ratio for *_, ratio, p in found if p > ALPHA]
    return [len(ratios), len(found), min(ratios), max(ratios)]


@binds(
    "comparison",
    "<n> of <n> comparisons have a ratio without a verdict (ratios from <n> to <n>): one side has a single run and so "
    "no spread.",
)
def count_single_runs(truth: Truth, said: Said) -> Expected:
    """Comparisons without a p-value."""
    found = _compared(truth)
    ratios = [ratio for *_, ratio, p in found if p != p]
    return [len(ratios), len(found), min(ratios), max(ratios)]


@binds("comparison", "<n> set-ups were compared with “<text>”, in <n> comparisons.")
def count_compared(truth: Truth, said: Said) -> Expected:
    """All comparisons with the usual set-up."""
    found = _compared(truth)
    return [len({one[1] for one in found}), len(found)]


@binds("comparison", "<n> set-up was compared with <text>, in <n> comparison.")
def count_one_compared(truth: Truth, said: Said) -> Expected:
    """The only comparison."""
    return count_compared(truth, said)


@binds(
    "comparison",
    "The mean throughputs are <n> operations/s for “<text>” (mean of <n> runs) and <n> operations/s for “<text>” "
    "(mean of <n> runs).",
)
def state_means(truth: Truth, said: Said) -> Expected:
    """Both sides of the only comparison."""
    ((operation, *_),) = _compared(truth)
    sides = [truth.rates(_find_variant(truth, operation, said.words[0])), truth.rates(truth.base(operation))]
    return [float(sides[0].mean()), len(sides[0]), float(sides[1].mean()), len(sides[1])]


@binds(
    "comparison",
    "On postgresql (one server that may use <n> cores), <op> with <n> threads is <n> times as fast as on “<text>” (<n> "
    "workers and a coordinator that may use <n> cores each) (<n> to <n>).",
)
def compare_systems(truth: Truth, said: Said) -> Expected:
    """One server against the cluster whose nodes may use as much in all."""
    operation, base = said.words
    runs = truth.runs[truth.runs["operation"] == operation].drop_duplicates("resource")
    (server,) = runs[runs["system"] == "postgresql"].to_dict("records")
    usual = runs[runs["resource"].isin(truth.usual)]
    (cluster,) = usual[np.isclose((usual["workers"] + 1) * usual["cpu_per_node"], server["cpu_per_node"])].to_dict(
        "records"
    )
    ratio = paired_ratio(truth.rates(server["resource"]), truth.rates(cluster["resource"]))
    assert base.startswith(f"citus, {cluster['set_up']}"), f"the set-up is {cluster['set_up']}"
    assert ratio.p <= ALPHA
    start = [server["cpu_per_node"], server["threads"], ratio.value, cluster["workers"], cluster["cpu_per_node"]]
    return [*start, ratio.low, ratio.high]


@binds("comparison", "<n> of the <n> comparisons of other pairs is inconclusive.")
def count_other_pairs(truth: Truth, said: Said) -> Expected:
    """PostgreSQL's for each operation, and the two protocols of pgbench."""
    systems = truth.runs.query("system == 'postgresql'")["operation"].unique()
    protocols = truth.runs.query("program == 'pgbench'")["resource"].unique()
    a, b = (truth.rates(str(name)) for name in protocols)
    assert paired_ratio(a, b).p > ALPHA
    return [1, len(systems) + 1]


# Scalability


@binds("scalability", "<op>: <n> workers do <n> times the work of <n> (<n> to <n>) with <n> threads.")
def grow_by_workers(truth: Truth, said: Said) -> Expected:
    """The largest cluster of the usual set-up against the smallest."""
    many, few, ratio = truth.growth(said.words[0], "workers")
    assert ratio.p <= ALPHA
    return [many, ratio.value, few, ratio.low, ratio.high, truth.grid["threads"].iloc[0]]


@binds("scalability", "<op>: <n> threads do only <n> times the work of <n> (<n> to <n>) with <n> workers.")
def fall_by_threads(truth: Truth, said: Said) -> Expected:
    """The most threads against the fewest."""
    many, few, ratio = truth.growth(said.words[0], "threads")
    assert ratio.p <= ALPHA
    assert ratio.value < 1
    return [many, ratio.value, few, ratio.low, ratio.high, truth.workers_of_threads]


@binds(
    "scalability",
    "<op>: <n> threads do only <n> times the work of <n> (<n> to <n>) with <n> workers; without the start-up "
    "of up to <n> "
    "s it stays the same (<n> times, <n> to <n>).",
)
def fall_at_start(truth: Truth, said: Said) -> Expected:
    """The same, and the ratio of the later seconds, of which the fall does not hold."""
    start_s = int(said.value(6))
    many, few = (truth.later_rates(said.words[0], place, start_s) for place in (-1, 0))
    later = paired_ratio(many, few, 0.9)  # as the two one-sided tests that find equality
    assert later.low <= 1 <= later.high
    assert paired_ratio(truth.early_rates(said.words[0], -1, start_s), many).high < 1, "the start was not slower"
    return [*fall_by_threads(truth, said), start_s, later.value, later.low, later.high]


@binds(
    "scalability",
    "<op>: these runs do not show whether <n> threads do more or less work than <n> with <n> workers (<n> "
    "times, <n> to <n>).",
)
def leave_threads_open(truth: Truth, said: Said) -> Expected:
    """The same where the runs do not decide."""
    many, few, ratio = truth.growth(said.words[0], "threads")
    assert ratio.p > ALPHA
    return [many, few, truth.workers_of_threads, ratio.value, ratio.low, ratio.high]


_STEADY = "<n> s {} (<n> times, <n> to <n>)."


def _grow_steadily(truth: Truth, said: Said, axis: str) -> list[float | Within]:
    """The start-up that is left out, and bounds of the ratio of what follows it.

    Where a start-up ends is known to a second, and that of the other side may be any up to it: the stated ratio has to
    lie among those of all such cuts.
    """
    names = truth.by_axis(said.words[0], axis)
    stated = int(said.value(len(said.numbers) - 4))
    many, few = names[-1], names[0]
    assert max(truth.find_start(name) for name in (few, many)) <= stated + 1, "the start-up takes longer"
    assert stated <= MOST_START_S, "more than half of a run is left out"
    cuts = range(stated + 2)
    later = {(name, cut): rate_after(truth.runs, name, cut) for name in (many, few) for cut in cuts}
    ratios = [
        paired_ratio(later[many, first], later[few, second], family=len(names) - 1)
        for first in cuts
        for second in cuts
        if max(first, second) >= stated - 1
    ]
    ends = [[getattr(one, end) for one in ratios] for end in ("value", "low", "high")]
    return [float(stated), *(Within(min(one) - 0.005, max(one) + 0.005) for one in ends)]


@binds(
    "scalability",
    "<op>: <n> workers do <n> times the work of <n> (<n> to <n>) with <n> threads; without the start-up of up to "
    + _STEADY.format("this holds"),
)
def grow_by_workers_steadily(truth: Truth, said: Said) -> Expected:
    """The same, and that it holds for the steady parts."""
    later = _grow_steadily(truth, said, "workers")
    assert isinstance(later[2], Within)
    assert later[2].high > 1, "it does not hold"
    return [*grow_by_workers(truth, said), *later]


def _leave_threads_open_steadily(truth: Truth, said: Said) -> Expected:
    later = _grow_steadily(truth, said, "threads")
    assert isinstance(later[2], Within)
    assert isinstance(later[3], Within)
    assert later[2].low < 1 < later[3].high, "it is decided"
    return later


@binds(
    "scalability",
    "<op>: these runs do not show whether <n> threads do more or less work than <n> with <n> workers (<n> "
    "times, <n> to "
    "<n>); without the start-up of up to " + _STEADY.format("they do not show it either"),
)
def leave_threads_open_steadily(truth: Truth, said: Said) -> Expected:
    """The same, and that the steady parts do not decide."""
    return [*leave_threads_open(truth, said), *_leave_threads_open_steadily(truth, said)]


@binds(
    "scalability",
    "<op>: <n> threads do only <n> times the work of <n> (<n> to <n>) with <n> workers; without the start-up of up to "
    + _STEADY.format("these runs do not show a change"),
)
def fall_at_start_only(truth: Truth, said: Said) -> Expected:
    """The same, and that the steady parts do not decide."""
    return [*fall_by_threads(truth, said), *_leave_threads_open_steadily(truth, said)]


@binds(
    "scalability",
    "<op>: <n> threads do only <n> times the work of <n> (<n> to <n>) with <n> workers; without the start-up of up to "
    + _STEADY.format("this holds"),
)
def fall_by_threads_steadily(truth: Truth, said: Said) -> Expected:
    """The same, and that it holds for the steady parts."""
    later = _grow_steadily(truth, said, "threads")
    assert isinstance(later[3], Within)
    assert later[3].low < 1, "it does not hold"
    return [*fall_by_threads(truth, said), *later]


@binds(
    "scalability",
    "The highest throughput was <n> operations/s for <op> (<name>, mean of <n> runs) and <n> operations/s for <op> "
    "(<name>, mean of <n> runs).",
)
@binds("scalability", "The highest throughput was <n> operations/s for <op> (<name>, mean of <n> runs).")
def find_highest(truth: Truth, said: Said) -> Expected:
    """The configuration with the largest mean, of all."""
    found = list[float]()
    for operation, named in zip(said.words[::2], said.words[1::2], strict=True):
        runs = truth.runs[truth.runs["operation"] == operation]
        means = runs.groupby("resource")["throughput"].mean()
        best = str(means.idxmax())
        assert best in named, f"the highest throughput of {operation} is that of {best}"
        found += [float(means.max()), int((runs["resource"] == best).sum())]
    return found


@binds(
    "scalability",
    "<n> runs of <n> configurations were analysed; <n> runs were made while the machine did other work and are left "
    "out: <text>.",
)
@binds(
    "scalability",
    "<n> runs of <n> configurations were analysed; <n> run was made while the machine did other work and is left "
    "out: <text>.",
)
def count_runs(truth: Truth, said: Said) -> Expected:
    """Runs that were alone on their machine, and the others."""
    assert not truth.recording.runs["failed"].any(), "operations failed"
    assert set(re.split(", | and ", said.words[0])) == set(truth.doubtful["resource"]), "other runs were left out"
    return [len(truth.runs), truth.runs["resource"].nunique(), len(truth.doubtful)]


@binds("scalability", "<n> runs of <n> configurations were analysed; no run failed.")
def count_all_runs(truth: Truth, said: Said) -> Expected:
    """All runs, where each was alone on its machine."""
    assert truth.doubtful.empty, "some runs were beside other work"
    assert not truth.recording.runs["failed"].any(), "operations failed"
    return [len(truth.runs), truth.runs["resource"].nunique()]


# Resources


def _throttled(truth: Truth, *, alone: bool = True) -> pd.Series[float]:
    """By configuration and control group: the mean over runs of the share of periods in which the quota stopped it."""
    rows = truth.recording.throttling
    shares = throttled_share(truth.alone(rows) if alone else rows)
    return shares.groupby(["resource", "group"])["share"].mean()


@binds(
    "resources",
    "A quota of CPU time stopped the server that reached it most often in <n> % of the kernel's periods in "
    "<text> to <n> % "
    "in <text> (means of runs). A stopped server continues at the beginning of the next period, so times of statements "
    "grow in steps of a period, and samples of a machine's CPUs do not show how busy a node was.",
)
def find_throttled(truth: Truth, said: Said) -> Expected:
    """The server of each configuration that was stopped most often."""
    most = _throttled(truth).groupby("resource").max()
    ends = most.min(), most.max()
    for name, end in zip(said.words, ends, strict=True):
        assert np.isclose(most[name], end, atol=0.5), f"{name} was stopped in {most[name]:.1f} % of periods"
    return [float(most.min()), float(most.max())]


@binds(
    "resources",
    "In <n> of <n> runs, a machine did so much work that is not the run's own that these runs are doubtful and enter "
    "no mean unless allowed: for <n> s between <time> and <clock> UTC, it took <n> to <n> % of its CPU time (<text>).",
)
@binds(
    "resources",
    "In <n> of <n> runs, a machine did so much work that is not the run's own that this run is doubtful and enters "
    "no mean unless allowed: for <n> s between <time> and <clock> UTC, it took <n> % of its CPU time (<text>).",
)
def find_foreign(truth: Truth, said: Said) -> Expected:
    """Runs with more user CPU than others at the same throughput, after the start of the clients.

    The usual CPU of a second is known to some points, and where other work begins and ends to some seconds: the stated
    seconds, times and shares have to lie within these of those found here.
    """
    seconds = truth.foreign_seconds
    begin, end = seconds["time"].min(), seconds["time"].max()
    for place, found in ((0, begin), (1, end)):
        stated = said.words[place] if place == 0 else f"{said.words[0][:10]} {said.words[1]}"
        off = (pd.Timestamp(stated, tz="UTC") - found).total_seconds()
        assert abs(off) <= UNSURE_S, f"other work was from {begin} to {end}"
    assert set(re.split("; ", said.words[2])) == set(truth.doubtful["resource"]), "other runs were doubtful"
    shares = seconds.groupby(["resource", "iteration"])["excess"].mean()
    low, high = (Within(share - UNSURE_PERCENT, share + UNSURE_PERCENT) for share in (shares.min(), shares.max()))
    around = Within(len(seconds) - UNSURE_S, len(seconds) + UNSURE_S)
    ends = [low, high] if "<n> to <n> % of its" in said.form else [low]
    return [len(truth.doubtful), len(truth.recording.runs), around, *ends]


@binds(
    "resources",
    "No machine did so much other work that a run is doubtful (<n> runs compared; <n> had some, for <n> s in all).",
)
def deny_foreign(truth: Truth, said: Said) -> Expected:
    """The runs with seconds in which the canary counted much CPU time of other programs."""
    assert truth.doubtful.empty, "some runs were beside other work"
    counts = truth.foreign_counts
    return [len(truth.recording.runs), len(counts), float(counts["seconds"].sum())]


@binds(
    "resources",
    "The CPUs of the machines, which are not those that a quota leaves to a node, had time to spare in all <n> systems "
    "(means from <n> % in <text> to <n> % in <text>).",
)
def state_busy(truth: Truth, said: Said) -> Expected:
    """iostat's CPU, the mean of each configuration."""
    means = truth.alone(truth.recording.iostat_samples).groupby("resource")["busy"].mean()
    assert said.words == (means.idxmin(), means.idxmax()), f"the ends are {means.idxmin()} and {means.idxmax()}"
    return [len(means), float(means.min()), float(means.max())]


@binds("resources", "<op> on <n> workers keeps the CPUs <n> % busy with <n> client threads and <n> % with <n>.")
def compare_busy(truth: Truth, said: Said) -> Expected:
    """The same by threads."""
    rows = truth.alone(truth.recording.iostat_samples)
    rows = rows[rows["resource"].isin(truth.usual_loads) & (rows["operation"] == said.words[0])]
    means = rows[rows["workers"] == truth.workers_of_threads].groupby("threads")["busy"].mean()
    few, many = means.index.min(), means.index.max()
    return [truth.workers_of_threads, float(means[few]), few, float(means[many]), many]


@binds(
    "resources",
    "At least one task on the machine of node <n> of <text> was stalled for the CPU <n> % of the time, and <n> % at "
    "most.",
)
def state_stalled_alone(truth: Truth, said: Said) -> Expected:
    """The same where that configuration has one node."""
    first, last, *shares = state_stalled(truth, said)
    assert first == last == 0, "it has several nodes"
    return [0, *shares]


@binds(
    "resources",
    "At least one task on the machine of nodes <n> to <n> of <text> was stalled for the CPU <n> % of the time, "
    "and <n> % at "
    "most.",
)
def state_stalled(truth: Truth, said: Said) -> Expected:
    """The configuration with the largest mean pressure of CPU."""
    stalls = truth.alone(truth.recording.stalls)
    means = stalls.groupby("resource")["share"].mean()
    most = str(means.idxmax())
    assert said.words[0] == most, f"it is {most}"
    nodes = truth.recording.descriptions[most]["facts"]["workers"]
    return [0, nodes, float(means.max()), float(stalls.loc[stalls["resource"] == most, "share"].max())]


@binds(
    "resources",
    "The busiest device, vda in <text>, had a request in flight <n> % of the time, and <n> % at most; a "
    "request took <n> ms "
    "on average.",
)
def state_device(truth: Truth, said: Said) -> Expected:
    """iostat's device; the time of a request is the mean over the samples."""
    samples = truth.alone(truth.recording.iostat_samples)
    means = samples.groupby("resource")["util"].mean()
    assert said.words[0] == means.idxmax(), f"it is {means.idxmax()}"
    rows = samples[samples["resource"] == means.idxmax()]
    return [float(means.max()), float(rows["util"].max()), float((rows["waited_ms"] / rows["requests"]).mean())]


@binds(
    "resources",
    "perf's report of <text> names the functions of <n> % of all samples: <n> % in postgres, <n> % in the "
    "kernel, <n> % in "
    "libc and <n> % elsewhere. The function with the largest share is <text>, <n> % (one recording). "
    "The event cpu-clock is a timer: its "
    "samples fall where interrupts are let in again, so that functions of the kernel that keep them out are "
    "counted under "
    "those that let them in (_raw_spin_unlock_irqrestore, finish_task_switch).",
)
def state_functions(truth: Truth, said: Said) -> Expected:
    """The lines of the report."""
    lines = truth.recording.read_perf(said.words[0])
    assert lines["name"].iloc[0] == said.words[1], f"most time was spent in {lines['name'].iloc[0]}"
    where = [("postgres",), ("[kernel.kallsyms]",), ("libc.so.6",)]
    shares = [float(lines.loc[lines["object"].isin(names), "share"].sum()) for names in where]
    every = float(lines["share"].sum())
    return [every, *shares, every - sum(shares), float(lines["share"].max())]


@binds(
    "resources",
    "Each of the <n> nodes of <text> had <n> to <n> connections from clients and <n> to <n> from other nodes "
    "(medians over "
    "time).",
)
def state_connections(truth: Truth, said: Said) -> Expected:
    """The snapshots of sessions of that configuration."""
    rows = truth.recording.sessions
    medians = rows[rows["resource"] == said.words[0]].groupby("node")[["client", "internal"]].median()
    return [
        len(medians),
        *(float(end) for name in ("client", "internal") for end in (medians[name].min(), medians[name].max())),
    ]


# Bottleneck


@binds("bottleneck", "In all <n> configurations the first limit is the CPU quota of the servers.")
def name_limit(truth: Truth, said: Said) -> Expected:
    """Each configuration has a server that its quota stopped in most periods."""
    most = _throttled(truth, alone=False).groupby("resource").max()
    assert (most > STOPPED_PERCENT).all(), f"{most.idxmin()} was stopped in {most.min():.0f} % of periods only"
    return [len(most)]


@binds(
    "bottleneck",
    "There is no sign that the load generator is the first limit in any of <n> configurations, but <n> "
    "resources have no "
    "snapshots of sessions, which would decide.",
)
def name_missing(truth: Truth, said: Said) -> Expected:
    """The files with snapshots."""
    folders = truth.recording.resources
    return [len(folders), sum(not any((one / "snapshots").glob("activity-*")) for one in folders)]


@binds(
    "bottleneck",
    "<text>, <op>: the first limit is the CPU quota of the servers (node <n>), confidence high: a quota "
    "stopped a control "
    "group of the servers of node <n> in <n> % of the periods.",
)
def state_limit(truth: Truth, said: Said) -> Expected:
    """The server of that configuration that was stopped most often."""
    throttled = _throttled(truth, alone=said.words[0] not in set(truth.doubtful["resource"])).reset_index()
    shares = throttled[throttled["resource"] == said.words[0]].set_index("group")["share"]
    node = float(str(shares.idxmax()).removeprefix("postgres-node"))
    return [node, node, float(shares.max())]

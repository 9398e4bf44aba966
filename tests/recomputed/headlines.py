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

from tests.recomputed.quantities import Ratio, adjust_by_holm, paired_ratio
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
    "time": r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)",
    "text": "(.+?)",
}
_PLACE: Final = re.compile(r"<(n|op|time|text)>")


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
    "and ended sessions; other events may have occurred that they are not configured to log.",
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
    "<text> <op> executed on another node takes <n> ms on average: <n> % in the parent, <n> % in the child and <n> % "
    "between them.",
)
def divide_remote(truth: Truth, said: Said) -> Expected:
    """All statements of that kind with tasks on other nodes."""
    sent, _ = truth.recording.executions
    return truth.divide(sent[(sent["kind"] == said.words[1]) & (sent["executed"] == "remote")])[1:]


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


@binds(
    "comparison",
    "<n> of <n> comparisons are inconclusive (ratios from <n> to <n>); in <n> of them one side has a single "
    "run and so no "
    "spread.",
)
def count_undecided(truth: Truth, said: Said) -> Expected:
    """Comparisons that the runs do not decide."""
    found = _compared(truth)
    undecided = [one for one in found if not one[3] <= ALPHA]
    ratios = [one[2] for one in undecided]
    return [len(undecided), len(found), min(ratios), max(ratios), sum(one[3] != one[3] for one in undecided)]


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
    "<op>: these runs do not show whether <n> threads do more or less work than <n> with <n> workers (<n> "
    "times, <n> to <n>).",
)
def leave_threads_open(truth: Truth, said: Said) -> Expected:
    """The same where the runs do not decide."""
    many, few, ratio = truth.growth(said.words[0], "threads")
    assert ratio.p > ALPHA
    return [many, few, truth.workers_of_threads, ratio.value, ratio.low, ratio.high]

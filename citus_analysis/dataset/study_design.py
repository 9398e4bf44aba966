"""The design of a study whose files follow no convention: which runs there are, and in what they differ.

The names of all files are taken apart together. A token that varies is a factor. What it means is only believed with
evidence: a word beside a number, equality with what the files say themselves, or a design that closes, in which each
cell has the same repeats. What is not explained is part of the set-up: results that differ in it never share a series.
Several files of a cell are generators of one run if they ran at the same time, and repeats otherwise; of those without
times, if their names number generators and they ran equally long, or state the sum of their threads.

A number without a word is only that of a repeat if nothing says otherwise: no word such as `config` beside it, no
other condition that the outputs state, and results of a cell that are alike and do not rise and fall with the number
in each cell. What is assumed either way is said in one sentence that names what to state if it is wrong.

Facts that somebody states, and what a file says of itself, have priority over its name.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Final, TypeAlias

from citus_analysis.dataset.identity import Facts, Identity, strip_compression_suffix, strip_path_suffixes
from citus_analysis.dataset.source_files import OwnFacts, SourceFile
from citus_analysis.runs.set_ups import USUAL_SET_UP
from citus_analysis.schema import TABLES
from citus_analysis.texts.words import pluralize

# Take a path apart into words and numbers, and find the words that say what the numbers are.
#
# A number is a fact if a word of the field stands beside it: directly (`w4`, `16threads`, `run2`), or apart (`nodes=4`,
# `results_8_workers`, `threads/16`). Which word belongs to which number is decided for a folder's or file's name at
# once: in `3w_16c` words follow their numbers, in `w_3_c_16` they precede them.

#: Word beside a number -> what the number may be; of several, the contents of the files decide.
MEANINGS: Final = {
    **dict.fromkeys(("worker", "workers", "w", "wk", "node", "nodes", "n", "nw", "numworkers"), ("workers",)),
    **dict.fromkeys(("thread", "threads", "t", "th", "thr", "threadcount", "numthreads"), ("threads",)),
    **dict.fromkeys(("clients", "c", "conn", "conns", "connections", "cl", "concurrency"), ("threads",)),
    **dict.fromkeys(("vu", "vus", "vuser", "vusers", "terminals", "users", "warehouseworkers"), ("threads",)),
    **dict.fromkeys(("run", "runs", "r", "rep", "reps", "repeat", "repetition"), ("iteration",)),
    **dict.fromkeys(("iter", "iteration", "it", "i", "trial", "round", "pass", "attempt", "try"), ("iteration",)),
    "client": ("part", "threads"),
    **dict.fromkeys(("driver", "part", "par", "generator", "gen", "loadgen", "loader"), ("part",)),
    **dict.fromkeys(("instance", "inst", "proc"), ("part",)),
    **dict.fromkeys(("records", "recs", "rows", "recordcount", "rc"), ("records",)),
    **dict.fromkeys(("scale", "sf", "s", "scalefactor", "warehouses", "wh"), ("scale_factor",)),
    **dict.fromkeys(("ops", "operations", "operationcount"), ("operations",)),
}
_YEAR, _MONTH, _DAY = r"20[0-4][0-9]", r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12][0-9]|3[01])"
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMED_MONTH: Final = rf"(?i:{'|'.join(_MONTHS)})[a-z]*"
_CLOCK: Final = r"(?:[01][0-9]|2[0-3])[-:_.h]?[0-5][0-9](?:[-:_.m]?[0-5][0-9])?s?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
#: Dates as people write them; a month and a day in either order.
_DATE: Final = (
    rf"(?:{_YEAR}(?P<between>[-_.]){_MONTH}(?P=between){_DAY}|{_YEAR}{_MONTH}{_DAY}"
    rf"|(?:{_MONTH}(?P<after>[-_.]){_DAY}|{_DAY}(?P<then>[-_.]){_MONTH})(?(after)(?P=after)|(?P=then)){_YEAR}"
    rf"|(?:{_MONTH}{_DAY}|{_DAY}{_MONTH}){_YEAR}"
    rf"|{_YEAR}[-_.]?{_NAMED_MONTH}[-_.]?{_DAY}|{_DAY}[-_.]?{_NAMED_MONTH}[-_.]?{_YEAR}"
    rf"|{_NAMED_MONTH}[-_.]?{_DAY}[-_.]?{_YEAR})"
    rf"(?:[T_ .-]?{_CLOCK})?"
    rf"|{_YEAR}-?[Ww][0-5][0-9](?:[-_.]?[1-7](?![0-9]))?"
    r"|1[5-9][0-9]{8}(?:[0-9]{3})?(?:\.[0-9]{1,9})?"
)
#: Types of instances as clouds name them, versions, and names that contain a number: their dots and hyphens separate
#: nothing.
_WHOLE: Final = (
    r"(?i:(?:db\.|cache\.)?(?:u-)?[a-z]{1,4}[0-9]{1,2}[a-z]{0,4}(?:-[a-z0-9]{1,8})?"
    r"\.(?:nano|micro|small|medium|large|[0-9]{0,3}xlarge|metal(?:-[0-9]{1,3}xl)?)"
    r"|[a-z][0-9][a-z]?-(?:standard|highmem|highcpu|ultramem|megamem|micro|small|medium)(?:-[0-9]{1,3})?"
    r"|standard_[a-z]{1,3}[0-9]{1,3}[a-z]{0,4}(?:_v[0-9])?|v[0-9]{1,3}(?:\.[0-9]{1,4})+"
    r"|k8s|k3s|x86(?:_64)?|amd64|arm64|aarch64|ec2|s3|ext4|lz4|md5|utf8(?:mb[34])?|latin1|o_?direct|io2|gp[23])"
)
_TOKEN: Final = re.compile(
    rf"(?P<date>(?<![0-9])(?:{_DATE})(?![0-9]))|(?P<whole>(?<![A-Za-z0-9])(?:{_WHOLE})(?![A-Za-z0-9]))"
    r"|(?P<number>[0-9]+(?:[kKmM](?![A-Za-z0-9]))?)|(?P<word>[^\W\d_]+)"
)
_ENDING: Final = re.compile(
    r"\.(?:log|out|output|txt|json|csv|tsv|dat|data|res|result|results|err|stdout|stderr)$", re.IGNORECASE
)
#: `outputRun` is two words.
_WORDS: Final = re.compile(r"[^\W\d_](?:(?<![a-z])[^\W\d_]|(?<=[a-z])(?![A-Z])[^\W\d_])*")
_FACTORS: Final = {"k": 1_000, "m": 1_000_000}


@dataclass(frozen=True)
class Token:
    """A word, number or date in a path.

    Attributes:
        text: as it stands there.
        kind: `word`, `number` or `date`.
        part: number of the folder or file in the path, from 0.
        cluster: number of the cluster in that part: tokens without anything between them form one.
        label: the word that says what the number is, in lower case; None if none does.
        is_name: the label stands directly before it, as in the name of a host: `node1`.
        fact: the fact that it states; `date` for a date, None where it is not explained.
        reason: why, in words.
    """

    text: str
    kind: str
    part: int
    cluster: int
    label: str | None = None
    is_name: bool = False
    fact: str | None = None
    reason: str = ""

    @property
    def place(self) -> tuple[int, int]:
        """Its cluster in the path."""
        return self.part, self.cluster

    @property
    def number(self) -> int:
        """The value of a number, of which `k` and `m` are thousands and millions."""
        factor = _FACTORS.get(self.text[-1].lower(), 1)
        return int(self.text[:-1] if factor > 1 else self.text) * factor


def tokenize_path(path: str, *, words_follow: bool = False) -> list[Token]:
    """The tokens of a path, without words that label numbers and without the suffix of the file.

    Args:
        path: folders and file, separated by slashes; what follows `#` names one of several sources in the file.
        words_follow: where words before numbers label as many as words after them, those after them do.
    """
    name, _, _ = path.partition("#")
    parts = strip_compression_suffix(name).split("/")
    parts[-1] = _ENDING.sub("", parts[-1])
    found: list[Token] = []
    for number, part in enumerate(parts):
        own = list(_tokenize_path_part(part, number, words_follow))
        if len(own) == 1 and own[0].kind == "number" and own[0].label is None and found and _is_label(found[-1]):
            own = [replace(own[0], label=found.pop().text.lower())]
        found += own
    return _join_dates_of_folders(found)


def _join_dates_of_folders(tokens: list[Token]) -> list[Token]:
    """Tokens with `2021/10/18`, and a date beside a time of day (`20211018/1208`), as one date."""
    sizes = Counter(token.part for token in tokens)
    joined: list[Token] = []
    for token in tokens:
        joined.append(token)
        last = joined[-3:]
        alone = all(one.kind == "number" and sizes[one.part] == 1 and one.label is None for one in last)
        if len(last) == len(_LENGTHS) and alone and re.fullmatch(f"{_YEAR} {_MONTH} {_DAY}", _join_texts(last)):
            joined[-3:] = [replace(token, text="-".join(one.text for one in last), kind="date")]
    return joined


#: Digits of the year, the month and the day in folders of their own.
_LENGTHS: Final = (4, 2, 2)


def _join_texts(tokens: Sequence[Token]) -> str:
    return " ".join(token.text for token in tokens)


def make_date_key(text: str) -> str:
    """A date as it is sorted: its digits, with the year first.

    Example:
        >>> sorted(["10182021_1208", "01022022_0900"], key=make_date_key)
        ['10182021_1208', '01022022_0900']
    """
    words = (
        re.sub(_NAMED_MONTH, lambda found: f"{_MONTHS.index(found[0][:3].lower()) + 1:02}", text.partition("T")[0])
        + text.partition("T")[2]
    )
    digits = re.sub(r"[^0-9]", "", words)
    if re.match(_YEAR, digits) or re.match(r"1[5-9][0-9]{8}", digits):
        return digits
    first, second, year = digits[:2], digits[2:4], digits[4:8]
    # The day comes first only where it can be no month.
    month, day = (second, first) if first > "12" else (first, second)
    return f"{year}{month}{day}{digits[8:]}"


# Files of a folder share its name, and the folders above.
@lru_cache(maxsize=4096)
def _tokenize_path_part(part: str, number: int, words_follow: bool) -> tuple[Token, ...]:
    return tuple(_label_numbers(_split(part, number), words_follow))


def _split(part: str, number: int) -> list[Token]:
    tokens: list[Token] = []
    cluster, end = -1, -1
    for match in _TOKEN.finditer(part):
        cluster += match.start() != end
        end = match.end()
        kind, text = next(name for name in ("date", "whole", "number", "word") if match[name] is not None), match[0]
        if kind == "whole":
            tokens.append(Token(text, "word", number, cluster))
            continue
        known = kind != "word" or text.lower() in MEANINGS
        tokens += [Token(one, kind, number, cluster) for one in ([text] if known else _WORDS.findall(text))]
    return tokens


def _is_label(token: Token) -> bool:
    return token.kind == "word" and token.text.lower() in MEANINGS


def _label_numbers(tokens: Sequence[Token], words_follow: bool) -> list[Token]:
    """Tokens of a part with numbers labelled, first by words in their own cluster, then by words that stand alone."""
    found = list(tokens)
    for cluster in sorted({token.cluster for token in tokens}):
        places = [at for at, token in enumerate(found) if token.cluster == cluster]
        if not _is_undecided([found[at] for at in places]):
            found = _label_tokens_at(found, places, words_follow)
    sizes = Counter(token.cluster for token in tokens)
    alone = {cluster for cluster, size in sizes.items() if size == 1}
    # Numbers of clusters that are labelled already separate words from further numbers.
    places = [at for at, token in enumerate(found) if token.cluster in alone or token.label]
    return _label_tokens_at(found, places, words_follow)


def _is_undecided(cluster: Sequence[Token]) -> bool:
    """Whether tokens without anything between them say nothing.

    That is `6node50`, a word between two numbers, or an identifier that a program drew, whose letters only look like
    words of one letter: in `qklGYX9W`, `ZFPYR10W` and `a3n7` there are letters of other kinds beside them.
    """
    numbers = [token.kind == "number" for token in cluster]
    letters = [token.text for token in cluster if token.kind == "word" and len(token.text) == 1]
    others = [token.text for token in cluster if token.kind == "word" and not _is_label(token)]
    drawn = bool(letters and others) and (any(map(str.isupper, letters)) or any(len(one) == 1 for one in others))
    return drawn or (numbers[0] and numbers[-1] and sum(numbers) > 1)


def _label_tokens_at(tokens: list[Token], places: Sequence[int], words_follow: bool) -> list[Token]:
    """Tokens of which those at some places are labelled by the word before or after them, whichever labels more."""
    before = {at: previous for previous, at in pairwise(places) if _is_label_for(tokens, previous, at)}
    after = {at: following for at, following in pairwise(places) if _is_label_for(tokens, following, at)}
    chosen = after if len(after) + words_follow > len(before) else before
    used = set(chosen.values())
    return [
        token if (word := chosen.get(at)) is None else _label_token(token, tokens[word], is_before=word < at)
        for at, token in enumerate(tokens)
        if at not in used
    ]


def _label_token(token: Token, word: Token, *, is_before: bool) -> Token:
    return replace(token, label=word.text.lower(), is_name=is_before and word.cluster == token.cluster)


def _is_label_for(tokens: Sequence[Token], word: int, number: int) -> bool:
    numbered = tokens[number]
    return _is_label(tokens[word]) and numbered.kind == "number" and numbered.label is None


# Logs, samples and profiles beside the outputs of load generators: of which iteration and of which node they are.
#
# Whoever keeps results in folders of their own keeps what servers and hosts wrote beside them. The outputs in the
# nearest folder that has any, and of these the ones whose names share its words and numbers, are those that such a file
# belongs to. If all of them are of one iteration, and other iterations have such a file of their own, so is the file: a
# single log, beside the first repeat, may be that of all repeats. Otherwise times decide which rows belong to which
# run.
#
# A node is only believed where the field's own words name it, such as `coordinator` or `worker-2`, and no output is
# named so: `w2` may as well be the number of workers.

_COORDINATORS: Final = ("coordinator", "coord")
_WORKERS: Final = ("worker", "wk", "w", "node")
_COORDINATOR: Final = "0"
#: Names of folders for what servers and hosts wrote.
_CONTENTS: Final = frozenset(
    {"log", "logs", "pglog", "pglogs", "pg", "postgres", "postgresql", "server", "servers", "serverlogs"}
    | {"sample", "samples", "metrics", "monitoring", "monitor", "system", "sysstat", "stats", "os", "perf"}
    | {"sar", "iostat", "vmstat", "mpstat", "pidstat", "host", "hosts", "node", "nodes"}
)
#: The folder that was given, and the folders below it.
Place: TypeAlias = tuple[str, tuple[str, ...]]
#: Label and text of a token.
DisplayMixin: TypeAlias = tuple[str | None, str]


@dataclass(frozen=True)
class Companion:
    """A file beside the outputs of load generators, with what was read off its name.

    Attributes:
        file: the file, with its iteration and node.
        reasons: name of each fact -> why it is believed.
    """

    file: SourceFile
    reasons: dict[str, str]


def assign_companions(files: Sequence[SourceFile], outputs: Sequence[SourceFile]) -> list[Companion]:
    """Files whose resource, iteration or node is not stated, with what their names and places say.

    Args:
        files: all files, in any order.
        outputs: those of load generators, with the identities of their design.
    """
    beside = _Beside(outputs)
    placed = [beside.placed(file) for file in files if _is_beside(file)]
    roots = {one.file.root for one in placed}
    first = {
        root: _find_first_worker([one.host for one in placed if one.host and one.file.root == root]) for root in roots
    }
    every = {root: {out.identity.iteration for out in outputs if out.root == root} for root in roots}
    covered: dict[tuple[object, ...], set[int | None]] = defaultdict(set)
    for one in placed:
        covered[one.kind] |= one.iterations if len(one.iterations) == 1 else set()
    stated = {one.kind: len(covered[one.kind]) > 1 or len(every[one.file.root]) == 1 for one in placed}
    found = (one.companion(first=first[one.file.root], of_iteration=stated[one.kind]) for one in placed)
    return [companion for companion in found if companion.reasons]


def _find_first_worker(hosts: Sequence[Token]) -> int:
    """The number of the first worker: 0 where that is not the coordinator's."""
    with_coordinator = any(host.kind == "word" for host in hosts)
    return 0 if any(host.text == "0" and (with_coordinator or host.label != "node") for host in hosts) else 1


def parse_node_number(host: Token, *, first: int) -> str | None:
    """The number of a node, of which 0 is the coordinator; None if a token names no node.

    Args:
        host: the token.
        first: number of the first worker.
    """
    if host.kind == "word":
        return _COORDINATOR if host.text.lower() in _COORDINATORS else None
    return str(host.number + 1 - first) if host.label in _WORKERS else None


def _is_beside(file: SourceFile) -> bool:
    if file.format is None or file.is_client or file.problem or file.states_facts:
        return False
    return file.identity.run_id is None and "stated_runs" not in file.format.tables


def _is_of_node(file: SourceFile) -> bool:
    tables = file.format.tables if file.format else ()
    return any("node" in TABLES[name] and "node" not in TABLES[name].stated for name in tables)


@dataclass(frozen=True)
class _Placed:
    """A file and the outputs that it belongs to."""

    file: SourceFile
    resources: frozenset[str]
    own_resource: bool
    iterations: frozenset[int | None]
    host: Token | None

    @property
    def kind(self) -> tuple[object, ...]:
        """What other files of the same tool and node in other iterations have in common with it."""
        return self.file.root, self.file.format, self.host and _get_displayed_token(self.host)

    def companion(self, *, first: int, of_iteration: bool) -> Companion:
        """The file with what is believed.

        Args:
            first: number of the first worker.
            of_iteration: it is of the iteration of the outputs beside it, if all are of the same.
        """
        identity, reasons = self.file.identity, {}
        if not self.own_resource and len(self.resources) == 1:
            identity = replace(identity, resource=next(iter(self.resources)))
            reasons["resource"] = "the only results beside it"
        if _is_of_node(self.file):
            known = of_iteration and len(self.iterations) == 1 and self.resources == {identity.resource}
            if identity.iteration is None and known and None not in self.iterations:
                identity = replace(identity, iteration=next(iter(self.iterations)))
                reasons["iteration"] = "that of all outputs beside it"
            if identity.node is None and self.host is not None:
                identity = replace(identity, node=parse_node_number(self.host, first=first))
                word = self.host.label or self.host.text.lower()
                reasons["node"] = f"the word {word!r}" + (" beside it" if self.host.label else "")
        identity = replace(identity, inferred=", ".join(sorted(reasons)) or None)
        return Companion(replace(self.file, identity=identity), reasons)


@dataclass
class _Beside:
    """The outputs by the folders that they are in."""

    outputs: Sequence[SourceFile]
    _below: dict[Place, list[SourceFile]] = field(default_factory=lambda: defaultdict(list))
    _near: dict[Place, _Near] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._resources = {output.identity.resource for output in self.outputs}
        for output in self.outputs:
            for folder in _iterate_parent_folders(output):
                self._below[folder].append(output)

    def placed(self, file: SourceFile) -> _Placed:
        """A file with the outputs that it belongs to."""
        home = next((folder for folder in _iterate_parent_folders(file) if folder in self._below), None)
        if home is None:
            return _Placed(file, frozenset(), own_resource=True, iterations=frozenset(), host=None)
        if home not in self._near:
            self._near[home] = _Near(len(home[1]), self._below[home])
        near, mine = self._near[home], _own_tokens(file, len(home[1]))
        shared = frozenset(
            _get_displayed_token(token)
            for token in mine
            if token.label in near.labels or _get_displayed_token(token) in near.shown
        )
        hosts = [
            token
            for token in mine
            if _get_displayed_token(token) not in shared and parse_node_number(token, first=1) is not None
        ]
        own = near.select_sharing(shared)
        return _Placed(
            file,
            frozenset(output.identity.resource for output in own),
            file.identity.resource in self._resources or not _is_kept_apart(file),
            frozenset(output.identity.iteration for output in own),
            hosts[0] if len(hosts) == 1 else None,
        )


@dataclass
class _Near:
    """The outputs in a folder and those below it, by the tokens of their names below it."""

    depth: int
    outputs: Sequence[SourceFile]
    _found: dict[frozenset[DisplayMixin], list[SourceFile]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tokens = [_own_tokens(output, self.depth) for output in self.outputs]
        self.labels = {token.label for own in tokens for token in own if token.label}
        self._shown = [frozenset(map(_get_displayed_token, own)) for own in tokens]
        self.shown = frozenset[DisplayMixin]().union(*self._shown)

    def select_sharing(self, shared: frozenset[DisplayMixin]) -> list[SourceFile]:
        """The outputs with all of these tokens."""
        if shared not in self._found:
            pairs = zip(self.outputs, self._shown, strict=True)
            self._found[shared] = [output for output, shown in pairs if shared <= shown]
        return self._found[shared]


def _is_kept_apart(file: SourceFile) -> bool:
    """Whether a file is in a folder that is named after what it holds, or after a node, and not after a system."""
    folder, _, below = file.relative.partition("/")
    if file.identity.resource != (folder if below else file.root.name):
        return False
    tokens = tokenize_path(folder) if below else []
    return all(token.text.lower() in _CONTENTS or parse_node_number(token, first=1) is not None for token in tokens)


def _iterate_parent_folders(file: SourceFile) -> Iterator[Place]:
    """The folder of a file and those above it, up to the one that was given."""
    parts = tuple(file.relative.split("/")[:-1])
    for depth in range(len(parts), -1, -1):
        yield str(file.root), parts[:depth]


def _own_tokens(file: SourceFile, depth: int) -> list[Token]:
    """Tokens of a path below a folder."""
    return [token for token in tokenize_path("/".join(file.relative.split("/")[depth:])) if token.kind != "date"]


def _get_displayed_token(token: Token) -> DisplayMixin:
    return token.label, token.text.lower()


#: Facts that names and contents both may state.
_COMPARED: Final = ("threads", "scale_factor", "records", "operations")
#: Facts that numbers in names state.
_NUMBERED: Final = (*_COMPARED, "workers", "iteration", "part")
#: Facts of an identity that only tell runs of a cell apart.
_WITHIN_CELL: Final = frozenset({"iteration", "part", "drivers", "run", "role", "start_time", "end_time", "resource"})
#: Words that name one host where a number follows them directly.
_HOSTS: Final = ("node", "worker")
#: Number of the part of a path that is the folder which was given.
_ABOVE: Final = -1
_PHASE_WORDS: Final = {
    "load": ("load", "loading", "insert", "inserts"),
    "run": ("run", "select", "selects", "read", "reads", "transactions"),
}
#: Words after which numbers name settings, and no repeats; also in the plural, and at the end of another word.
_LEVEL_WORDS: Final = frozenset(
    {"config", "cfg", "conf", "configuration", "case", "scenario", "size", "test", "experiment", "exp", "setup"}
    | {"setting", "variant", "version", "ver", "v", "profile", "param", "parameter", "step", "level", "group"}
    | {"stage", "batch", "mix", "query", "q", "table", "shard", "partition", "replica", "cpu", "core", "mem", "memory"}
    | {"ram", "gb", "option", "opt", "plan", "strategy", "method", "mode", "type", "class", "tier", "model", "machine"}
    | {"host", "server", "vm", "env", "instance", "scheme", "schema", "layout", "design", "cluster", "disk", "pool"}
    | {"pg", "postgres", "postgresql", "citus", "mysql", "factor", "rate", "target", "limit", "cache", "buffer"}
    | {"replication", "rf", "depth", "zone", "region", "dataset", "bp", "wal", "chk", "warehouse", "isolation"}
)
_LONG_WORD: Final = 4
#: Words that number load generators of one run; of other words, only times show that they ran together.
_DRIVERS: Final = frozenset({"driver", "part", "par", "generator", "gen", "loadgen", "loader", "client"})
#: Run times of load generators that ran together differ by at most this share.
_SAME_DURATION: Final = 0.05
#: Results of repeats differ by at most this factor, in at least half of the cells.
_ALIKE: Final = 1.25
#: The same of repeats that dates or letters tell apart.
_PLAUSIBLE: Final = 2.0
#: Results that differ less by their numbers, in the same way in each cell, may do so by their order in time.
_CLUSTERED: Final = 1.1
_SIGNIFICANT: Final = 0.01
#: Words beside a number that is the rate which an output says was to be reached.
_TARGETS: Final = frozenset({"rate", "target", "limit", "throttle", "tps", "qps", "ops"})
#: Conditions of a load generator that need not be those of others of its run.
_OF_GENERATOR: Final = frozenset({"jobs", "transactions"})
#: Conditions that are columns of runs: they need no words in the name of a set-up.
_IN_COLUMNS: Final = frozenset({"script", "query mode", "file"})
#: Words of folders and archives that say nothing of what was measured.
_FILLERS: Final = frozenset(
    {"raw", "log", "logs", "result", "results", "res", "output", "outputs", "out", "data", "file", "files"}
    | {"tar", "gz", "tgz", "zip", "bench", "benchmark", "benchmarks", "all"}
)
#: Where at least this share of the cells has all repeats, the design closes.
_CLOSED_SHARE: Final = 0.5
#: A word means what files say of themselves if at least this share of them agrees; the others contradict their names.
_AGREEING_SHARE: Final = 0.7


@dataclass(frozen=True)
class Member:
    """A load generator's output in a study.

    Attributes:
        file: the file; its identity is that of the design.
        tokens: the tokens of its path, with what they were taken for.
        own: what the file says of itself.
        inferred: names of the facts of its identity that were read off names and times.
        together: its name, and its run time, say that it ran together with the others that differ in the part.
        threads_of_run: the number in its name that is the sum of the threads of all parts of its run.
    """

    file: SourceFile
    tokens: tuple[Token, ...]
    own: OwnFacts
    inferred: tuple[str, ...] = ()
    together: bool = False
    threads_of_run: int | None = None

    def number(self, fact: str) -> int | None:
        """The number that the path states for a fact."""
        return next((token.number for token in self.tokens if token.fact == fact), None)

    def numbers(self, fact: str) -> set[int]:
        """All numbers that the path states for it."""
        return {token.number for token in self.tokens if token.fact == fact}

    @cached_property
    def unexplained(self) -> dict[tuple[int, int], str]:
        """Place and text of the tokens that are not explained; those without anything between them are one."""
        texts: dict[tuple[int, int], str] = {}
        for token in self.tokens:
            if token.fact is None:
                texts[token.place] = texts.get(token.place, "") + (token.label or "") + token.text
        return texts


@dataclass(frozen=True)
class FileDesign:
    """The design that was read.

    Attributes:
        members: the load generators' outputs, in the order of the files.
        contradictions: one line for each file whose name and contents differ.
        companions: logs, samples and profiles beside the outputs.
        assumptions: what was assumed because little decides it, and what to state if it is wrong; one line each.
    """

    members: tuple[Member, ...] = ()
    contradictions: tuple[str, ...] = ()
    companions: tuple[Companion, ...] = ()
    assumptions: tuple[str, ...] = ()

    @property
    def remarks(self) -> list[str]:
        """What an ingest says of the design, one line each."""
        outputs = {name for member in self.members for name in member.inferred}
        others = {name for companion in self.companions for name in companion.reasons}
        of_outputs = (
            f"{pluralize(len(self.members), 'output')} of load generators: {_format_inferred_facts(outputs)} and times"
        )
        of_others = (
            f"{pluralize(len(self.companions), 'file')} of servers and hosts: "
            f"{_format_inferred_facts(others)} and folders"
        )
        what = [text for facts, text in ((outputs, of_outputs), (others, of_others)) if facts]
        remarks = [f"{one} (what and why: citus-analysis inspect)" for one in what]
        return [*remarks, *self.contradictions, *self.assumptions] if outputs else remarks


def _format_inferred_facts(facts: Collection[str]) -> str:
    return f"{', '.join(sorted(facts))} read off names"


def read_design(files: Sequence[SourceFile], *, beside_others: bool = False) -> FileDesign:
    """The design of a study.

    Args:
        files: outputs of load generators whose run nobody states.
        beside_others: there are results of other folders, from which those of these files must be distinguished.
    """
    several = beside_others or len({_find_given_folder(file) for file in files}) > 1
    readings = [
        _apply_labels([Member(file, tuple(_collect_path_tokens(file, several, follow)), file.own) for file in files])
        for follow in (False, True)
    ]
    # The first one of those that agree equally often with what the files say of themselves.
    members = max(readings, key=_count_agreements)
    for step in (_match_equal_numbers, _match_targets, _match_words):
        members = step(members)
    assumed: list[str] = []
    for judge in (_match_sums_over_parts, _doubt_letters, _match_repeats, _doubt_dates, _judge_parts):
        members = judge(members, assumed)
    placed = _assign_run_identities(_add_set_ups(members, beside_others))
    contradictions = [line for member in placed for line in _find_contradictions(member)]
    if any(_list_contradicted_facts(member) for member in placed):
        doubted = [
            _mark_facts_unexplained(member, _list_contradicted_facts(end))
            for member, end in zip(members, placed, strict=True)
        ]
        placed = _assign_run_identities(_add_set_ups(doubted, beside_others))
    assumed += _list_unused_facts(members, placed)
    return FileDesign(tuple(placed), tuple(contradictions), assumptions=tuple(assumed))


def _collect_path_tokens(file: SourceFile, several: bool, words_follow: bool) -> Iterator[Token]:
    """The tokens of a path, and those of the folder that was given: all of them only where there are several."""
    own = tokenize_path(file.relative if file.origin is None else file.key, words_follow=words_follow)
    folder = _find_given_folder(file).name
    above = [replace(token, part=_ABOVE) for token in tokenize_path(folder) if several or token.label]
    for token in (*above, *own):
        yield replace(token, fact="date", reason="a date") if token.kind == "date" else token


def _find_given_folder(file: SourceFile) -> Path:
    """The folder that was given; members of archives are unpacked into another one, whose name says nothing."""
    if file.archive is None:
        return file.root
    return Path(file.archive.path.removesuffix(file.archive.relative))


def _count_agreements(members: Sequence[Member]) -> int:
    """How often a number in a name equals the fact that the file states itself."""
    return sum(member.number(fact) == _own(member, fact) is not None for member in members for fact in _COMPARED)


def _own(member: Member, fact: str) -> int | None:
    stated = member.file.identity.to_dict().get(fact)
    return stated if isinstance(stated, int) else getattr(member.own, fact)


def _apply_labels(members: Sequence[Member]) -> list[Member]:
    """Numbers beside a word of the field, unless the contents of the files refute it."""
    pairs: dict[str, list[tuple[int, Member]]] = defaultdict(list)
    for member in members:
        for token in member.tokens:
            if token.label is not None:
                pairs[token.label].append((token.number, member))
    meanings = {
        label: None if _is_rare_letter(label, uses, len(members)) else _choose_label_meaning(label, uses)
        for label, uses in pairs.items()
    }

    def explain(token: Token) -> Token:
        fact = None if token.label is None else meanings[token.label]
        return token if fact is None else replace(token, fact=fact, reason=f"the word {token.label!r} beside it")

    return _drop_repeated_facts([replace(member, tokens=tuple(map(explain, member.tokens))) for member in members])


def _drop_repeated_facts(members: Sequence[Member]) -> list[Member]:
    """Of several numbers for one fact in a path, the first is it (of iterations the last), others are unexplained.

    Where they are equal in all paths, such as in names of folders and files, they say the same.
    """
    repeated = {fact for member in members for fact in _NUMBERED if len(member.numbers(fact)) > 1}

    def drop_repeated(member: Member) -> Member:
        tokens = list(member.tokens)
        for fact in repeated:
            places = [at for at, token in enumerate(tokens) if token.fact == fact]
            for at in places[:-1] if fact == "iteration" else places[1:]:
                tokens[at] = replace(tokens[at], fact=None, reason="")
        return replace(member, tokens=tuple(tokens))

    return [drop_repeated(member) for member in members] if repeated else list(members)


def _choose_label_meaning(label: str, uses: Sequence[tuple[int, Member]]) -> str | None:
    first = MEANINGS[label][0]
    if label in _HOSTS and len({number for number, _ in uses}) == 1 and all(_names_host(m, label) for _, m in uses):
        return None
    if first == "iteration" and len(label) == 1 and not _counts_up({number for number, _ in uses}):
        return None
    for fact in _COMPARED:
        known = [(number, own) for number, member in uses if (own := _own(member, fact)) is not None]
        equal = sum(number == own for number, own in known)
        if fact in MEANINGS[label] and equal and equal == len(known) and len(set(known)) > 1:
            return fact
        if fact == first and equal < _AGREEING_SHARE * len(known) and not _is_sum_over_generators(known, uses):
            return None
    return first


def _is_rare_letter(label: str, uses: Sequence[tuple[int, Member]], files: int) -> bool:
    """Whether a word of one letter stands in the names of few files, each time beside another word (`zfpyr10w`)."""
    return len(label) == 1 and 2 * len(uses) < files and all(_is_beside_a_word(member, label) for _, member in uses)


def _is_beside_a_word(member: Member, label: str) -> bool:
    words = {token.place for token in member.tokens if token.kind == "word"}
    return all(token.place in words for token in member.tokens if token.label == label)


def _names_host(member: Member, label: str) -> bool:
    """Whether a number is in the name of one host (`node1`), and not that of all of them."""
    return any(token.label == label and token.is_name for token in member.tokens)


def _counts_up(numbers: Collection[int]) -> bool:
    """Whether numbers are those of repeats: all of them from 0 or 1 on."""
    return min(numbers) in (0, 1) and len(numbers) == max(numbers) - min(numbers) + 1


def _is_sum_over_generators(known: Sequence[tuple[int, int]], uses: Sequence[tuple[int, Member]]) -> bool:
    """Whether names that number load generators state the sum over these, of which each states its own."""
    times = {number / own if own else 0.0 for number, own in known}
    parts = {label for label, meanings in MEANINGS.items() if meanings[0] == "part"}
    numbered = all(any(token.label in parts for token in member.tokens) for _, member in uses)
    return numbered and len(times) == 1 and all(one > 1 and one.is_integer() for one in times)


def _group_by_slot(members: Sequence[Member]) -> dict[tuple[object, int], list[Member]]:
    """Unexplained numbers that stand alone: the shape of a name and the place among its tokens -> files."""
    found: dict[tuple[object, int], list[Member]] = defaultdict(list)
    for member in members:
        shape = tuple((token.fact or token.kind, *token.place) for token in member.tokens)
        clusters = Counter(token.place for token in member.tokens)
        for at, token in enumerate(member.tokens):
            is_number = token.fact is None and token.kind == "number" and token.label is None
            if is_number and clusters[token.place] == 1:
                found[shape, at].append(member)
    return found


def _match_equal_numbers(members: Sequence[Member]) -> list[Member]:
    """Numbers that equal a fact that each of the files states itself."""
    found: dict[tuple[int, int], Token] = {}
    for (_, at), uses in _group_by_slot(members).items():
        equal = (fact for fact in _COMPARED if all(one.tokens[at].number == _own(one, fact) for one in uses))
        if fact := next(equal, None):
            reason = f"equals what the files say of their {fact.replace('_', ' ')}"
            found |= {(id(one), at): replace(one.tokens[at], fact=fact, reason=reason) for one in uses}
    return _replace_tokens(members, found)


def _replace_tokens(members: Sequence[Member], found: Mapping[tuple[int, int], Token]) -> list[Member]:
    return [
        replace(member, tokens=tuple(found.get((id(member), at), token) for at, token in enumerate(member.tokens)))
        for member in members
    ]


def _match_words(members: Sequence[Member]) -> list[Member]:
    """Words that name the workload or the phase."""
    found: dict[tuple[int, int], Token] = {}
    for member in members:
        texts = [token.text.lower() if token.kind == "word" else "" for token in member.tokens]
        for at, text in enumerate(texts):
            if _find_workload_letter(text) or (
                text == "workload" and at + 1 < len(texts) and _find_workload_letter(f"workload{texts[at + 1]}")
            ):
                for place in (at,) if _find_workload_letter(text) else (at, at + 1):
                    token = replace(member.tokens[place], fact="workload", reason="names one of YCSB's workloads")
                    found[id(member), place] = token
            elif member.own.phase and text in _PHASE_WORDS[member.own.phase]:
                token = replace(member.tokens[at], fact="phase", reason="equals what the file says of its phase")
                found[id(member), at] = token
    return _replace_tokens(members, found)


def _find_workload_letter(text: str) -> str | None:
    """The letter of one of YCSB's core workloads."""
    name = text.removeprefix("workload")
    return name.upper() if name != text and len(name) == 1 and name in "abcdef" else None


#: What sets runs apart -> the number or date of each run, and its throughput.
Cells: TypeAlias = Mapping[tuple[object, ...], Sequence[tuple[object, float | None]]]


def _match_targets(members: Sequence[Member]) -> list[Member]:
    """Numbers beside `rate` and the like that equal the rate which each of the files says was to be reached."""
    found: dict[tuple[int, int], Token] = {}
    for member in members:
        for at, token in enumerate(member.tokens[1:], start=1):
            word = member.tokens[at - 1]
            if token.kind == "number" and token.fact is None and word.text.lower() in _TARGETS:
                if token.number != member.own.target:
                    return list(members)
                reason = "equals the rate that the files say was to be reached"
                found |= {(id(member), at - 1): replace(word, fact="target_ops_s", reason=reason)}
                found |= {(id(member), at): replace(token, fact="target_ops_s", reason=reason)}
    return _replace_tokens(members, found)


@dataclass(frozen=True)
class _Sum:
    """Outputs with the same name but for the number of a part, and another number in it.

    Attributes:
        group: the outputs, and the place of the number of the part among their tokens.
        at: place of the number that may be the sum of their threads.
        stated: that number.
    """

    group: tuple[tuple[Member, int], ...]
    at: int
    stated: int

    @property
    def holds(self) -> bool:
        """Whether it is the sum, of parts that are numbered without a gap and ran equally long."""
        threads = [member.own.threads or 0 for member, _ in self.group]
        return sum(threads) == self.stated and all(threads) and _ran_equally_long(self.group)

    @property
    def members(self) -> list[Member]:
        """The outputs."""
        return [member for member, _ in self.group]


def _match_sums_over_parts(members: Sequence[Member], assumed: list[str]) -> list[Member]:
    """Outputs of load generators side by side, whose names state the sum of their threads (`b-1024.p1` to `.p4`).

    That a number is the sum by chance (four repeats with 16 threads of 64 tables) is ruled out where it is the sum for
    several values, or where a word says that it is a number of threads.
    """
    found: dict[tuple[int, int], Token] = {}
    sums: dict[int, tuple[int, bool]] = {}
    dropped: set[tuple[int, int]] = set()
    for slot in _list_sums(members):
        several = [one for one in slot if len(one.group) > 1]
        true = [one for one in slot if one.holds]
        if not any(one.holds for one in several):
            continue
        example = next(one for one in several if one.holds)
        is_named = example.members[0].tokens[example.at].label is not None
        if len({one.stated for one in true}) == 1 and not is_named:
            assumed.append(
                f"{pluralize(len(example.group), 'output')} such as {example.members[0].file.relative}: did they run "
                f"together? {example.stated} in their names is the sum of their threads, but may be so by chance. They "
                "count as set-ups of their own (if so, state `part` in identity.yml)"
            )
            continue
        for one in true:
            for member, place in one.group:
                sums[id(member)] = (one.stated, len(one.group) > 1)
                reason = "the sum of the threads of all outputs that differ in the part only"
                found[id(member), one.at] = replace(member.tokens[one.at], fact="threads", reason=reason)
                number, word = member.tokens[place], member.tokens[place - 1]
                if number.label is None:
                    dropped.add((id(member), place - 1))
                    number = replace(number, label=word.text)
                reason = "together they have the number of threads in their names"
                found[id(member), place] = replace(number, fact="part", reason=reason)
        summed = [member for one in true if len(one.group) > 1 for member in one.members]
        assumed.append(
            f"{pluralize(len(summed), 'output')} such as {summed[0].file.relative}: they are load generators of one "
            "run, and their throughput is added, because their names state the sum of their threads, and "
            "they ran equally long (if they ran one after the other, state `iteration` in identity.yml)"
        )
    placed = _drop_tokens(members, _replace_tokens(members, found), dropped)
    return [
        new if id(old) not in sums else replace(new, threads_of_run=sums[id(old)][0], together=sums[id(old)][1])
        for old, new in zip(members, placed, strict=True)
    ]


def _drop_tokens(
    members: Sequence[Member], renamed: Sequence[Member], dropped: Collection[tuple[int, int]]
) -> list[Member]:
    """Members as renamed, without the words that are the labels of numbers by now."""
    return [
        replace(new, tokens=tuple(token for at, token in enumerate(new.tokens) if (id(old), at) not in dropped))
        for old, new in zip(members, renamed, strict=True)
    ]


def _list_sums(members: Sequence[Member]) -> list[list[_Sum]]:
    """Numbers that may be sums of threads, by the shape of the name, the place of the part and that of the number."""
    shapes: dict[tuple[object, int], list[Member]] = defaultdict(list)
    for member in members:
        # Times decide where there are some.
        if member.file.identity.part is None and member.own.end is None and member.own.threads:
            shape = tuple((token.fact or token.kind, *token.place) for token in member.tokens)
            for at in range(len(member.tokens)):
                if _may_number_part(member.tokens, at):
                    shapes[shape, at].append(member)
    slots: list[list[_Sum]] = []
    for (_, at), uses in shapes.items():
        groups: dict[tuple[object, ...], list[Member]] = defaultdict(list)
        for member in uses:
            others = tuple((token.label, token.text) for place, token in enumerate(member.tokens) if place != at)
            groups[(others, *_get_cell_contents(replace(member, threads_of_run=0)))].append(member)
        for place, token in enumerate(uses[0].tokens):
            if place != at and _may_be_threads(token):
                slots.append(
                    [
                        _Sum(tuple((one, at) for one in group), place, group[0].tokens[place].number)
                        for group in groups.values()
                    ]
                )
    return slots


def _may_number_part(tokens: Sequence[Token], at: int) -> bool:
    """Whether a number may be that of a part: a word that says nothing else stands directly before it (`p1`)."""
    token = tokens[at]
    if token.kind != "number" or token.fact not in (None, "part"):
        return False
    if token.label is not None:
        return "part" in MEANINGS[token.label]
    return at > 0 and tokens[at - 1].kind == "word" and tokens[at - 1].place == token.place and not tokens[at - 1].fact


def _may_be_threads(token: Token) -> bool:
    if token.kind != "number":
        return False
    return token.fact == "threads" or (
        token.fact is None and (token.label is None or MEANINGS[token.label] == ("threads",))
    )


def _doubt_letters(members: Sequence[Member], assumed: list[str]) -> list[Member]:
    """Members of which numbers beside one letter are repeats only if results agree (`r1` may be one replica)."""
    found: dict[tuple[int, int], Token] = {}
    labels = sorted({token.label or "" for one in members for token in one.tokens if token.fact == "iteration"})
    for label in labels:
        uses = [
            (member, at)
            for member in members
            for at, token in enumerate(member.tokens)
            if token.fact == "iteration" and (token.label or "") == label
        ]
        doubt = find_doubt(_make_cells(uses), most=_PLAUSIBLE)
        if doubt is None:
            continue
        which = f"{pluralize(len(uses), 'output')} such as {uses[0][0].file.relative}"
        if len(label) == 1:
            found |= {(id(one), at): replace(one.tokens[at], fact=None, reason="") for one, at in uses}
            assumed.append(
                f"{which}: is the number beside {label!r} that of a repeat? They count as set-ups of their own, "
                f"because {doubt} (if they are repeats, state `iteration` in identity.yml)"
            )
        else:
            assumed.append(
                f"{which}: they count as repeats, because of the word {label!r}, but {doubt} (if they are none, state "
                "`set_up` in identity.yml)"
            )
    return _replace_tokens(members, found)


def _match_repeats(members: Sequence[Member], assumed: list[str]) -> list[Member]:
    """The last number that varies, if it counts the repeats of each cell from 1 or 0, and nothing says otherwise."""
    found: dict[tuple[int, int], Token] = {}
    dropped: set[tuple[int, int]] = set()
    slots = _group_by_slot([member for member in members if member.number("iteration") is None])
    last: dict[object, int] = {}
    for (shape, at), uses in slots.items():
        if len({member.tokens[at].number for member in uses}) > 1:
            last[shape] = max(at, last.get(shape, at))
    repeats: dict[str, list[Member]] = defaultdict(list)
    levels: dict[str, list[Member]] = defaultdict(list)
    for shape, at in last.items():
        uses = slots[shape, at]
        word = _find_level_word(uses, at)
        if word is not None and uses[0].tokens[at - 1].text == word:
            for one in uses:
                found[id(one), at] = replace(one.tokens[at], label=f"{one.tokens[at - 1].text}")
                dropped.add((id(one), at - 1))
        if _is_of_word(uses, at, members):
            continue
        why, doubt = _judge_numbering(uses, at, word)
        if doubt is not None:
            levels[doubt] += uses
        if why is None:
            continue
        reason, assumption = why
        found |= {(id(one), at): replace(one.tokens[at], fact="iteration", reason=reason) for one in uses}
        repeats[assumption] += uses
    assumed += [
        f"{pluralize(len(uses), 'output')} such as {uses[0].file.relative}: is the last number that of a repeat? They "
        f"count as set-ups of their own, because {doubt} (if they are repeats, state `iteration` in identity.yml)"
        for doubt, uses in levels.items()
    ]
    assumed += [
        f"{pluralize(len(uses), 'output')} such as {uses[0].file.relative}: the last number counts repeats, because "
        f"{reason} (if it names settings, state `set_up` in identity.yml)"
        for reason, uses in repeats.items()
    ]
    return _drop_tokens(members, _replace_tokens(members, found), dropped)


def _judge_numbering(uses: Sequence[Member], at: int, word: str | None) -> tuple[tuple[str, str] | None, str | None]:
    """Why numbers are those of repeats, for the table of factors and as an assumption; and what raises doubts."""
    if not _is_complete_numbering(uses, at):
        if word is None and _is_running_number(uses, at):
            reason = "numbers count all runs, in cells of equally many whose results are alike"
            assumption = "it counts all runs in order, and each set-up has equally many whose results are alike"
            return (reason, assumption), None
        if _is_complete_numbering(uses, at, but_contents=True):
            return None, f"their outputs state different {_name_differences(uses)}"
        return None, None
    cells = _make_cells([(one, at) for one in uses])
    doubt = f"they stand beside the word {word!r}" if word else find_doubt(cells, most=_ALIKE, is_named=False)
    if doubt is not None:
        return None, doubt
    reason = "each cell has the same numbers from the first on"
    return (reason, "their results are alike" if _count_known(cells) else reason), None


def _is_running_number(uses: Sequence[Member], at: int) -> bool:
    """Whether numbers count all runs of a study in their order: set-ups share none, and each has equally many.

    The results of each set-up must be alike, because such a number may also name settings.
    """
    cells = list(_make_cells([(one, at) for one in uses]).values())
    numbers = [frozenset(str(number) for number, _ in cell) for cell in cells]
    blocks = set(numbers)
    rates = [[rate for _, rate in cell if rate] for cell in cells]
    return (
        _counts_up({one.tokens[at].number for one in uses})
        and len(blocks) > 1
        and len({len(block) for block in blocks}) == 1
        and len(numbers[0]) > 1
        and sum(map(len, blocks)) == len(frozenset[str]().union(*blocks))
        and all(len(known) == len(cell) == len(own) for known, cell, own in zip(rates, cells, numbers, strict=True))
        and all(max(known) <= _CLUSTERED * min(known) for known in rates)
    )


def _find_level_word(uses: Sequence[Member], at: int) -> str | None:
    """The word beside a number that says that it names a setting: before it, or after it in the same name."""
    tokens = uses[0].tokens
    before = tokens[at - 1] if at else None
    if before is not None and before.kind == "word" and _is_level_word(before.text):
        return before.text
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    follows = tokens[at + 2] if at + 2 < len(tokens) else None
    is_of_other = follows is not None and follows.kind == "number" and follows.part == tokens[at].part
    if after is None or after.part != tokens[at].part or after.kind != "word" or is_of_other:
        return None
    return after.text if before is None and _is_level_word(after.text) else None


def _is_level_word(text: str) -> bool:
    word = text.lower()
    words = {word, word.removesuffix("s"), word.removesuffix("es"), word.removesuffix("ies") + "y"}
    return not words.isdisjoint(_LEVEL_WORDS) or any(
        word.endswith(one) for one in _LEVEL_WORDS if len(one) >= _LONG_WORD
    )


def _make_cells(uses: Sequence[tuple[Member, int]]) -> Cells:
    """Results by what sets them apart but one token, and but dates."""
    cells: dict[tuple[object, ...], list[tuple[object, float | None]]] = defaultdict(list)
    for member, at in uses:
        others = tuple(
            (token.label, token.text)
            for place, token in enumerate(member.tokens)
            if place != at and token.kind != "date" and token.fact != "part"
        )
        parts = tuple(token.text for token in member.tokens if token.fact == "part")
        cells[(others, parts, *_get_cell_contents(member))].append((member.tokens[at].text, member.own.rate))
    return cells


def _count_known(cells: Cells) -> int:
    return sum(rate is not None for cell in cells.values() for _, rate in cell)


def find_doubt(cells: Cells, *, most: float, is_named: bool = True) -> str | None:
    """Why runs that differ in a number are no repeats of each other, judged by their results; None: nothing says so.

    Args:
        cells: what sets runs apart -> number and throughput of each.
        most: factor by which the results of repeats may differ.
        is_named: a word says that they are repeats, so that results need not show it.

    Example:
        >>> find_doubt({("docker",): [(1, 100.0), (2, 400.0)], ("k8s",): [(1, 90.0), (2, 380.0)]}, most=2.0)
        'results of a cell differ by up to 4.22 times'
    """
    several = [cell for cell in cells.values() if len({number for number, _ in cell}) > 1]
    known = [rates for cell in several if len(rates := [rate for _, rate in cell if rate]) > 1]
    spreads = sorted(max(rates) / min(rates) for rates in known)
    if spreads and spreads[len(spreads) // 2] > most:
        return f"results of a cell differ by up to {spreads[-1]:.3g} times"
    if _is_clustered(several):
        return "results differ by this number in the same way in each cell"
    if not is_named and len(several) == 1 and not spreads:
        return "there is one cell, and no result shows that they are alike"
    return None


def _is_clustered(cells: Sequence[Sequence[tuple[object, float | None]]]) -> bool:
    """Whether results of several cells rise and fall with the same numbers (two-way analysis of variance of logs)."""
    rows = [{str(number): math.log(rate) for number, rate in cell if rate} for cell in cells]
    numbers = sorted({number for row in rows for number in row})
    full = [[row[number] for number in numbers] for row in rows if row.keys() >= set(numbers)]
    if len(full) < _FEWEST_CELLS or len(numbers) < _FEWEST_CELLS:
        return False
    of_numbers = [fmean(column) for column in zip(*full, strict=True)]
    if max(of_numbers) - min(of_numbers) < math.log(_CLUSTERED):
        return False
    mean = fmean(of_numbers)
    residual = sum(
        (value - fmean(row) - of_number + mean) ** 2
        for row in full
        for value, of_number in zip(row, of_numbers, strict=True)
    )
    between = len(full) * sum((of_number - mean) ** 2 for of_number in of_numbers)
    df = len(numbers) - 1
    within = df * (len(full) - 1)
    # Takes a while to import, and few studies get here.
    from scipy.special import fdtrc

    return residual <= 0 or float(fdtrc(df, within, (between / df) / (residual / within))) < _SIGNIFICANT


_FEWEST_CELLS: Final = 2


#: A date with hour, minute and second, as tools write it into the names of their results.
_TO_THE_SECOND: Final = re.compile(r"[0-9]{4}.*[^0-9][0-2][0-9][-_:.]?[0-5][0-9][-_:.]?[0-5][0-9]\Z")


def _doubt_dates(members: Sequence[Member], assumed: list[str]) -> list[Member]:
    """Members of which runs that differ only in a date are repeats, unless their results are far apart."""
    uses = [
        (member, at)
        for member in members
        for at in [next((at for at, token in enumerate(member.tokens) if token.fact == "date"), None)]
        if at is not None
    ]
    if uses and all(_TO_THE_SECOND.search(one.tokens[at].text) for one, at in uses):
        # A tool wrote when the run was made: no setting, however far apart the results are.
        return list(members)
    doubt = find_doubt(_make_cells(uses), most=_PLAUSIBLE) or _find_numbers_in_dates(uses)
    if doubt is None:
        return list(members)
    assumed.append(
        f"{pluralize(len(uses), 'output')} such as {uses[0][0].file.relative}: are runs that differ only in the date "
        f"repeats? They count as set-ups of their own, because {doubt} (if they are repeats, state `set_up` and "
        "`iteration` in identity.yml)"
    )
    found = {(id(one), at): replace(one.tokens[at], fact=None, reason="") for one, at in uses}
    return _replace_tokens(members, found)


_HOUR_AND_MINUTE: Final = re.compile(r"(?<=[0-9]{4}[-_. ])(?P<hour>[0-2][0-9])[-_.](?P<minute>[0-5][0-9])\Z")


def _find_numbers_in_dates(uses: Sequence[tuple[Member, int]]) -> str | None:
    """Why what follows dates like a time of day is none: each hour has the same several minutes."""
    clocks = [_HOUR_AND_MINUTE.search(member.tokens[at].text) for member, at in uses]
    found = {(clock["hour"], clock["minute"]) for clock in clocks if clock is not None}
    hours, minutes = {hour for hour, _ in found}, {minute for _, minute in found}
    if len(hours) > 1 and len(minutes) > 1 and len(found) == len(hours) * len(minutes):
        return "what follows the date is a table of numbers, and no time of day"
    return None


def _judge_parts(members: Sequence[Member], assumed: list[str]) -> list[Member]:
    """Members whose numbers of load generators are believed: their times show it, or names and equal run times.

    Others keep apart: what is one generator's throughput is not a run's.
    """
    groups: dict[tuple[object, ...], list[tuple[Member, int]]] = defaultdict(list)
    for member in members:
        at = next((at for at, token in enumerate(member.tokens) if token.fact == "part"), None)
        if at is not None and member.file.identity.part is None and member.threads_of_run is None:
            others = tuple((token.label, token.text) for place, token in enumerate(member.tokens) if place != at)
            groups[(others, *_get_cell_contents(member))].append((member, at))
    found: dict[tuple[int, int], Token] = {}
    together: set[int] = set()
    apart: list[Member] = []
    for group in groups.values():
        # Times decide where all have some.
        if all(member.own.end is not None for member, _ in group):
            continue
        if _ran_together(group):
            together |= {id(member) for member, _ in group}
            continue
        apart += [member for member, _ in group]
        found |= {(id(one), at): replace(one.tokens[at], fact=None, reason="") for one, at in group}
    summed = [member for member in members if id(member) in together]
    if summed:
        assumed.append(
            f"{pluralize(len(summed), 'output')} such as {summed[0].file.relative}: they are load generators of one "
            "run, and their throughput is added, because their names number them and they ran equally long (if they "
            "ran one after the other, state `iteration` in identity.yml)"
        )
    if apart:
        assumed.append(
            f"{pluralize(len(apart), 'output')} such as {apart[0].file.relative}: did they run together? They count as "
            "set-ups of their own, because they have no times, and their numbers or run times do not show it (if so, "
            "state `part` in identity.yml)"
        )
    marked = [replace(member, together=True) if id(member) in together else member for member in members]
    places = {
        (id(new), at): found[id(old), at]
        for old, new in zip(members, marked, strict=True)
        for at in range(len(old.tokens))
        if (id(old), at) in found
    }
    return _replace_tokens(marked, places)


def _ran_together(group: Sequence[tuple[Member, int]]) -> bool:
    named = all(member.tokens[at].label in _DRIVERS for member, at in group)
    return named and len(group) > 1 and _ran_equally_long(group)


def _ran_equally_long(group: Sequence[tuple[Member, int]]) -> bool:
    """Whether outputs are numbered without a gap, and ran equally long."""
    numbers = [member.tokens[at].number for member, at in group]
    durations = [member.own.duration_s for member, _ in group]
    known = [duration for duration in durations if duration]
    numbered = len(set(numbers)) == len(numbers) and _counts_up(numbers)
    return numbered and len(known) == len(group) and max(known) <= (1 + _SAME_DURATION) * min(known)


def _list_unused_facts(members: Sequence[Member], placed: Sequence[Member]) -> Iterator[str]:
    """What somebody stated of outputs and the design could not use, one line for each fact."""
    unused: dict[str, list[str]] = defaultdict(list)
    for before, after in zip(members, placed, strict=True):
        stated, found = before.file.identity, after.file.identity
        if stated.iteration is not None and found.iteration != stated.iteration:
            unused["iteration"].append(before.file.relative)
        if stated.part is not None and found.drivers is None:
            unused["part"].append(before.file.relative)
    for fact, paths in unused.items():
        why = {
            "iteration": "another run of the same set-up has the same number",
            "part": "no other output of the same run is beside it",
        }[fact]
        yield f"{pluralize(len(paths), 'output')} such as {paths[0]}: its stated `{fact}` is not used, because {why}"


def _is_of_word(uses: Sequence[Member], at: int, members: Sequence[Member]) -> bool:
    """Whether numbers are of the word before them (`partition.1`): it is always the same, and other files lack it."""
    words = {_find_word_before(member.tokens, at) for member in uses}
    word = next(iter(words)) if len(words) == 1 else None
    return word is not None and any(word not in {token.text for token in member.tokens} for member in members)


def _find_word_before(tokens: Sequence[Token], at: int) -> str | None:
    """The unexplained word that stands before a token in the same folder's or file's name."""
    before = tokens[at - 1] if at else None
    if before is None or before.part != tokens[at].part or before.kind != "word" or before.fact:
        return None
    return before.text


def _name_differences(uses: Sequence[Member]) -> str:
    """What outputs say of themselves that differs between them, in words."""
    facts = [
        name
        for name in (*_COMPARED, "target", "workload", "phase")
        if len({getattr(one.own, name) for one in uses}) > 1
    ]
    names = dict.fromkeys(name for one in uses for name, _ in one.own.conditions)
    conditions = [name for name in names if len({dict(one.own.conditions).get(name) for one in uses}) > 1]
    return ", ".join(name.replace("_", " ") for name in (*facts, *conditions)) or "formats"


def _is_complete_numbering(uses: Sequence[Member], at: int, *, but_contents: bool = False) -> bool:
    """Whether each cell has the same numbers from the first on.

    Args:
        uses: outputs whose names have the same shape.
        at: place of the number among the tokens.
        but_contents: what the outputs say of themselves makes no cells.
    """
    cells: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for member in uses:
        others = tuple(token.text for place, token in enumerate(member.tokens) if place != at)
        cells[(*others, *(() if but_contents else _get_cell_contents(member)))].append(member.tokens[at].number)
    numbers = {number for cell in cells.values() for number in cell}
    full = sum(len(cell) == len(numbers) for cell in cells.values())
    once = all(len(set(cell)) == len(cell) for cell in cells.values())
    return _counts_up(numbers) and once and full >= _CLOSED_SHARE * len(cells)


def _is_part(member: Member) -> bool:
    """Whether an output is that of one of several load generators, as stated or named."""
    return (
        member.threads_of_run is not None
        or member.file.identity.part is not None
        or any(token.fact == "part" for token in member.tokens)
    )


def _get_cell_contents(member: Member) -> tuple[object, ...]:
    """What tells the cells of a design apart that files say themselves, or somebody states."""
    own = member.own
    is_part = _is_part(member)
    within = _WITHIN_CELL | ({"threads"} if is_part else set())
    stated = {k: v for k, v in member.file.identity.to_dict().items() if k not in within}
    # Generators share the operations of a run, and need not do equally many.
    conditions = tuple(one for one in own.conditions if not (is_part and one[0] in _OF_GENERATOR))
    threads = None if is_part else own.threads
    known = (
        threads,
        is_part,
        member.threads_of_run,
        own.scale_factor,
        own.records,
        own.workload,
        own.phase,
        own.target,
        conditions,
    )
    return (member.file.format.name if member.file.format else None, *known, tuple(sorted(stated.items())))


def _add_set_ups(members: Sequence[Member], beside_others: bool) -> list[Member]:
    """Identities with the set-up: the unexplained tokens in which files differ."""
    counts = [Counter(member.unexplained.values()) for member in members]
    common = {text for first in counts[:1] for text in first if all(one[text] == first[text] for one in counts)}
    if beside_others and members:
        common -= {text for (part, _), text in members[0].unexplained.items() if part == _ABOVE}
    texts = [[text for text in member.unexplained.values() if text not in common] for member in members]
    if not beside_others:
        texts = _drop_fillers(texts)
    named = [_add_name_facts(member, words) for member, words in zip(members, texts, strict=True)]
    return _add_condition_words(named)


def _drop_fillers(texts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Words of set-ups without those that say nothing or are repeated, as long as these do not tell set-ups apart."""
    kept = [list(words) for words in texts]
    once = [list(dict.fromkeys(words)) for words in kept]
    if _tell_apart(once) == _tell_apart(kept):
        kept = once
    fillers = sorted({text for words in kept for text in words if text.lower() in _FILLERS})
    first = {
        words[0]
        for words, own in zip(kept, texts, strict=True)
        if len(words) > 1 and words[0].isdecimal() and own[1].lower() in _FILLERS
    }
    for text in (*fillers, *sorted(first)):
        without = [[word for word in words if word != text] for words in kept]
        if all(without) and _tell_apart(without) == _tell_apart(kept):
            kept = without
    return kept


def _tell_apart(texts: Sequence[Sequence[str]]) -> int:
    return len({tuple(words) for words in texts})


def _add_condition_words(members: Sequence[Member]) -> list[Member]:
    """Members with the conditions in which outputs that would share a set-up differ, in the name of the set-up."""
    values: dict[tuple[object, ...], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))

    def key(member: Member) -> tuple[object, ...]:
        named = {k: v for k, v in member.file.identity.to_dict().items() if k not in _WITHIN_CELL}
        return tuple(sorted(named.items())), member.own.threads, member.own.scale_factor, not _is_part(member)

    for member in members:
        for name, text in member.own.conditions:
            if name not in _IN_COLUMNS and not (_is_part(member) and name in _OF_GENERATOR):
                values[key(member)][name].add(text)

    def add_conditions(member: Member) -> Member:
        differing = values.get(key(member), {})
        words = [text for name, text in member.own.conditions if len(differing.get(name, ())) > 1 and text]
        identity = member.file.identity
        if not words:
            return member
        usual = identity.set_up in (None, USUAL_SET_UP)
        set_up = "-".join([*([] if usual else [str(identity.set_up)]), *words])
        return replace(member, file=replace(member.file, identity=replace(identity, set_up=set_up)))

    return [add_conditions(member) for member in members]


def _add_name_facts(member: Member, texts: Sequence[str]) -> Member:
    """A member with the identity that its name gives it; its run and its iteration are not yet known.

    Args:
        member: the member.
        texts: unexplained words and numbers in which it differs from others.
    """
    differing = list(texts)
    named = {fact: member.number(fact) for fact in ("workers", "threads", "records", "operations", "iteration")}
    facts: Facts = {fact: value for fact, value in named.items() if value is not None}
    scale = member.number("scale_factor")
    if scale is not None and member.own.scale_factor is None:
        differing.append(f"scale {scale}")
    facts |= {"workload": workload} if (workload := _find_named_workload(member)) else {}
    facts |= {"set_up": "-".join(differing)} if differing else {}
    own = {fact: getattr(member.own, fact) for fact in ("workload", "phase", "records", "threads")}
    said: Facts = {fact: value for fact, value in own.items() if value is not None}
    stated = member.file.identity.to_dict()
    inferred = sorted(facts.keys() - said.keys() - stated.keys())
    identity = Identity.of({"set_up": USUAL_SET_UP} | facts | said | stated)
    return replace(member, file=replace(member.file, identity=identity), inferred=tuple(inferred))


def _find_named_workload(member: Member) -> str | None:
    texts = [token.text.lower() for token in member.tokens if token.fact == "workload"]
    return _find_workload_letter("".join(texts)) if texts else None


def _list_contradicted_facts(member: Member) -> list[str]:
    """The facts of which the name of a file says something else than the file itself."""
    drivers = member.file.identity.drivers or 1
    pairs = {fact: (member.number(fact), getattr(member.own, fact)) for fact in ("threads", "scale_factor")}
    return [
        fact
        for fact, (named, own) in pairs.items()
        if None not in (named, own) and named not in (own, own * drivers)
        if (fact, named) != ("threads", member.threads_of_run)
    ]


def _mark_facts_unexplained(member: Member, facts: Collection[str]) -> Member:
    """A member of whose name some numbers are not explained, so that they keep it apart from others."""
    tokens = (replace(token, fact=None, reason="") if token.fact in facts else token for token in member.tokens)
    return replace(member, tokens=tuple(tokens))


def _find_contradictions(member: Member) -> Iterator[str]:
    for fact in _list_contradicted_facts(member):
        named, own = member.number(fact), getattr(member.own, fact)
        yield f"{member.file.relative}: its name says {named} {fact.replace('_', ' ')}, the file itself {own}"
    if (workload := _find_named_workload(member)) and member.own.workload not in (None, workload):
        yield f"{member.file.relative}: its name says workload {workload}, the file itself {member.own.workload}"


def _assign_run_identities(members: Sequence[Member]) -> list[Member]:
    """Members with the run, part and iteration."""
    cells: dict[tuple[object, ...], list[Member]] = defaultdict(list)
    for member in members:
        identity = member.file.identity
        within = _WITHIN_CELL | ({"threads"} if _is_part(member) else set())
        named = {k: v for k, v in identity.to_dict().items() if k not in within}
        cells[(tuple(sorted(named.items())), *_get_cell_contents(member))].append(member)
    placed = {id(old): new for cell in cells.values() for old, new in _number_cell_runs(cell)}
    return [placed[id(member)] for member in members]


def _number_cell_runs(cell: Sequence[Member]) -> Iterator[tuple[Member, Member]]:
    runs = _group_into_runs(cell)
    numbers = [{member.file.identity.iteration for member in run} for run in runs]
    known = [next(iter(number)) if len(number) == 1 else None for number in numbers]
    are_named = None not in known and len(set(known)) == len(known)
    for rank, run in enumerate(runs, start=1):
        iteration = known[rank - 1] if are_named or len(runs) == 1 else rank
        yield from ((member, _set_run_identity(member, run, iteration)) for member in run)


def _group_into_runs(cell: Sequence[Member]) -> list[list[Member]]:
    """The members of each run in the order of time: those that ran at the same time, or are stated to be parts."""
    dates = {
        id(member): [make_date_key(token.text) for token in member.tokens if token.fact == "date"] for member in cell
    }
    ordered = sorted(cell, key=lambda one: (dates[id(one)], one.own.begin or 0.0, one.file.location))
    runs: list[list[Member]] = []
    for member in ordered:
        for run in runs:
            if any(_is_same_run(member, other) for other in run):
                run.append(member)
                break
        else:
            runs.append([member])
    return runs


def _is_same_run(one: Member, other: Member) -> bool:
    """Whether two outputs are of one run: the same generator's two streams, stated parts, or times that overlap."""
    mine, its = one.file, other.file
    if mine.identity.resource == its.identity.resource and strip_path_suffixes(mine.key) == strip_path_suffixes(
        its.key
    ):
        return True
    parts = mine.identity.part, its.identity.part
    if None not in parts and parts[0] != parts[1]:
        return mine.identity.iteration == its.identity.iteration
    if one.together and other.together:
        return _list_texts_but_part(one) == _list_texts_but_part(other)
    return one.own.overlaps(other.own)


def _list_texts_but_part(member: Member) -> list[str]:
    return [token.text for token in member.tokens if token.fact != "part"]


def _set_run_identity(member: Member, run: Sequence[Member], iteration: int | None) -> Member:
    file, identity = member.file, member.file.identity
    names = list(dict.fromkeys(strip_path_suffixes(one.file.key) for one in run))
    own = replace(identity, run=names[0], iteration=iteration)
    inferred = {*member.inferred, *(("iteration",) if iteration != identity.iteration else ())}
    if len(names) > 1:
        part = identity.part if identity.part is not None else names.index(strip_path_suffixes(file.key))
        threads = identity.threads
        each = [one.own.threads for one in run]
        if threads is not None and threads == member.own.threads:
            threads = sum(number or threads for number in each)
        own = replace(own, part=part, drivers=len(names), threads=threads, resource=run[0].file.identity.resource)
        inferred.add("drivers")
    return replace(member, file=replace(file, identity=own), inferred=tuple(sorted(inferred)))

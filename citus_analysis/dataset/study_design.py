"""The design of a study whose files follow no convention: which runs there are, and in what they differ.

The names of all files are taken apart together. A token that varies is a factor. What it means is only believed with
evidence: a word beside a number, equality with what the files say themselves, or a design that closes, in which each
cell has the same repeats. What is not explained is part of the set-up: results that differ in it never share a series.
Several files of a cell are generators of one run if they ran at the same time, and repeats otherwise.

Facts that somebody states, and what a file says of itself, have priority over its name.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Final, TypeAlias

from citus_analysis.dataset.identity import Facts, Identity, strip_compression_suffix, strip_path_suffixes
from citus_analysis.dataset.source_files import OwnFacts, SourceFile
from citus_analysis.runs.set_ups import USUAL_SET_UP
from citus_analysis.schema import TABLES
from citus_analysis.texts.words import pluralize

# Take a path apart into words and numbers, and find the words that say what the numbers are.
#
# A number is a fact if a word of the field stands beside it: directly (`w4`, `16threads`, `run2`), or apart
# (`nodes=4`,
# `results_8_workers`, `threads/16`). Which word belongs to which number is decided for a folder's or file's name at
# once:
# in `3w_16c` words follow their numbers, in `w_3_c_16` they precede them.

#: Word beside a number -> what the number may be; of several, the contents of the files decide.
MEANINGS: Final = {
    **dict.fromkeys(("worker", "workers", "w", "wk", "node", "nodes", "n", "nw", "numworkers"), ("workers",)),
    **dict.fromkeys(("thread", "threads", "t", "th", "thr", "threadcount", "numthreads"), ("threads",)),
    **dict.fromkeys(("clients", "c", "conn", "conns", "connections", "cl", "concurrency"), ("threads",)),
    **dict.fromkeys(("vu", "vus", "vuser", "vusers", "terminals", "users", "warehouseworkers"), ("threads",)),
    **dict.fromkeys(("run", "runs", "r", "rep", "reps", "repeat", "repetition"), ("iteration",)),
    **dict.fromkeys(("iter", "iteration", "it", "i", "trial", "round", "pass", "attempt", "try"), ("iteration",)),
    "client": ("part", "threads"),
    **dict.fromkeys(("driver", "part", "par", "generator", "gen", "loadgen", "instance", "inst", "proc"), ("part",)),
    **dict.fromkeys(("records", "recs", "rows", "recordcount", "rc"), ("records",)),
    **dict.fromkeys(("scale", "sf", "s", "scalefactor", "warehouses", "wh"), ("scale_factor",)),
    **dict.fromkeys(("ops", "operations", "operationcount"), ("operations",)),
}
_DATE: Final = (
    r"20[0-9]{2}-[0-9]{2}-[0-9]{2}(?:[T_ -]?[0-9]{2}[-:_.h]?[0-9]{2}(?:[-:_.m]?[0-9]{2})?Z?)?"
    r"|20[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:[T_-]?[0-9]{4,6})?Z?|1[5-9][0-9]{8}"
)
_TOKEN: Final = re.compile(
    rf"(?P<date>(?<![0-9])(?:{_DATE})(?![0-9]))|(?P<number>[0-9]+(?:[kKmM](?![A-Za-z0-9]))?)|(?P<word>[^\W\d_]+)"
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
    return found


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
        kind, text = str(match.lastgroup), match[0]
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
# nearest
# folder that has any, and of these the ones whose names share its words and numbers, are those that such a file
# belongs
# to. If all of them are of one iteration, and other iterations have such a file of their own, so is the file: a
# single
# log, beside the first repeat, may be that of all repeats. Otherwise times decide which rows belong to which run.
#
# A node is only believed where the field's own words name it, such as `coordinator` or `worker-2`, and no output is
# named
# so: `w2` may as well be the number of workers.

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
Shown: TypeAlias = tuple[str | None, str]


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
    told = {one.kind: len(covered[one.kind]) > 1 or len(every[one.file.root]) == 1 for one in placed}
    found = (one.companion(first=first[one.file.root], of_iteration=told[one.kind]) for one in placed)
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
        own = near.sharing(shared)
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
    _found: dict[frozenset[Shown], list[SourceFile]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tokens = [_own_tokens(output, self.depth) for output in self.outputs]
        self.labels = {token.label for own in tokens for token in own if token.label}
        self._shown = [frozenset(map(_get_displayed_token, own)) for own in tokens]
        self.shown = frozenset[Shown]().union(*self._shown)

    def sharing(self, shared: frozenset[Shown]) -> list[SourceFile]:
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


def _get_displayed_token(token: Token) -> Shown:
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
    """

    file: SourceFile
    tokens: tuple[Token, ...]
    own: OwnFacts
    inferred: tuple[str, ...] = ()

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
class Design:
    """The design that was read.

    Attributes:
        members: the load generators' outputs, in the order of the files.
        contradictions: one line for each file whose name and contents differ.
        companions: logs, samples and profiles beside the outputs.
    """

    members: tuple[Member, ...] = ()
    contradictions: tuple[str, ...] = ()
    companions: tuple[Companion, ...] = ()

    @property
    def assumptions(self) -> list[str]:
        """What was assumed because nothing decides it, one line each."""
        parts = [m for m in self.members if m.number("part") is not None and m.file.identity.part is None]
        undated = [member.file.relative for member in parts if member.own.end is None]
        if not undated:
            return []
        what = "they count as repeats, because they have no times that show that they ran together"
        return [
            f"{pluralize(len(undated), 'output')} such as {undated[0]}: {what} (if so, state `part` in identity.yml)"
        ]

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


def read_design(files: Sequence[SourceFile], *, beside_others: bool = False) -> Design:
    """The design of a study.

    Args:
        files: outputs of load generators whose run nobody states.
        beside_others: there are results of other folders, from which those of these files must be distinguished.
    """
    several = beside_others or len({file.root for file in files}) > 1
    readings = [
        _apply_labels([Member(file, tuple(_collect_path_tokens(file, several, follow)), file.own) for file in files])
        for follow in (False, True)
    ]
    # The first one of those that agree equally often with what the files say of themselves.
    members = max(readings, key=_count_agreements)
    for step in (_match_equal_numbers, _match_words, _match_repeats):
        members = step(members)
    placed = _assign_run_identities(_add_set_ups(members, beside_others))
    contradictions = [line for member in placed for line in _find_contradictions(member)]
    if any(_list_contradicted_facts(member) for member in placed):
        doubted = [
            _mark_facts_unexplained(member, _list_contradicted_facts(end))
            for member, end in zip(members, placed, strict=True)
        ]
        placed = _assign_run_identities(_add_set_ups(doubted, beside_others))
    return Design(tuple(placed), tuple(contradictions))


def _collect_path_tokens(file: SourceFile, several: bool, words_follow: bool) -> Iterator[Token]:
    """The tokens of a path, and those of the folder that was given: all of them only where there are several."""
    own = tokenize_path(file.relative if file.origin is None else file.key, words_follow=words_follow)
    above = [replace(token, part=_ABOVE) for token in tokenize_path(file.root.name) if several or token.label]
    for token in (*above, *own):
        yield replace(token, fact="date", reason="a date") if token.kind == "date" else token


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

    def explained(token: Token) -> Token:
        fact = None if token.label is None else meanings[token.label]
        return token if fact is None else replace(token, fact=fact, reason=f"the word {token.label!r} beside it")

    return _drop_repeated_facts([replace(member, tokens=tuple(map(explained, member.tokens))) for member in members])


def _drop_repeated_facts(members: Sequence[Member]) -> list[Member]:
    """Of several numbers for one fact in a path, the first is it (of iterations the last), others are unexplained.

    Where they are equal in all paths, such as in names of folders and files, they say the same.
    """
    repeated = {fact for member in members for fact in _NUMBERED if len(member.numbers(fact)) > 1}

    def kept(member: Member) -> Member:
        tokens = list(member.tokens)
        for fact in repeated:
            places = [at for at, token in enumerate(tokens) if token.fact == fact]
            for at in places[:-1] if fact == "iteration" else places[1:]:
                tokens[at] = replace(tokens[at], fact=None, reason="")
        return replace(member, tokens=tuple(tokens))

    return [kept(member) for member in members] if repeated else list(members)


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


def _match_repeats(members: Sequence[Member]) -> list[Member]:
    """The last number that varies, if it counts the repeats of each cell from 1 or 0."""
    found: dict[tuple[int, int], Token] = {}
    slots = _group_by_slot([member for member in members if member.number("iteration") is None])
    last: dict[object, int] = {}
    for (shape, at), uses in slots.items():
        if len({member.tokens[at].number for member in uses}) > 1:
            last[shape] = max(at, last.get(shape, at))
    for shape, at in last.items():
        uses = slots[shape, at]
        if _is_complete_numbering(uses, at) and not _is_of_word(uses, at, members):
            reason = "each cell has the same numbers from the first on"
            found |= {(id(one), at): replace(one.tokens[at], fact="iteration", reason=reason) for one in uses}
    return _replace_tokens(members, found)


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


def _is_complete_numbering(uses: Sequence[Member], at: int) -> bool:
    cells: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for member in uses:
        others = tuple(token.text for place, token in enumerate(member.tokens) if place != at)
        cells[(*others, *_get_cell_contents(member))].append(member.tokens[at].number)
    numbers = {number for cell in cells.values() for number in cell}
    full = sum(len(cell) == len(numbers) for cell in cells.values())
    once = all(len(set(cell)) == len(cell) for cell in cells.values())
    return _counts_up(numbers) and once and full >= _CLOSED_SHARE * len(cells)


def _get_cell_contents(member: Member) -> tuple[object, ...]:
    """What tells the cells of a design apart that files say themselves, or somebody states."""
    own = member.own
    stated = {k: v for k, v in member.file.identity.to_dict().items() if k not in _WITHIN_CELL}
    # Generators share the operations of a run, and need not do equally many.
    known = (own.threads, own.scale_factor, own.records, own.workload, own.phase)
    return (member.file.format.name if member.file.format else None, *known, tuple(sorted(stated.items())))


def _add_set_ups(members: Sequence[Member], beside_others: bool) -> list[Member]:
    """Identities with the set-up: the unexplained tokens in which files differ."""
    counts = [Counter(member.unexplained.values()) for member in members]
    common = {text for first in counts[:1] for text in first if all(one[text] == first[text] for one in counts)}
    if beside_others and members:
        common -= {text for (part, _), text in members[0].unexplained.items() if part == _ABOVE}
    return [_add_name_facts(member, common) for member in members]


def _add_name_facts(member: Member, common: Iterable[str]) -> Member:
    """A member with the identity that its name gives it; its run and its iteration are not yet known."""
    differing = [text for text in member.unexplained.values() if text not in common]
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
        fact for fact, (named, own) in pairs.items() if None not in (named, own) and named not in (own, own * drivers)
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
        named = {k: v for k, v in identity.to_dict().items() if k not in _WITHIN_CELL}
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
    dates = {id(member): [token.text for token in member.tokens if token.fact == "date"] for member in cell}
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
    return one.own.overlaps(other.own)


def _set_run_identity(member: Member, run: Sequence[Member], iteration: int | None) -> Member:
    file, identity = member.file, member.file.identity
    names = list(dict.fromkeys(strip_path_suffixes(one.file.key) for one in run))
    own = replace(identity, run=names[0], iteration=iteration)
    inferred = {*member.inferred, *(("iteration",) if iteration != identity.iteration else ())}
    if len(names) > 1:
        part = identity.part if identity.part is not None else names.index(strip_path_suffixes(file.key))
        threads = identity.threads
        if threads is not None and threads == member.own.threads:
            threads *= len(names)
        own = replace(own, part=part, drivers=len(names), threads=threads, resource=run[0].file.identity.resource)
        inferred.add("drivers")
    return replace(member, file=replace(file, identity=own), inferred=tuple(sorted(inferred)))

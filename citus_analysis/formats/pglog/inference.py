"""Inference of `log_line_prefix` from a sample of a log.

The text before a severity is taken apart by what its fields are, and by how they behave over many records:

- `vocabulary`: words beside fields (`user=`), backend types and command tags;
- `sample`: the records of a sample: text before the severity, severity, message;
- `tokens`: such a text as literals and slots;
- `template`: a sequence of elements, matched against all records;
- `candidates`: templates from records whose literals are equal;
- `session_facts`: what messages say about the session of a record;
- `time_escapes`, `number_escapes`, `text_escapes`, `slot_escapes`: the escape of each slot, proven or not;
- `forms`: what a slot looks like;
- `infer`: the best template as a prefix.

A slot whose escape is not proven matches lines, but gives no column.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from itertools import groupby, pairwise, product
from types import MappingProxyType
from typing import Final

from citus_analysis.formats.pglog.prefix import (
    ADDRESS_PATTERN,
    BACKEND_TYPES,
    HEAD_LIMIT,
    MAX_ELEMENTS,
    SECOND_PATTERN,
    SEVERITY_WORDS,
    STAMP_PATTERN,
    TAG_PATTERN,
    ZONE_PATTERN,
    Element,
    Prefix,
)

# The text before a severity as literals and slots.
#
# A slot is a part that can be the value of a field: a time, a number, a word. Words before `=` are literals. Between
# delimiters with nothing between them, and after a `=` that nothing follows, there is an empty slot.

#: Kind (`literal`, or a kind of slot) and text.
Token = tuple[str, str]
EMPTY: Final = "empty"

_ALONE = r"(?<![\w.])"
_ENDS = r"(?![\w.])"
#: Citus names its own connections so; the whole is the application's name.
_OF_CITUS = r"[\w$.-]+ gpid=[0-9]+(?![\w.])"
_KINDS: Final = {
    "iso": r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?",
    "ms": STAMP_PATTERN,
    "second": rf"{SECOND_PATTERN} {ZONE_PATTERN}",
    "epoch": rf"{_ALONE}[0-9]{{10}}\.[0-9]{{3}}{_ENDS}",
    "session": rf"{_ALONE}[0-9a-f]{{8}}\.[0-9a-f]{{1,7}}{_ENDS}",
    "literal": r"(?<!\w)[A-Za-z_]\w*=",
    "remote": rf"(?:\[local\]|{ADDRESS_PATTERN}|(?<![\w.-])[A-Za-z0-9][\w.-]*)\([0-9]{{1,5}}\)",
    "unset": r"\[unknown\]",
    "host": rf"\[local\]|(?<![\w.:]){ADDRESS_PATTERN}(?![\w.])",
    "vxid": r"(?<![\w./])(?:-1|[0-9]+)/[0-9]+(?![\w./]|-[0-9]{2}-)",
    "backend": rf"(?<!\w)(?:{'|'.join(map(re.escape, BACKEND_TYPES))})(?!\w)",
    "tag": rf"(?<!\w){TAG_PATTERN}(?!\w)",
    "number": r"(?<![\w.])(?:-(?![0-9]{4}-[0-9]{2}-|[0-9]{10}\.))?[0-9]+(?![\w.])",
}
_WORD: Final = {True: r"[\w$](?:(?:[\w$.]|-(?!\w+=))*[\w$])?", False: r"[\w$.]+"}
_PATTERNS: Final = {
    dashed: re.compile(
        "|".join(f"(?P<{kind}>{text})" for kind, text in {"citus": _OF_CITUS, **_KINDS, "word": word}.items())
    )
    for dashed, word in _WORD.items()
}
#: Between two of these, or a pair of brackets, a field is empty; so is one after `=`, but not after ` = `.
_BETWEEN: Final = re.compile(r"(?<=[,|;])(?=[,|;])|(?<=\[)(?=\])|(?<=\()(?=\))|(?<=[^ ]=)(?![\[({<\"'])")


def tokenize_prefix(head: str, *, dashed: bool = True) -> list[Token]:
    """The literals and slots of a text, in order.

    Args:
        head: the text before a severity.
        dashed: whether `-` may be part of a word.

    Example:
        >>> [text for kind, text in tokenize_prefix("[7] user=a,db= ") if kind == "literal"]
        ['[', '] user=', ',db=', ' ']
        >>> [kind for kind, _ in tokenize_prefix("[7] user=a,db= ") if kind != "literal"]
        ['number', 'word', 'empty']
    """
    found: list[Token] = []
    literal, place = "", 0
    for match in _PATTERNS[dashed].finditer(head):
        literal += head[place : match.start()]
        place = match.end()
        if match.lastgroup == "literal":
            literal += match[0]
            continue
        _add_literal(found, literal, last=False)
        found.append((match.lastgroup or "word", match[0]))
        literal = ""
    _add_literal(found, literal + head[place:], last=True)
    return found


def _add_literal(found: list[Token], literal: str, *, last: bool) -> None:
    parts = _BETWEEN.split(literal) if literal else []
    for number, part in enumerate(parts):
        # A `=` directly before a slot has its value there.
        if number and (part or last):
            found.append((EMPTY, ""))
        if part:
            found.append(("literal", part))


def extract_skeleton(found: list[Token]) -> tuple[str, ...]:
    """The literals, with an empty text for each slot: equal for texts of which only the values differ."""
    return tuple(text if kind == "literal" else "" for kind, text in found)


# Words that stand beside fields of a prefix, and closed lists of values: backend types and command tags.

_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "u": "u user usr username user_name dbuser db_user role uname login",
        "d": "d db dbname database datname db_name database_name dbase",
        "a": "a app appl appli application appname app_name application_name program",
        "h": "h r ip host client remote rhost addr address peer from hostname client_ip client_addr client_host "
        "clientip remote_host remote_addr remote_ip source src",
        "p": "p pid proc process backend_pid process_id processid",
        "l": "l line lineno line_num seq num session_line",
        "e": "e state sqlstate errcode sql_state sql_error_code code",
        "x": "x xid tx txid trx xact transaction",
        "v": "v vxid vtx vxact virtual vid",
        "Q": "q qid queryid query_id",
        "i": "i cmd command tag command_tag ps",
        "b": "b backend type backend_type btype",
        "c": "c session sess sid session_id",
        "t": "t time ts date timestamp start session_start",
    }
)
#: Word beside a field (lower case) -> the escape that it means; `h` also for `%r`.
KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {word: letter for letter, words in _WORDS.items() for word in words.split()}
)
_KEY: Final = re.compile(r"([A-Za-z_][\w-]*)\s*[=:]\s*[\"'(\[{<]?$")


def find_key_escape(literal: bytes) -> str | None:
    """The escape that the word at the end of a literal means; an empty text for an unknown word; None without one.

    Example:
        >>> find_key_escape(b"] user="), find_key_escape(b",x1=("), find_key_escape(b"] ")
        ('u', '', None)
    """
    found = _KEY.search(literal.decode())
    return None if found is None else KEYS.get(found[1].lower(), "")


# The records of a sample of a log, as far as they say something about the prefix.

_SEVERITY_WORDS: Final = "|".join(SEVERITY_WORDS)
#: The first severity of a line. Two blanks follow; where copies have one, it must not be part of a longer word.
_MARK: Final = re.compile(rf"(?:{_SEVERITY_WORDS})[1-5]?:  |(?<![A-Za-z])(?:{_SEVERITY_WORDS})[1-5]?: (?! )")
#: Messages that say something about their session, and need not be among the first of the sample.
_TELLING: Final = re.compile(
    r"connection received:|connection authorized:|disconnection:|does not exist$|authentication failed for user"
    r"|no pg_hba.conf entry|process [0-9]+ (?:still waiting|acquired)"
)
#: Records that are looked at: the first, then telling ones, and some of the rest.
_FIRST, _MORE, _SPREAD = 256, 192, 64


@dataclass(frozen=True)
class Record:
    """A record.

    Attributes:
        head: the text before its severity.
        severity: with its digit.
        message: the beginning of its text.
    """

    head: str
    severity: str
    message: str


def parse_sample_records(sample: str) -> list[Record]:
    r"""Records of a sample, in order.

    Lines that begin with a tab continue records. Not all records of a large sample are given: the first ones, those
    whose messages tell something about their session, and some from the rest.

    Example:
        >>> parse_sample_records("12:00 [7] LOG:  ready\n\tand\n")
        [Record(head='12:00 [7] ', severity='LOG', message='ready')]
    """
    found = [(line, mark) for line in sample.split("\n") if (mark := match_severity(line)) is not None]
    chosen = _choose_messages([line[mark.end() : mark.end() + 400] for line, mark in found])
    return [
        Record(line[: mark.start()], mark[0].rstrip(" :"), line[mark.end() : mark.end() + 1000].rstrip("\r"))
        for line, mark in (found[number] for number in chosen)
    ]


def match_severity(line: str) -> re.Match[str] | None:
    """The severity of a line that does not begin with a tab."""
    if line.startswith("\t") or ": " not in line:
        return None
    return _MARK.search(line, 0, HEAD_LIMIT)


def _choose_messages(messages: Sequence[str]) -> list[int]:
    chosen = set(range(min(_FIRST, len(messages))))
    if len(messages) > _FIRST:
        telling = [number for number in range(_FIRST, len(messages)) if _TELLING.search(messages[number])]
        chosen.update(telling[:_MORE])
        chosen.update(range(_FIRST, len(messages), 1 + (len(messages) - _FIRST) // _SPREAD))
    return sorted(chosen)


# What the messages of a log say about the session of a record: user, database, application, client.

_RECEIVED: Final = re.compile(r"connection received: host=(?P<h>\S+)(?: port=(?P<port>[0-9]+))?")
_AUTHORIZED: Final = re.compile(
    r"(?:replication )?connection authorized: user=(?P<u>.*?)(?: database=(?P<d>.*?))?"
    r"(?: application_name=(?P<a>.*?))?(?: SSL enabled .*| GSS .*)?$"
)
_ENDED: Final = re.compile(
    r"disconnection: session time: \S+ user=(?P<u>.*) database=(?P<d>.*) host=(?P<h>\S+)(?: port=(?P<port>[0-9]+))?$"
)
_REFUSED: Final = (
    re.compile(
        r'no pg_hba\.conf entry for (?:replication connection from )?host "(?P<h>[^"]*)", user "(?P<u>[^"]*)"'
        r'(?:, database "(?P<d>[^"]*)")?'
    ),
    re.compile(r'database "(?P<d>.*)" does not exist$'),
    re.compile(r'role "(?P<u>.*)" does not exist$'),
    re.compile(r'\S+ authentication failed for user "(?P<u>.*)"$'),
    re.compile(r'permission denied for database "(?P<d>.*)"$'),
    re.compile(r'role "(?P<u>.*)" is not permitted to log in$'),
    re.compile(r'too many connections for (?:role "(?P<u>.*)"|database "(?P<d>.*)")$'),
)
_OF_CLIENT: Final = re.compile(
    r"connection (?:received|authorized|authenticated):|disconnection:|statement: |execute |parse |bind "
    r"|duration: [0-9.]+ ms"
)
_OF_SERVER: Final = re.compile(
    r"checkpoint |restartpoint |automatic (?:vacuum|analyze|aggressive vacuum) |database system |listening on "
    r"|starting PostgreSQL|redo (?:starts|done)|autovacuum launcher|received (?:SIGHUP|fast shutdown|smart shutdown)"
    r"|shutting down|background worker \"|aborting any active"
)


@dataclass(frozen=True)
class SessionFacts:
    """What is known of a record.

    Attributes:
        stage: `received` and `authorized` for the messages that say so, `ended`, `refused`; empty for others.
        values: escape (`u`, `d`, `a`, `h`, and `port`) -> its value in this record.
        client: whether a client's session wrote it; None: unknown.
    """

    stage: str = ""
    values: dict[str, str] = field(default_factory=dict)
    client: bool | None = None


def own_facts(record: Record) -> SessionFacts:
    """What a record itself says."""
    message = record.message
    for stage, pattern in (("received", _RECEIVED), ("authorized", _AUTHORIZED), ("ended", _ENDED)):
        if record.severity == "LOG" and (found := pattern.match(message)):
            return SessionFacts(stage, _select_matched_groups(found), client=True)
    if record.severity == "FATAL":
        for pattern in _REFUSED:
            if found := pattern.match(message):
                return SessionFacts("refused", _select_matched_groups(found), client=True)
    if record.severity in ("STATEMENT", "QUERY") or _OF_CLIENT.match(message):
        return SessionFacts(client=True)
    return SessionFacts(client=False if _OF_SERVER.match(message) else None)


def _select_matched_groups(found: re.Match[str]) -> dict[str, str]:
    return {name: value for name, value in found.groupdict().items() if value is not None}


def collect_session_facts(records: Sequence[Record], processes: Sequence[str | None]) -> list[SessionFacts]:
    """What is known of each record, also from others of its process.

    Args:
        records: in the order of the log.
        processes: the process of each; None: unknown.
    """
    known: dict[str, dict[str, str]] = {}
    facts = []
    for record, process in zip(records, processes, strict=True):
        own = own_facts(record)
        if process is None:
            facts.append(_select_shown_facts(own))
            continue
        if own.stage == "received":
            known[process] = {}
        session = known.setdefault(process, {}) | own.values
        known[process] = {} if own.stage in ("ended", "refused") else session
        facts.append(
            _select_shown_facts(
                replace(own, values=session, client=own.client if own.client is not None else bool(session) or None)
            )
        )
    return facts


def _select_shown_facts(facts: SessionFacts) -> SessionFacts:
    """The values that the prefix of the record shows: before authorization, user and database are not known."""
    if facts.stage == "received":
        return replace(facts, values={k: v for k, v in facts.values.items() if k in ("h", "port")})
    if facts.stage == "authorized":
        # The application's name is set afterwards.
        return replace(facts, values={k: v for k, v in facts.values.items() if k != "a"})
    return facts


# A template: elements of a possible prefix, matched against all records of a sample.

#: Value of a slot in each record; None: the record has none, or it is not known where the value ends.
Values = list[str | None]
#: Most elements and characters of literals among which the place of `%q` is searched.
_MOST: Final = 150
#: Provisional escapes of slots that are empty in records of other processes than clients' backends.
_OF_CLIENTS: Final = frozenset({"?", "h", "r"})


@dataclass(frozen=True)
class Template:
    """Elements, of which those that are escapes are slots.

    Attributes:
        elements: with provisional escapes, which say what form a slot has.
        optional_from: first element of the part that `%q` introduces; their number if there is none.
    """

    elements: tuple[Element, ...]
    optional_from: int

    @cached_property
    def slots(self) -> list[int]:
        """Numbers of the elements that are slots."""
        return [number for number, element in enumerate(self.elements) if element.escape]

    def match(self, heads: Sequence[str]) -> Matched:
        """Match the texts before severities."""
        parts = [element.pattern(named=False, group="(") for element in self.elements]
        always, tail = ("".join(some) for some in (parts[: self.optional_from], parts[self.optional_from :]))
        lazy = re.compile(always + (f"(?:{tail})?" if tail else ""))
        found = [lazy.fullmatch(head) for head in heads]
        columns: list[Values] = [[] for _ in self.slots]
        for head, match in zip(heads, found, strict=True):
            first = _pad_match_groups(match, len(self.slots))
            last = first if match is None or self._is_unique else self._latest(head)
            for column, one, other in zip(columns, first, last, strict=True):
                column.append(one if one == other else None)
        return Matched(self, [match is not None for match in found], columns)

    @cached_property
    def _is_unique(self) -> bool:
        """Whether there is at most one text, which can only end at the end of what is left."""
        return [self.elements[slot].is_text for slot in self.slots].count(True) < 2

    def _latest(self, head: str) -> tuple[str | None, ...]:
        """The values with texts as long as possible, with the optional part if that fits."""
        for count in dict.fromkeys((len(self.elements), self.optional_from)):
            found = re.fullmatch(self._greedy[count], head)
            if found:
                return _pad_match_groups(found, len(self.slots))
        return (None,) * len(self.slots)

    @cached_property
    def _greedy(self) -> dict[int, re.Pattern[str]]:
        """Patterns of the first elements, all of them and those that are not optional, with long texts."""
        parts = [element.pattern(named=False, greedy=True, group="(") for element in self.elements]
        return {count: re.compile("".join(parts[:count])) for count in (len(parts), self.optional_from)}

    def cut_for(self, heads: Sequence[str]) -> Template | None:
        """The template with a `%q` after which these texts end; None if they end at different places.

        Processes other than clients' backends have no user, database, application and client.
        """
        elements = [
            piece
            for element in self.elements
            for piece in (element.single_characters() if element.literal else (element,))
        ]
        if len(elements) > _MOST:
            return None
        nested = ""
        for element in reversed(elements):
            value = "" if element.escape in _OF_CLIENTS else element.pattern(named=False)
            nested = f"(?:{value}(){nested})??"
        pattern = re.compile(nested)
        ends = {found.lastindex or 0 for head in heads if (found := pattern.fullmatch(head))}
        end = max(ends, default=0)
        if len(ends) != 1 or not all(map(pattern.fullmatch, heads)) or not 0 < end < len(elements):
            return None
        before = _join_literals(elements[:end])
        return Template((*before, *_join_literals(elements[end:])), len(before))


@dataclass(frozen=True)
class Matched:
    """What a template gives.

    Attributes:
        template: the template.
        fits: whether each text fits it.
        columns: the values of each slot.
    """

    template: Template
    fits: list[bool]
    columns: list[Values]


def _pad_match_groups(found: re.Match[str] | None, count: int) -> tuple[str | None, ...]:
    groups = found.groups() if found else ()
    return (*groups, *(None for _ in range(count - len(groups))))


def iterate_known_pairs(one: Values, other: Values) -> Iterator[tuple[str, str]]:
    """The values of two slots in the records that have both."""
    return ((a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None)


def add_element(elements: list[Element], element: Element) -> None:
    """Add an element to those before it; adjacent literals become one."""
    if element.literal and elements and elements[-1].literal:
        elements[-1] = Element(literal=elements[-1].literal + element.literal)
    else:
        elements.append(element)


def _join_literals(elements: Sequence[Element]) -> tuple[Element, ...]:
    joined: list[Element] = []
    for element in elements:
        add_element(joined, element)
    return tuple(joined)


# The form of a slot: a provisional escape, from the kinds of its values.

#: The form of an SQLSTATE.
STATE: Final = re.compile(r"[0-9A-Z]{5}")
#: Kinds of a slot's values -> provisional escape; any other set of kinds is text.
_FORMS: Final[dict[frozenset[str], str]] = {
    **{frozenset({kind}): escape for kind, escape in (("ms", "m"), ("second", "t"), ("epoch", "n"), ("session", "c"))},
    **{frozenset({"vxid", *more}): "v" for more in ((), (EMPTY,))},
    frozenset({"number"}): "#",
    # Of all numbers, only the leader of a parallel group may be absent.
    frozenset({"number", EMPTY}): "P",
    **{frozenset({"remote", *more}): "r" for more in ((), (EMPTY,), ("host",))},
    **{frozenset({"host", *more}): "h" for more in ((), (EMPTY,))},
    **{frozenset({"backend", *more}): "b" for more in ((), ("tag",))},
    **{frozenset({"tag", *more}): "i" for more in ((), (EMPTY,))},
}


def infer_slot_form(column: Collection[Token]) -> str:
    """The provisional escape of a slot with these values: `#` is a number, `?` any text.

    Example:
        >>> (
        ...     infer_slot_form([("number", "7")]),
        ...     infer_slot_form([("vxid", "3/4"), ("empty", "")]),
        ...     infer_slot_form([("number", "00000")]),
        ... )
        ('#', 'v', 'e')
    """
    texts = {text for _, text in column}
    if "00000" in texts and all(map(STATE.fullmatch, texts)):
        return "e"
    return _FORMS.get(frozenset(kind for kind, _ in column), "?")


def infer_text_form(values: Values) -> str:
    """The provisional escape of a slot of text, from what its values in all records look like."""
    found: set[Token] = set()
    for value in {value for value in values if value is not None}:
        parts = tokenize_prefix(value) or [(EMPTY, "")]
        if len(parts) != 1 or parts[0][0] == "literal":
            return "?"
        found.add(parts[0])
    return infer_slot_form(found)


# Templates from records whose literals are equal.

#: Groups of records of which templates are made: the largest, and those with the most slots.
_MOST_GROUPS: Final = 6
#: Escapes of texts: a word that means one of them may be such a text itself.
_OF_TEXTS: Final = frozenset("udah")
Group = list[list[Token]]


def iterate_candidate_templates(heads: Sequence[str]) -> Iterator[Template]:
    """Templates, the most likely first.

    Args:
        heads: the different texts before severities.
    """
    seen = set()
    for dashed in (True, False):
        groups = _group_equal_literals([tokenize_prefix(head, dashed=dashed) for head in heads])
        for pieces, merged in product((True, False), (False, True)):
            # One text does not show whether a number is always 1.
            for group in groups if pieces else [group for group in groups if len(group) == 1]:
                template = _build_template(group, merged=merged, pieces=pieces)
                if template is not None and template not in seen:
                    seen.add(template)
                    yield template


def _group_equal_literals(split: Sequence[list[Token]]) -> list[Group]:
    """Texts whose literals are equal: the largest groups, which decide most, then others."""
    by_literals: dict[tuple[str, ...], Group] = defaultdict(list)
    for one in split:
        by_literals[extract_skeleton(one)].append(one)
    return sorted(by_literals.values(), key=len, reverse=True)[:_MOST_GROUPS]


def _build_template(group: Group, *, merged: bool, pieces: bool) -> Template | None:
    """The template of texts whose literals are equal.

    Args:
        group: the texts.
        merged: a text may go on over what looks like a separator.
        pieces: a number that is always 1 may be the constant of `%l-1`.
    """
    elements: list[Element] = []
    columns = [[one[place] for one in group] for place in range(len(group[0]))]
    said = _find_key_words(columns)
    for place, column in enumerate(columns):
        kind, text = column[0]
        if kind == "literal" or place in said or (pieces and _is_piece_number(elements, column)):
            add_element(elements, Element(literal=text.encode()))
            continue
        escape = _choose_slot_form(elements, column)
        # Only a blank separates the slot from a text before it.
        after_text = len(elements) > 1 and elements[-1].literal == b" " and elements[-2].escape == "?"
        if merged and escape == "?" and after_text:
            elements.pop()
        else:
            elements.append(Element(escape))
    return Template(tuple(elements), len(elements)) if len(elements) < MAX_ELEMENTS else None


def _choose_slot_form(elements: list[Element], column: list[Token]) -> str:
    """The form of a slot: any text beside a key that means one, whatever its values look like."""
    key = find_key_escape(elements[-1].literal) if elements else None
    escape = infer_slot_form(column)
    return "?" if key in ("u", "d", "a") or (key == "h" and escape not in "hr") else escape


def _is_piece_number(elements: list[Element], column: list[Token]) -> bool:
    """Whether a number is the constant `1` of `%l-1`."""
    return (
        len(elements) > 1
        and elements[-1].literal == b"-"
        and elements[-2].escape == "#"
        and set(column) == {("number", "1")}
    )


def _find_key_words(columns: list[list[Token]]) -> set[int]:
    """Places of words that stand before a colon as keys, such as `user: `.

    A value can be such a word, too, so there must be several that mean texts.
    """
    found: dict[int, str] = {}
    for place, column in enumerate(columns[:-1]):
        kind, text = column[0]
        following = columns[place + 1][0]
        is_key = kind == "word" and len(text) > 1 and len(set(column)) == 1 and text.lower() in KEYS
        if is_key and following[0] == "literal" and following[1].startswith((":", " :", " = ")):
            found[place] = KEYS[text.lower()]
    several = len(set(found.values())) > 1
    return {place for place, letter in found.items() if several or letter not in _OF_TEXTS}


# Which of the escapes of numbers a slot is: process, line, SQLSTATE.

#: Largest process number of Linux; numbers of other systems are used where a key or `%c` says what they are.
_MOST_NUMBERS: Final = 4_194_304
_NO_ERROR: Final = "00000"
#: Share of steps by one among the lines of processes. Lines of extracts are missing, so it counts with a key only.
_MOSTLY: Final = 0.5
#: Share of steps by one that processes have which are started one after the other; of lines that are there twice.
_FEW: Final = 0.3
_LOCK: Final = re.compile(r"process ([0-9]+) (?:still waiting|acquired|avoided deadlock|detected deadlock)")


def is_state(values: Values, records: Sequence[Record]) -> bool:
    """Whether a slot is the SQLSTATE: five characters, `00000` in most records that report no error, not in errors."""
    said = [(value, record) for value, record in zip(values, records, strict=True) if value is not None]
    if not said or not all(STATE.fullmatch(value) for value, _ in said):
        return False
    quiet = [value for value, record in said if record.severity[:5] in ("LOG", "INFO", "NOTIC", "DEBUG")]
    errors = [value for value, record in said if record.severity in ("ERROR", "FATAL", "PANIC")]
    fine = sum(value == _NO_ERROR for value in quiet)
    return _NO_ERROR not in errors and fine >= 0.8 * len(quiet) and (fine > 0 or len(set(errors)) > 1)


def find_process(
    slots: Mapping[int, Values], keyed: Mapping[int, str], sessions: Sequence[Values], records: Sequence[Record]
) -> int | None:
    """The slot of the process number; None if none is proven to be it.

    Args:
        slots: values of the slots of numbers.
        keyed: slot -> escape that the word beside it means.
        sessions: values of `%c`, of which the second half is the process.
        records: the records.
    """
    possible = {
        slot: values
        for slot, values in slots.items()
        if keyed.get(slot, "p") == "p" and _has_only_positive_numbers(values)
    }
    if sessions:
        return next((slot for slot, values in possible.items() if _match_sessions(values, sessions[0])), None)
    named = [slot for slot in possible if keyed.get(slot) == "p"]
    if named:
        return named[0] if len(named) == 1 else None
    small = [
        slot
        for slot, values in possible.items()
        if max(int(value) for value in values if value) <= _MOST_NUMBERS and _is_ordered(values, records) is not False
    ]
    proven = [slot for slot in small if _is_ordered(slots[slot], records)]
    chosen = proven or small
    counted = [slot for slot in chosen if any(_counts(slots[other], slots[slot]) for other in slots if other != slot)]
    if len(chosen) > 1:
        chosen = counted
    if len(chosen) != 1:
        return None
    return chosen[0] if proven or counted or _repeats(slots[chosen[0]]) else None


def find_lines(slots: Mapping[int, Values], keyed: Mapping[int, str], processes: Values) -> set[int]:
    """The slots that count the lines of each process.

    Args:
        slots: values of the slots of numbers, without those of the process.
        keyed: slot -> escape that the word beside it means.
        processes: process of each record.
    """
    return {
        slot
        for slot, values in slots.items()
        if keyed.get(slot, "l") == "l"
        and _has_only_positive_numbers(values)
        and _counts(values, processes, unknown=slot in keyed)
    }


def is_virtual_transaction(values: Values) -> bool:
    """Whether numbers around a slash are backend and transaction, not process and line."""
    said = [value for value in values if value]
    backends = [value.partition("/")[0] for value in said]
    numbers: Values = [value.partition("/")[2] for value in said]
    return "0" in numbers or "" in values or not _counts(numbers, [*backends])


def _has_only_positive_numbers(values: Values) -> bool:
    said = [value for value in values if value is not None]
    return bool(said) and all(value.isdecimal() and len(value) < 10 and int(value) > 0 for value in said)


def _match_sessions(values: Values, sessions: Values) -> bool:
    pairs = list(iterate_known_pairs(values, sessions))
    return bool(pairs) and all(int(one) == int(other.partition(".")[2], 16) for one, other in pairs)


def _is_ordered(values: Values, records: Sequence[Record]) -> bool | None:
    """Whether the records of each value are those of one session after the other; None if too little is known."""
    stages: dict[str, list[str]] = defaultdict(list)
    for value, record in zip(values, records, strict=True):
        locked = _LOCK.match(record.message)
        if value is None:
            continue
        if locked:
            return locked[1] == value
        stage = own_facts(record).stage
        if stage:
            stages[value].append(stage)
    known = [(one, other) for said in stages.values() for one, other in itertools.pairwise(said)]
    follows = {("received", "authorized"), ("authorized", "ended"), ("received", "refused"), ("authorized", "refused")}
    begun = sum(pair in follows for pair in known)
    # A new session may have the number of one that ended, or that was killed.
    wrong = sum(pair not in follows and pair[1] != "received" for pair in known)
    broken = sum(pair == ("received", "received") for pair in known)
    return wrong == 0 and begun > broken if known else None


def _counts(values: Values, processes: Values, *, unknown: bool = False) -> bool:
    """Whether the values of each process increase, mostly by one; `unknown` if no process has two of them."""
    last: dict[str, int] = {}
    steps = ones = back = 0
    for value, process in iterate_known_pairs(values, processes):
        if not value.isdecimal():
            continue
        number = int(value)
        if process in last:
            steps += 1
            ones += number == last[process] + 1
            back += number <= last[process] and number != 1
        last[process] = number
    if back > (_FEW * steps if unknown else 0):
        return False
    return ones >= _MOSTLY * steps or unknown if steps else unknown


def _repeats(values: Values) -> bool:
    """Whether values rather repeat from one record to the next than increase by one, as numbers of lines do."""
    said = [int(value) for value in values if value]
    ones = sum(other == one + 1 for one, other in itertools.pairwise(said))
    same = sum(other == one for one, other in itertools.pairwise(said))
    return ones <= same or (ones <= _FEW * len(said) and min(said) > 1)


# Which of the escapes of texts a slot is: user, database, application, client.

#: What user, database and application are before they are known.
UNSET: Final = ("[unknown]", "")
_LETTERS: Final = "uda"
_TELLING_TEXTS: Final = frozenset({"ms", "second", "epoch", "session", "remote", "vxid"})
_HALF: Final = 0.5
#: An address beside other text, with which it is two fields; an application may have one after a blank.
_ADDRESS: Final = re.compile(rf"(?<! ){ADDRESS_PATTERN}(?:\([0-9]+\))?")


def escape_of_text(values: Values, facts: Sequence[SessionFacts], key: str | None, *, composite: bool) -> str:
    """`u`, `d`, `a`, `h`, `r`, or `?` if that is not proven.

    Proven is what the word beside it says, if no message contradicts it, or what messages say, if they exclude all
    other escapes.

    Args:
        values: values of the slot.
        facts: what is known of each record.
        key: escape that the word beside the slot means.
        composite: whether the values may be several fields.
    """
    possible = {letter: check_escape_agreement(values, facts, letter, keyed=letter == key) for letter in _LETTERS}
    if key in ("u", "d", "a"):
        return key if possible[key] or (possible[key] is None and not composite) else "?"
    host = choose_host_escape(values, facts)
    if key == "h":
        return "?" if host is None or (composite and not host) else host or _choose_client_form(values)
    if key is not None:
        return "?"
    proven = [letter for letter, agrees in possible.items() if agrees]
    others = [letter for letter, agrees in possible.items() if agrees is None]
    if len(proven) == 1 and not others and not host:
        return proven[0]
    return host if host and not proven else "?"


def is_composite(values: Values, separators: Collection[str]) -> bool:
    """Whether values may be several fields: all of them contain what separates fields, or most of them a time or a key.

    A field that is not set shows that there is only one.
    """
    said = {value for value in values if value}
    if not said or UNSET[0] in said:
        return False
    if any(_ADDRESS.search(value) and not _ADDRESS.fullmatch(value) for value in said):
        return True
    if any(all(separator in value for value in said) for separator in separators):
        return True
    several = sum(len(found) > 1 and any(_is_telling(one) for one in found) for found in map(tokenize_prefix, said))
    return several > _HALF * len(said)


def _is_telling(token: Token) -> bool:
    kind, text = token
    return kind in _TELLING_TEXTS or (kind == "literal" and "=" in text)


def check_escape_agreement(
    values: Values, facts: Sequence[SessionFacts], letter: str, *, keyed: bool = False
) -> bool | None:
    """Whether messages prove that a slot is this escape (true), exclude it (false), or neither.

    Args:
        values: values of the slot.
        facts: what is known of each record.
        letter: the escape.
        keyed: a word beside the slot means this escape. Then a value that is set too early excludes it only if no
            message states the value: somebody may have edited the log.
    """
    seen = early = False
    for value, known in zip(values, facts, strict=True):
        if value is None:
            continue
        if known.client is False and value:
            return False
        if value not in UNSET and (known.stage == "received" or (letter == "a" and known.stage == "authorized")):
            # Users and databases are known after a connection is received, applications after it is authorized.
            early = True
        elif letter != "a" and known.stage != "received" and letter in known.values:
            if value != known.values[letter]:
                return False
            seen = True
    agreed = _is_set_late(values, facts) if letter == "a" else seen
    return False if early and not (keyed and agreed) else agreed or None


def _is_set_late(values: Values, facts: Sequence[SessionFacts]) -> bool:
    """Whether values are what only an application is: that of the connection, or not yet set when it is authorized."""
    said = [(value, known) for value, known in zip(values, facts, strict=True) if value is not None]
    if any(value not in UNSET and value == known.values.get("a") for value, known in said):
        return True
    late = any(known.stage == "authorized" for _, known in said)
    return late and any(value not in UNSET for value, known in said)


def _choose_client_form(values: Values) -> str:
    """`r` if clients have ports, else `h`."""
    return "r" if any(value and value.endswith(")") for value in values) else "h"


def choose_host_escape(values: Values, facts: Sequence[SessionFacts]) -> str | None:
    """`h` or `r` if messages name the client so, or an empty text if they name none; None if they name another."""
    found = False
    for value, known in zip(values, facts, strict=True):
        if value is None or "h" not in known.values:
            if value and known.client is False:
                return None
            continue
        host, port = known.values["h"], known.values.get("port")
        if value == f"{host}({port})" or value == host:
            found = True
        elif value:
            return None
    return _choose_client_form(values) if found else ""


# Which of the escapes of times a slot is.

_SECOND: Final = 19
#: Lines of several processes are not exactly in the order of their times.
_DISORDER_S: Final = 2


def choose_second_escapes(
    slots: Mapping[int, Values], milliseconds: Sequence[Values], sessions: Sequence[Values], processes: Values
) -> dict[int, str]:
    """For each slot of times in whole seconds: `t` the time of the record, `s` the start of its process, `?` unknown.

    Args:
        slots: values of these slots.
        milliseconds: values of slots of times with milliseconds (or epochs), which are times of records.
        sessions: values of `%c`, which begins with the start of the process.
        processes: process of each record.
    """
    if milliseconds:
        return {slot: _choose_companion_escape(values, milliseconds, processes) for slot, values in slots.items()}
    if len(slots) == 1:
        return {slot: _choose_single_time_escape(values, sessions, processes) for slot, values in slots.items()}
    varying = {slot for slot, values in slots.items() if not _is_constant(values, processes)}
    back = {slot for slot, values in slots.items() if slot not in varying and _goes_back(values, processes)}
    if not varying and not back:
        return dict.fromkeys(slots, "?")
    times = varying or slots.keys() - back
    shown = [slots[slot] for slot in times]
    return {
        slot: "t" if slot in times else _choose_companion_escape(values, shown, processes)
        for slot, values in slots.items()
    }


def _choose_companion_escape(values: Values, times: Sequence[Values], processes: Values) -> str:
    """The escape of a slot beside times of records."""
    records_time = any(_has_equal_seconds(values, other) for other in times)
    start = _is_constant(values, processes) and not any(_is_later(values, other) for other in times)
    # Both, if all processes have just begun.
    return "?" if records_time == start else "t" if records_time else "s"


def _choose_single_time_escape(values: Values, sessions: Sequence[Values], processes: Values) -> str:
    """The escape of the only time: that of the record, unless the starts of processes can explain it better."""
    several = len({*processes} - {None}) > 1
    if not _is_constant(values, processes) or not several or not _goes_back(values, processes):
        return "t"
    return "?" if not sessions or any(_begins_then(values, other) for other in sessions) else "t"


def _has_equal_seconds(seconds: Values, times: Values) -> bool:
    return all(_truncate_to_second(other) == one[:_SECOND] for one, other in iterate_known_pairs(seconds, times))


def _is_later(seconds: Values, times: Values) -> bool:
    return any(one[:_SECOND] > _truncate_to_second(other) for one, other in iterate_known_pairs(seconds, times))


def _truncate_to_second(time: str) -> str:
    """The second of a stamp, or of an epoch (which is in UTC)."""
    if "-" in time:
        return time[:_SECOND]
    return datetime.fromtimestamp(int(time.partition(".")[0]), UTC).strftime("%Y-%m-%d %H:%M:%S")


def _is_constant(values: Values, processes: Values) -> bool:
    """Whether each process has one value."""
    first: dict[str, str] = {}
    return all(first.setdefault(process, value) == value for process, value in iterate_known_pairs(processes, values))


def _begins_then(values: Values, sessions: Values) -> bool:
    return all(
        (_convert_to_epoch_seconds(value) - int(session.partition(".")[0], 16)) % 900 == 0
        for value, session in iterate_known_pairs(values, sessions)
    )


def _convert_to_epoch_seconds(second: str) -> int:
    return int(datetime.fromisoformat(second[:_SECOND]).replace(tzinfo=UTC).timestamp())


def _goes_back(values: Values, processes: Values) -> bool:
    """Whether a process goes on with its old time after another had a later one, as starts of processes do.

    Times of records go back where lines are not in order, but not for each process to the time that it had.
    """
    latest = 0
    went_back: dict[tuple[str | None, str], bool] = {}
    for value, process in zip(values, processes, strict=True):
        if value is None:
            continue
        clock = _convert_to_epoch_seconds(value)
        goes_back = clock < latest - _DISORDER_S
        if goes_back and not went_back.get((process, value), True):
            return True
        latest = max(latest, clock)
        went_back[process, value] = goes_back
    return False


# The escape of each slot of a template, as far as the records prove it.

_BRACKETS: Final = frozenset({b"[]", b"()", b"{}", b"<>"})
_CLOSING: Final = frozenset({b"]", b")", b"}"})
#: A key with a bracket that is not closed, and what follows.
_OPEN: Final = re.compile(rb"\w=[\[({<]([^\])}>]*)$")
_SEPARATOR: Final = re.compile(rb"[^\w\[\](){}<>'\"]*(?=$|\w)")
_OPENING: Final = frozenset({b"[", b"(", b"{"})
_NAMES: Final = {"u": "user", "d": "database", "a": "application", "h": "client"}
_LARGE: Final = 2**32


@dataclass(frozen=True)
class SlotEscapes:
    """The escapes of the slots of a template.

    Attributes:
        escapes: `?` and `#` for texts and numbers whose escape is not known, and which give no column.
        shown: the letters to print; `?` for an unknown one.
        undecided: what each unknown one may be.
        begins_session: whether the first text is a field of sessions, even if it is not known which one.
    """

    escapes: tuple[str, ...]
    shown: tuple[str, ...]
    undecided: tuple[str, ...]
    begins_session: bool = False

    def without_columns(self) -> SlotEscapes:
        """The same with times as the only known fields."""
        unknown = {**dict.fromkeys("udahr", "?"), **dict.fromkeys("pl", "#")}
        escapes = tuple(unknown.get(escape, escape) for escape in self.escapes)
        shown = tuple(
            "?" if escape in unknown else letter for escape, letter in zip(self.escapes, self.shown, strict=True)
        )
        doubt = "fields of a prefix that fits less than half of the records"
        return SlotEscapes(escapes, shown, (*self.undecided, doubt))


def determine_slot_escapes(matched: Matched, records: Sequence[Record]) -> SlotEscapes:
    """The escape of each slot, as far as it is proven."""
    slots = _Slots(matched, records)
    slots.name_numbers()
    slots.name_times()
    slots.name_texts()
    return slots.result()


class _Slots:
    """The slots of a template, whose escapes are found one kind after the other."""

    def __init__(self, matched: Matched, records: Sequence[Record]) -> None:
        template = matched.template
        self._columns = dict(zip(template.slots, matched.columns, strict=True))
        self._escapes = {slot: template.elements[slot].escape for slot in template.slots}
        self._elements, self._records = template.elements, records
        self._keys = {slot: key for slot in template.slots if (key := self._key(slot)) is not None}
        self._separators = {
            _extract_separator(element.literal)
            for before, element, after in zip(
                template.elements, template.elements[1:], template.elements[2:], strict=False
            )
            if before.escape and after.escape
        } - {""}
        self._processes: Values = [None] * len(records)
        for slot, values in [
            *self._get_values("?").items(),
            *self._get_values("h").items(),
            *self._get_values("r").items(),
        ]:
            # Texts fit where some records have no value; numbers and times are never absent.
            self._escapes[slot] = form if (form := infer_text_form(values)) in "vhrbi" else "?"
        self._undecided: dict[int, str] = {}
        self._shown: dict[int, str] = {}

    def _key(self, slot: int) -> str | None:
        """The escape that the word beside a slot means; an empty text for an unknown word.

        The `-1` of `%l-1`, which makes lines look like those of syslog, is such a word, too.
        """
        if slot + 1 < len(self._elements) and re.match(rb"-1(?![0-9])", self._elements[slot + 1].literal):
            return "l"
        return find_key_escape(self._elements[slot - 1].literal if slot else b"")

    def _get_values(self, escape: str) -> dict[int, Values]:
        return {slot: values for slot, values in self._columns.items() if self._escapes[slot] == escape}

    def name_numbers(self) -> None:
        """Process, line, SQLSTATE and virtual transaction."""
        numbers, sessions = self._get_values("#"), list(self._get_values("c").values())
        apart = {slot: values for slot, values in numbers.items() if slot in self._keys or not self._is_part(slot)}
        process = find_process(numbers if sessions else apart, self._keys, sessions, self._records)
        if process is not None:
            self._escapes[process] = "p"
            for slot, values in numbers.items():
                if values == self._columns[process] and len(set(values)) > 1:
                    self._escapes[slot] = "p"
            self._processes = self._columns[process]
        elif sessions:
            self._processes = sessions[0]
        lines = find_lines(self._get_values("#"), self._keys, self._processes)
        # Of two that differ, one is the number that another program gave.
        alike = len({tuple(self._columns[slot]) for slot in lines}) == 1
        for slot in lines if alike else ():
            self._escapes[slot] = "l"
        for slot, values in self._get_values("#").items():
            self._name_other_number(slot, values)
        self._check_forms(known=process is not None or bool(sessions))

    def _check_forms(self, *, known: bool) -> None:
        """Leave SQLSTATE and virtual transaction undecided where keys or values say otherwise."""
        for slot, values in self._get_values("e").items():
            if self._keys.get(slot, "e") not in ("e", "") or not is_state(values, self._records):
                self._escapes[slot] = "?"
        for slot, values in self._get_values("v").items():
            if self._keys.get(slot, "v") not in ("v", "") or not (known or is_virtual_transaction(values)):
                self._escapes[slot] = "?"

    def _is_part(self, slot: int) -> bool:
        """Whether a number is one of several around slashes, which may be a virtual transaction, or a port."""
        elements = self._elements
        if slot > 1 and elements[slot - 1].literal == b"(":
            return True
        return any(
            elements[between].literal == b"/" and elements[other].escape == "#"
            for between, other in ((slot - 1, slot - 2), (slot + 1, slot + 2))
            if 0 <= other < len(elements)
        )

    def _name_other_number(self, slot: int, values: Values) -> None:
        """Transaction, query, leader: they give no column, so it does not matter which of them it is."""
        key = self._keys.get(slot, "")
        said = [int(value) for value in values if value and value != "-"]
        if key in ("x", "Q", "P"):
            self._shown[slot] = key
        elif said and (min(said) < 0 or max(said) > _LARGE):
            self._shown[slot] = "Q"
        elif said and "0" not in values:
            self._undecided[slot] = "process, line, transaction or query"

    def name_times(self) -> None:
        """The time of the record, or the start of its process."""
        milliseconds = [*self._get_values("m").values(), *self._get_values("n").values()]
        sessions = list(self._get_values("c").values())
        for slot, escape in choose_second_escapes(
            self._get_values("t"), milliseconds, sessions, self._processes
        ).items():
            self._escapes[slot] = escape
            if escape == "?":
                self._undecided[slot] = "time of the record or start of its process"

    def name_texts(self) -> None:
        """User, database, application, client."""
        facts = collect_session_facts(self._records, self._processes)
        texts = [slot for escape in "?hr" for slot in self._get_values(escape) if slot not in self._undecided]
        for slot in sorted(texts):
            self._name_text(slot, facts)
        for slot in sorted(texts):
            self._name_pair(slot, facts)
        for slot in sorted(texts):
            self._doubt_interrupted(slot, facts)
            self._doubt_second_client(slot, facts)

    def _name_text(self, slot: int, facts: Sequence[SessionFacts]) -> None:
        values, key, form = self._columns[slot], self._keys.get(slot), self._escapes[slot]
        if all(value is None for value in values) or self._is_cut(slot):
            self._doubt({slot})
            return
        composite = is_composite(values, () if self._is_enclosed(slot) else self._separators)
        escape = escape_of_text(values, facts, key or None, composite=composite)
        known = key in (None, "", "h") and choose_host_escape(values, facts) is not None and not composite
        if escape == "?" and form in "hr" and known:
            # An address at the beginning may be the server's own.
            own = slot > 1 or self._is_of_sessions(slot, facts)
            escape = form if own and not self._ends_bracket(slot) else "?"
        self._escapes[slot] = escape
        if escape == "?" and any(values):
            may = [
                name
                for letter, name in _NAMES.items()
                if letter != "h" and check_escape_agreement(values, facts, letter) is not False
            ]
            may += [_NAMES["h"]] if choose_host_escape(values, facts) is not None else []
            self._undecided[slot] = " or ".join((*may, "other text"))
        else:
            self._undecided.pop(slot, None)

    def _is_of_sessions(self, slot: int, facts: Sequence[SessionFacts]) -> bool:
        """Whether a text at the beginning is a field of sessions, not the name of a host that wrote the lines.

        Each process has one value, and values alternate, while hosts come in long runs; or some records have no
        value, which no host would leave out.
        """
        said = [
            (value, process, known.client)
            for value, process, known in zip(self._columns[slot], self._processes, facts, strict=True)
            if value is not None and process is not None
        ]
        of_process: dict[str, set[str]] = {}
        for value, process, _ in said:
            of_process.setdefault(process, set()).update({value}.difference(UNSET))
        own = any(client is False and value.strip() for value, _, client in said)
        values = [value for value, _, _ in said]
        if own or len(set(values)) < 2 or any(len(found) > 1 for found in of_process.values()):
            return False
        if not {*UNSET, "[local]"}.isdisjoint(value.strip() for value in values):
            return True
        following = self._elements[slot + 1].literal if slot + 1 < len(self._elements) else b""
        marked = self._escapes[slot] == "?" and following[:1] in (b":", b"|", b"]", b">")
        runs = 1 + sum(one != other for one, other in pairwise(values))
        return not marked and runs > 2 * len(set(values))

    def begins_session(self) -> bool:
        """Whether the first text is a field of sessions."""
        first = min(self._escapes, default=None)
        if first is None or first > 1 or self._escapes[first] not in "?hruda":
            return False
        return self._is_of_sessions(first, collect_session_facts(self._records, self._processes))

    def _is_cut(self, slot: int) -> bool:
        """Whether a slot is one of several in brackets that have one key: their whole text is one value."""
        before = b"\0".join(element.literal for element in self._elements[:slot])
        found = _OPEN.search(before)
        following = self._elements[slot + 1].literal if slot + 1 < len(self._elements) else b""
        return found is not None and (b"\0" in found[1] or following[:1] not in _CLOSING)

    def _ends_bracket(self, slot: int) -> bool:
        """Whether a bracket that began before another text is closed after a slot: it may be part of that text."""
        inside = not self._is_enclosed(slot) or self._elements[slot - 1].literal[-1:] not in _OPENING
        after = self._elements[slot + 1 : slot + 2]
        return slot > 1 and inside and any(element.literal[:1] in _CLOSING for element in after)

    def _is_open(self, slot: int, last: int) -> bool:
        """Whether a bracket before a slot is not closed directly after the last of several."""
        before, after = self._elements[slot - 1].literal, self._elements[last + 1 : last + 2]
        return before[-1:] in _OPENING and not any(element.literal[:1] in _CLOSING for element in after)

    def _is_enclosed(self, slot: int) -> bool:
        """Whether a slot is alone in brackets."""
        sides = self._elements[slot - 1 : slot] + self._elements[slot + 1 : slot + 2]
        ends = [side.literal for side in sides]
        return len(ends) > 1 and (ends[0][-1:] + ends[1][:1] in _BRACKETS or ends[1][:1] in _CLOSING)

    def _doubt_interrupted(self, slot: int, facts: Sequence[SessionFacts]) -> None:
        """A text or an address without a key among fields with keys may be the end of the text before it."""
        before = slot - 2
        between = any(one > slot for one in self._keys) and before in self._keys and slot not in self._keys
        named = self._escapes.get(before, "")
        if not between or self._escapes[slot] not in "?hr" or named not in _NAMES:
            return
        if not choose_host_escape(self._columns[slot], facts) and not check_escape_agreement(
            self._columns[before], facts, named
        ):
            self._doubt({slot, before})

    def _doubt_second_client(self, slot: int, facts: Sequence[SessionFacts]) -> None:
        """An address that is not the client that another field names may be the end of the text before it."""
        values = [_strip_port(value) for value in self._columns[slot]]
        if self._escapes[slot] not in "hr" or choose_host_escape(self._columns[slot], facts):
            return
        others = [self._columns[one] for one, escape in self._escapes.items() if escape in "hr" and one != slot]
        shown = [(_strip_port(one), value) for other in others for one, value in zip(other, values, strict=True)]
        if any(one not in (None, value) for one, value in shown):
            named = {one for one, escape in self._escapes.items() if escape in _NAMES or escape == "r"}
            self._doubt({slot, slot - 2} & named)

    def _doubt(self, slots: set[int]) -> None:
        for slot in slots:
            self._escapes[slot], self._undecided[slot] = "?", "part of a text"

    def _name_pair(self, slot: int, facts: Sequence[SessionFacts]) -> None:
        """Text, `@` and text are user and database, as a key would say, if no message says otherwise.

        Not where there is another user or database, or where a value may be several fields.
        """
        other = slot + 2
        pair = {slot: "u", other: "d"}
        if other not in self._escapes or self._elements[slot + 1].literal != b"@" or slot in self._keys:
            return
        if self._elements[other + 1 : other + 2] == (Element(literal=b"-"),) or self._is_open(slot, other):
            return
        named = [self._escapes[one] for one in self._escapes if one not in pair]
        if any(self._escapes[one] not in ("?", letter) or letter in named for one, letter in pair.items()):
            return
        if any(is_composite(self._columns[one], {"@", *self._separators}) for one in pair):
            return
        if all(check_escape_agreement(self._columns[one], facts, letter) is not False for one, letter in pair.items()):
            for one, letter in pair.items():
                self._escapes[one] = letter
                self._undecided.pop(one, None)

    def result(self) -> SlotEscapes:
        """The escapes."""
        slots = sorted(self._escapes)
        escapes = tuple(self._escapes[slot] for slot in slots)
        unknown = {slot for slot in slots if self._escapes[slot] in "?#" and slot not in self._shown}
        shown = tuple("?" if slot in unknown else self._shown.get(slot, self._escapes[slot]) for slot in slots)
        undecided = tuple(self._undecided[slot] for slot in slots if slot in self._undecided)
        return SlotEscapes(escapes, shown, undecided, self.begins_session())


def _extract_separator(literal: bytes) -> str:
    """What separates two fields: a text without words and brackets, or the part of it before a key that is no blank."""
    found = _SEPARATOR.match(literal)
    said = found[0].decode() if found else ""
    return said.strip() or (" " if said and said.encode() == literal else "")


def _strip_port(value: str | None) -> str | None:
    return None if value is None else value.partition("(")[0]


# The prefix of a log, inferred from a sample of it.

#: Templates that are tried.
_MOST_TEMPLATES: Final = 14
#: Different texts from which templates are made.
_DIFFERENT: Final = 200
_TIMES: Final = frozenset("mtnc")
_STAMPS: Final = frozenset("mn")
_CLIENT_ESCAPES: Final = frozenset("?udahr")
#: A file that holds itself twice has at least so many records in each half.
_DOUBLED: Final = 5
#: Lines that are searched for the text before records.
_LOOKED_AT: Final = 400
#: Share of the records that a template must fit for its fields to be believed.
_LEAST: Final = 0.5
_BYTES_OF_ADDRESSES: Final = b"0123456789abcdefABCDEF:.("


@dataclass(frozen=True)
class _Assessed:
    """A template with the escapes of its slots."""

    matched: Matched
    fields: SlotEscapes

    @property
    def rank(self) -> tuple[bool, int, int, int, int]:
        """Larger is better: with a time, records that fit, whole stamps, few texts not decided, few texts."""
        texts = [escape for escape in self.fields.escapes if escape in "?udahr"]
        timed = bool(_TIMES & set(self.fields.escapes))
        stamps = sum(escape in _STAMPS for escape in self.fields.escapes)
        return timed, sum(self.matched.fits), stamps, -texts.count("?"), -len(texts)


@lru_cache(maxsize=16)
def infer_prefix(sample: str) -> Prefix | None:
    r"""The prefix of the records in a sample; None if they have none that can be distinguished from other text.

    Example:
        >>> inferred = infer_prefix("2026-11-20 21:03:47.877 UTC [7] db=a LOG:  ready\\n")
        >>> inferred.text
        '%m [%p] db=%d '
    """
    # Records that are there twice, one after the other or in a doubled file, say nothing about how numbers behave.
    records = [record for record, _ in groupby(parse_sample_records(sample))]
    half = len(records) // 2
    records = records[:half] if half >= _DOUBLED and records[:half] == records[half:] else records
    best = _find_best_template(records)
    if best is None:
        return None
    if sum(best.matched.fits) < _LEAST * len(records):
        best = replace(best, fields=best.fields.without_columns())
    prefix = _build_inferred_prefix(best)
    if not any(own_facts(record).client is False for record in records):
        prefix = _assume_absent_part(prefix)
    if (prefix.wrapped or best.fields.begins_session) and _is_before_all_lines(prefix, sample):
        return None
    timed = bool(_TIMES & {element.escape for element in best.matched.template.elements})
    return prefix if timed or _is_prefix(prefix) else None


def _find_best_template(records: Sequence[Record]) -> _Assessed | None:
    different = list(dict.fromkeys(record.head for record in records))
    if len(different) > _DIFFERENT:
        different = different[:: len(different) // _DIFFERENT + 1]
    best: _Assessed | None = None
    for number, template in enumerate(iterate_candidate_templates(different)):
        found = _assess_template(template, records)
        if best is None or found.rank > best.rank:
            best = found
        complete = all(best.matched.fits) and "?" not in best.fields.escapes
        if complete or number == _MOST_TEMPLATES:
            break
    return best


def _assess_template(template: Template, records: Sequence[Record]) -> _Assessed:
    matched = _use_client_addresses(
        _allow_absent_part(template.match([record.head for record in records]), records), records
    )
    return _Assessed(matched, determine_slot_escapes(matched, records))


def _allow_absent_part(matched: Matched, records: Sequence[Record]) -> Matched:
    """The template with `%q`, if that explains the records that do not fit, and no client wrote them."""
    others = [record for record, fits in zip(records, matched.fits, strict=True) if not fits]
    heads = list(dict.fromkeys(record.head for record in others))
    if not others or any(own_facts(record).client for record in others):
        others = [record for record in others if not own_facts(record).client]
        heads = list(dict.fromkeys(record.head for record in others))
    if not heads:
        return matched
    cut = matched.template.cut_for(heads[:20])
    if cut is None:
        return matched
    better = cut.match([record.head for record in records])
    return better if sum(better.fits) > sum(matched.fits) else matched


def _use_client_addresses(matched: Matched, records: Sequence[Record]) -> Matched:
    """The template with clients that are addresses, if that tells where texts end."""
    if _count_unsure_values(matched) == 0:
        return matched
    elements = list(matched.template.elements)
    for place, element in enumerate(elements[:-1]):
        following = elements[place + 1].literal
        ends_address = following and following[0] not in _BYTES_OF_ADDRESSES
        if element.escape in ("h", "r") and not element.padding and ends_address:
            elements[place] = replace(element, address=True)
    template = replace(matched.template, elements=tuple(elements))
    if template == matched.template:
        return matched
    other = template.match([record.head for record in records])
    return (
        other
        if sum(other.fits) == sum(matched.fits) and _count_unsure_values(other) < _count_unsure_values(matched)
        else matched
    )


def _count_unsure_values(matched: Matched) -> int:
    """Values of which it is not known where they end, or that are absent."""
    return sum(value is None for column in matched.columns for value in column)


def _build_inferred_prefix(best: _Assessed) -> Prefix:
    template, fields = best.matched.template, best.fields
    elements = list(template.elements)
    shown: list[str] = []
    slots = dict(zip(template.slots, zip(fields.escapes, fields.shown, strict=True), strict=True))
    for place, element in enumerate(elements):
        if place == template.optional_from:
            shown.append("%q")
        if place in slots:
            escape, letter = slots[place]
            elements[place] = replace(element, escape=escape, address=element.address and escape in "hr?")
            shown.append(f"%{element.padding or ''}{letter}")
        else:
            shown.append(element.literal.decode().replace("%", "%%"))
    return Prefix(
        "".join(shown),
        tuple(elements),
        template.optional_from,
        inferred=True,
        undecided=fields.undecided,
        wrapped=_is_wrapped(elements, begins_session=fields.begins_session),
    )


#: A key or a bracket before a field.
_OPENING_ESCAPES: Final = re.compile(r"[\[({<\"']?(?:[A-Za-z_][\w-]*\s*[=:]\s*)?[\[({<\"']?$")


def _assume_absent_part(prefix: Prefix) -> Prefix:
    """The prefix with a part that may be absent: from the first field on that only clients have.

    In a sample without records of other processes, a `%q` cannot be seen. Without one, these records have all literals.
    """
    elements = prefix.elements
    first = next((place for place, element in enumerate(elements) if place and element.escape in _CLIENT_ESCAPES), 0)
    if not first or prefix.optional_from < len(elements):
        return prefix
    before = elements[first - 1].literal.decode()
    found = _OPENING_ESCAPES.search(before)
    at = found.start() if found else len(before)
    split = [Element(literal=part.encode()) for part in (before[:at], before[at:]) if part]
    whole = (*elements[: first - 1], *split, *elements[first:]) if before else elements
    return replace(prefix, elements=whole, optional_from=first - bool(before) + bool(before[:at]))


_FIELDS: Final = frozenset("pludahrve")
_ESCAPE_KEY: Final = re.compile(r"[\W_]*(?:[A-Za-z_][\w-]*\W*[=:]\W*)?")


def _is_wrapped(elements: Sequence[Element], *, begins_session: bool) -> bool:
    """Whether records begin with a text that is neither a key nor a field."""
    if not elements:
        return False
    first = elements[0]
    if first.literal and not _ESCAPE_KEY.fullmatch(first.literal.decode()):
        return True
    begin = first if first.escape else elements[1] if len(elements) > 1 else first
    return begin.escape == "?" and not begins_session


def _is_before_all_lines(prefix: Prefix, sample: str) -> bool:
    """Whether the text that begins the records is also before lines that continue them, or is part of JSON."""
    times = [place for place, element in enumerate(prefix.elements) if element.escape in _TIMES]
    lead = prefix.elements[: times[0] if times else 0]
    if not lead or any(b'"' in element.literal for element in lead):
        return bool(lead)
    begins = re.compile("".join(element.pattern(named=False) for element in lead) + r"(?=[\t ]|#011)")
    further = (line for line in sample.split("\n")[:_LOOKED_AT] if match_severity(line) is None)
    return any(begins.match(line) for line in further if not line.startswith((" ", "\t")))


def _is_prefix(prefix: Prefix) -> bool:
    """Whether a text before a severity is a server's: none, several fields, or one with a key."""
    fields = [element.escape in _FIELDS for element in prefix.elements]
    keyed = len(fields) > 1 and fields[1] and _ESCAPE_KEY.fullmatch(prefix.elements[0].literal.decode()) is not None
    escapes = {element.escape for element in prefix.elements if element.escape}
    return not prefix.elements or len(escapes & _FIELDS) > 1 or (keyed and b"=" in prefix.elements[0].literal)

"""Secrets are replaced before anything is stored, shown or put into a message.

Every text from a file, a name or a user passes through here. Forms define where a secret begins and ends; layers of
quoting and encoding around them are undone first. If the end is unclear, the rest is hidden too: a text may lose more
than its secret, never less.
docs/datasets.md lists the forms for users.

Example:
    >>> redact("-p db.user=monitor -p db.passwd=Tr0ub&S3cret -p recordcount=1")
    '-p db.user=monitor -p db.passwd=*** -p recordcount=1'
    >>> redact("postgresql://bench:p@ss@worker1/ycsb")
    'postgresql://bench:***@worker1/ycsb'
    >>> redact("ALTER USER bench PASSWORD 's3cret'")
    "ALTER USER bench PASSWORD '***'"
    >>> redact('{""user"": ""bench"", ""password"": ""s3cret""}')
    '{""user"": ""bench"", ""password"": ""***""}'
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

# Recognition of names of secrets, and of texts that may contain a secret.
#
# `pass` matches as a separate word (`db.pass`, `userpass`), not within one (`bypass`, `passed`). A `key` is a secret
# only after certain words (`private_key`, `primaryKey`); `primary_key` and `ycsb_key` name columns.

_KEYS: Final = (
    r"(?:private|secondary|access|account|api|master|shared|signing|encryption|auth|service|storage|ssh|session|app)"
    r"[_.\- ]?key|primary[.\-]?key"
)
_WORDS: Final = (
    rf"passw|pass[_\-]?(?:phrase|code|key)|pwd|secret|token|credential|{_KEYS}"
    r"|authorization|auth[_\-]?string|signature|identified[ ]+by"
)
#: Beginnings of the tokens of services, in small letters, from their documentation (GitHub, GitLab, Slack, Stripe, npm,
#: PyPI, Hugging Face, Docker, DigitalOcean, Vault, SendGrid, Google, Databricks, Grafana, Shopify, OpenAI, Anthropic).
_TOKEN_BEGINNINGS: Final = (
    *("github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "xox[a-z]-", "xoxe\\.", "xapp-"),
    *("[srp]k_live_", "[srp]k_test_", "whsec_", "npm_", "pypi-", "hf_", "dckr_pat_", "do[opr]_v1_", "hv[sbr]\\."),
    *("sg\\.", "aiza", "ya29\\.", "dapi", "glsa_", "shp(?:at|ca|pa|ss)_", "sk-"),
)
_SERVICE_TOKEN: Final = rf"(?:{'|'.join(_TOKEN_BEGINNINGS)})[a-z0-9_][a-z0-9_.=\-]{{18}}"
#: The part of a name that makes it the name of a secret; the characters after it belong to the name.
STEM: Final = (
    rf"(?:{_WORDS}"
    r"|(?<!by)(?<!com)(?<!sur)(?<!tres)pass(?![A-Za-z])"
    r"|(?<![A-Za-z0-9])(?:pw|creds?)(?![A-Za-z]))"
)
#: A text that does not match contains no secret. The pattern is also valid for Rust's regular expressions (polars).
SUSPICIOUS: Final = (
    rf"(?i){_WORDS}|pass(?:[^a-z]|$)|(?:^|[^a-z0-9])(?:pw|creds?)(?:[^a-z]|$)"
    r"|bearer|://|private key|scram-sha|md5[0-9a-f]|eyj|akia|asia"
    rf"|{_SERVICE_TOKEN}|[?&;]sig=|curl\s|mysql|mariadb|redis-cli|docker\s|hooks\.slack"
)
#: Every suspicious text contains one of these in lower case.
MARKERS: Final = (
    *("pass", "pwd", "pw", "secret", "token", "cred", "key", "auth", "signature", "identified", "bearer", "://"),
    *("scram", "md5", "eyj", "akia", "asia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "pat_", "pat-", "xox", "xapp-"),
    *("_live_", "_test_", "whsec_", "npm_", "pypi-", "hf_", "_v1_", "hvs.", "hvb.", "hvr.", "sg.", "aiza", "ya29."),
    *("dapi", "glsa_", "shp", "sk-", "sig=", "curl", "mysql", "mariadb", "redis-cli", "docker", "hooks.slack"),
)

_SUSPICIOUS: Final = re.compile(SUSPICIOUS)
_NAME: Final = re.compile(rf"(?i){STEM}")
#: Settings of PostgreSQL about the storage of secrets, which contain none.
_HARMLESS: Final = re.compile(r"(?i)(?:^|\.)(?:password_encryption|md5_password_warnings)$")


def is_suspicious(text: str) -> bool:
    """Whether a text may contain a secret; false means that it contains none."""
    # The pattern takes ten times as long; outside ASCII, the lower case of other letters can be a letter of a marker.
    if text.isascii():
        lower = text.lower()
        if not any(marker in lower for marker in MARKERS):
            return False
    return _SUSPICIOUS.search(text) is not None


def names_secret(name: str) -> bool:
    """Whether values of this name are secrets.

    Example:
        >>> [names_secret(name) for name in ("db.passwd", "primaryKey", "primary_key", "password_encryption")]
        [True, True, False, False]
    """
    return _NAME.search(name) is not None and _HARMLESS.search(name) is None


# Recognition of the end of a secret's value.
#
# A value is a sequence of parts: literals of SQL, JSON and shells, balanced brackets, escaped and single characters, up
# to the stop of its form. A literal or bracket that never closes was cut: the rest of the text is hidden.

#: Replacement of a secret.
MASK: Final = "***"

Span = tuple[int, int]

#: Beginning of a literal: a quote, optionally with a prefix of SQL or Python, optionally escaped; or a dollar tag.
LITERAL: Final = r"(?:[EeBbXxNnRrFf]|[Uu]&)?\\*[\"'`]|\$(?:[A-Za-z_\x80-\U0010ffff]\w*)?\$"

AT_BLANK: Final = re.compile(r"\s")
AT_JSON: Final = re.compile(r"[\s,}\]]")
AT_LINE_END: Final = re.compile(r"[\r\n]")
AT_NEXT_ITEM: Final = re.compile(r"[\r\n]|[,;]\s*[\w.\-]+\s*[=:]|\}(?![^\s,;)\]}])")
AT_NEXT_OPTION: Final = re.compile(r"[\r\n]|\s+--?[A-Za-z]")
AT_TAG: Final = re.compile(r"<")

_LITERAL: Final = re.compile(LITERAL)
#: A value that is already redacted.
_MASKED: Final = re.compile(r"\*{3}(?=[\s/:;)\]}\"'`<]|,\s|$)")
_QUOTE: Final = re.compile(r"[\"'`]")
_BODIES: Final = {quote: re.compile(rf"(?s)(?:[^{quote}\\]|\\.|{quote}{quote})*+") for quote in "\"'`"}
#: A literal of standard SQL, in which a backslash is a character like any other.
_STANDARD: Final = re.compile(r"(?:[^']|'')*+")
#: Text after which the next literal belongs to the same value: an operator, or in SQL a line end.
_JOINT: Final = re.compile(rf"\s*\|\|\s*(?={LITERAL})|[ \t]*\r?\n\s*(?=')")
#: Text that may follow a value after the quote that was opened before its name.
_CLOSED: Final = re.compile(r"[\s,;:.)\]}\"']|$")
#: Text adjacent to a literal, as shells allow, belongs to the same value.
_GLUED: Final = re.compile(r"[\w\"'`\\$]")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/@&=+%*?!#^~|-]+(?<![:;,])")
_BRACKETED: Final = re.compile(r"[()\[\]{}\"'`\\]")


def find_value_span(text: str, place: int, stop: re.Pattern[str], enclosing: str = "") -> Span:
    """The value that begins at a place, without the quotes of a literal.

    Args:
        text: the whole text.
        place: beginning of the value.
        stop: pattern that ends a value outside of literals.
        enclosing: quotes that are open at this place, which also end the value.
    """
    if masked := _MASKED.match(text, place):
        return masked.span()
    opening = _LITERAL.match(text, place)
    if opening is None:
        end = _run_end(text, place, stop, enclosing)
        if stop is AT_JSON and text.startswith(("[", "{"), place):
            # Lists and objects of JSON hold several secrets.
            end = max(end, _find_bracket_end(text, place))
        return place, end
    end = _find_literal_end(text, opening)
    while joint := _JOINT.match(text, end) or _GLUED.match(text, end):
        following = _LITERAL.match(text, joint.end() if joint.re is _JOINT else end)
        end = _find_literal_end(text, following) if following else _run_end(text, end, AT_JSON, enclosing)
    closing = _get_closing_quote(opening)
    inside = end - len(closing) if text.endswith(closing, opening.end(), end) else end
    return opening.end(), inside


def _get_closing_quote(opening: re.Match[str]) -> str:
    return opening[0] if opening[0].startswith("$") else opening[0].lstrip("EeBbXxNnRrFfUu&")


def _find_literal_end(text: str, opening: re.Match[str]) -> int:
    closing = _get_closing_quote(opening)
    if len(closing) == 1:
        body = _BODIES[closing].match(text, opening.end())
        # A backslash at the end of the text lost the character that it escapes.
        end = body.end() if body else len(text)
        if closing == "'" and opening[0][0] not in "Ee" and text.find("\\'", opening.end(), end) >= 0:
            # Its backslashes may escape, or stand for themselves: what ends later hides both.
            standard = _STANDARD.match(text, opening.end())
            end = max(end, standard.end() if standard else end)
        return end + 1 if text.startswith(closing, end) else len(text)
    end = text.find(closing, opening.end())
    # Inside a literal that is escaped itself, a quote has more backslashes.
    while end > opening.end() and closing[0] == "\\" and text[end - 1] == "\\":
        end = text.find(closing, end + 1)
    return len(text) if end < 0 else end + len(closing)


def _run_end(text: str, place: int, stop: re.Pattern[str], enclosing: str) -> int:
    while place < len(text) and not stop.match(text, place):
        character = text[place]
        if character in enclosing and _CLOSED.match(text, place + 1):
            return place
        if character == "\\":
            place += 2
        elif character in "\"'`" and character not in enclosing and (quote := _QUOTE.match(text, place)):
            place = _find_literal_end(text, quote)
        elif character == "(":
            place = _find_bracket_end(text, place)
        else:
            plain = None if stop is AT_JSON else _PLAIN.match(text, place)
            place = plain.end() if plain else place + 1
    return min(place, len(text))


def _find_bracket_end(text: str, place: int) -> int:
    """The end of the brackets that open at a place."""
    depth = 0
    while match := _BRACKETED.search(text, place):
        place = match.end()
        if match[0] in "()[]{}":
            depth += 1 if match[0] in "([{" else -1
            if depth == 0:
                return place
        elif match[0] == "\\":
            place += 1
        else:
            place = _find_literal_end(text, match)
    return len(text)


# The forms in which secrets are written. Each function yields the beginning and end of each secret of its form.
#
# All take time proportional to the text for any content: a text may be a hostile line of a megabyte.

#: Number of characters before the stem of a name that are examined.
_LOOK_BACK: Final = 120
_COMPARED: Final = r"=>|:=|[!<>=]?={1,2}|<>|!?~~?\*?|:(?!:)|%3[dD]"
_NAMED: Final = re.compile(
    rf"(?i){STEM}(?P<rest>[\w.\-\[]{{0,100}})(?P<quote>\\*[\"'`])?"
    rf"(?:(?P<closer>[\])]{{0,2}})\s*(?P<sign>{_COMPARED})\s*"
    rf"|\s*(?P<comma>,)\s*(?={LITERAL})"
    r"|\s+(?P<word>to|like|ilike|in)\s+"
    rf"|\s+(?P<literal>)(?={LITERAL})"
    r"|(?P<tag>>)"
    r"|(?P<blank>[ \t]+))"
)
_NAME_BEFORE: Final = re.compile(r"[\w.\-]*$")
#: Before a name that begins a line, as in property files and environments.
_LINE_BEGIN: Final = re.compile(r"(?:^|[\r\n])[ \t]*(?:(?:export|set|[#;{\"'\-])[ \t]*)*$")
_OPTION_BEFORE: Final = re.compile(r"(?:^|\s)--?\w[\w\-]*[ \t]+[\"']?$")
_ITEM_BEFORE: Final = re.compile(r"[{\[(][ \t]*$|,[ \t]+$")


def find_named_values(text: str) -> Iterator[Span]:
    """`name=value`, `"name": "value"`, `PASSWORD 'value'`, `--name value`, `<name>value</name>` and the like."""
    quotes = _OpenQuotes(text)
    place = 0
    while match := _NAMED.search(text, place):
        place = match.end()
        context = text[max(0, match.start() - _LOOK_BACK) : match.start()]
        name = _NAME_BEFORE.search(context)
        begin = name.start() if name else len(context)
        stop = _stop(match, context[:begin], context[begin:])
        if stop is None or not names_secret(context[begin:] + text[match.start() : match.end("rest")]):
            continue
        enclosing = quotes.before(match.start())
        block = _BLOCK_SCALAR.match(text, place) if stop is AT_LINE_END else None
        span = (
            _find_indented_block(text, match.start(), block) if block else find_value_span(text, place, stop, enclosing)
        )
        place = max(place, span[1])
        yield from _drop_empty_span(span)


#: `password: |` or `>-` of YAML, whose value is in the lines below.
_BLOCK_SCALAR: Final = re.compile(r"[|>][+\-0-9]{0,2}[ \t]*(?:#[^\r\n]*)?\r?\n")
#: A line: its indentation, and the rest.
_LINE: Final = re.compile(r"(?!\Z)([ \t]*)(.*)\n?")


def _find_indented_block(text: str, name: int, heading: re.Match[str]) -> Span:
    """The lines below a heading that are indented more than the line with a name, and blank ones between them."""
    before = text[text.rfind("\n", 0, name) + 1 : name]
    depth, end = len(before) - len(before.lstrip(" \t")), heading.end()
    for line in _LINE.finditer(text, end):
        if line[2].strip() and len(line[1]) <= depth:
            break
        end = line.end(2)
    return heading.end(), end


def _stop(match: re.Match[str], before: str, name: str) -> re.Pattern[str] | None:
    """The pattern that ends the value, derived from the characters around its name; None if no value follows."""
    if match["tag"]:
        return AT_TAG if before.endswith("<") else None
    if name.startswith("-") or _OPTION_BEFORE.search(before):
        return AT_NEXT_OPTION
    if match["blank"]:
        return None
    if match["comma"]:
        return AT_JSON if match["quote"] else None
    if match["sign"] == ":":
        return AT_JSON if match["quote"] else AT_LINE_END
    if match["sign"] and _LINE_BEGIN.search(before):
        return AT_LINE_END
    is_item = match["sign"] and not match["closer"] and _ITEM_BEFORE.search(before)
    return AT_NEXT_ITEM if is_item else AT_BLANK


class _OpenQuotes:
    """The quotes that are open at places of a text, which are given in ascending order."""

    def __init__(self, text: str) -> None:
        self._text, self._place = text, 0
        self._open = dict.fromkeys("'\"", False)

    def before(self, place: int) -> str:
        """The quotes that occur an odd number of times before a place."""
        for quote in self._open:
            self._open[quote] ^= bool(self._text.count(quote, self._place, place) % 2)
        self._place = place
        return "".join(quote for quote, is_open in self._open.items() if is_open)


#: It begins after a blank: a search from each character of a long word would take seconds.
_TOKEN: Final = re.compile(r"(?<!\S)\S*://\S*")
_AUTHORITY: Final = re.compile(r"://[^\s:/\[]*:")
#: A port, also if the colon of a message follows: `tcp://host:8786: no worker`.
_PORT: Final = re.compile(r"\d{0,5}(?!(?!:$)[^/?#,;\s\"')\]}>])|/")


#: A user without a password in a URL of the web, and one that is a token in any other, as in `https://token@host/x`.
_LONE_USER: Final = re.compile(
    r"(?i)(?:https?|git|ftps?)(?:%2b|\+\w+)?://(?P<web>[^\s:/@\[?#\"'<>]+)@|://(?P<token>(?=[^@/]{0,60}[0-9])[\w\-.~+=%]{20,})@"
)


def find_uri_passwords(text: str) -> Iterator[Span]:
    """The text between the user and the last `@` of `scheme://user:password@host`, or up to the end if it was cut."""
    if "://" not in text:
        return
    for token in _TOKEN.finditer(text):
        authority = _AUTHORITY.search(text, *token.span())
        last = text.rfind("@", *token.span())
        if authority is None:
            continue
        if last >= authority.end():
            yield authority.end(), last
        elif not _PORT.match(text, authority.end(), token.end()):
            # Not a port, so it is the beginning of a password that was cut.
            yield authority.end(), token.end()
    for lone in _LONE_USER.finditer(text):
        yield lone.span(lone.lastgroup or 0)


_BEARER: Final = re.compile(r"(?i)\bbearer(?:\s*[:=]\s*|\s+)")
_BLOCK: Final = re.compile(r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?P<block>.*?)(?:-----END|\Z)")
_SHAPES: Final = re.compile(
    r"SCRAM-SHA-256\$\S+|(?<!\w)md5[0-9a-f]{32}(?!\w)"
    r"|(?<![\w\-])eyJ[\w\-]++\.[\w\-]++(?:\.[\w\-]*+)?"
    r"|(?<!\w)(?:AKIA|ASIA)[0-9A-Z]{16}(?!\w)"
    rf"|(?<![A-Za-z0-9_\-])(?i:(?=[a-z_.\-]{{0,40}}[0-9]){_SERVICE_TOKEN}[a-z0-9_.=\-]*+)"
)
#: A shared access signature of Azure, in a URL.
_SIGNATURE: Final = re.compile(r"(?i)[?&;]sig=(?P<value>[^&\s\"'<>]{8,})")
_SLACK_HOOK: Final = re.compile(r"hooks\.slack\.com/(?:services|workflows)/(?P<value>[\w/+\-]{8,})")


def find_secret_tokens(text: str) -> Iterator[Span]:
    """Bearer tokens, private keys, and secrets known by shape: PostgreSQL's stored passwords, JWT, keys of services."""
    quotes = _OpenQuotes(text)
    for match in _BEARER.finditer(text):
        yield from _drop_empty_span(find_value_span(text, match.end(), AT_BLANK, quotes.before(match.start())))
    for match in _BLOCK.finditer(text):
        yield from _drop_empty_span(match.span("block"))
    for match in _SHAPES.finditer(text):
        yield match.span()
    for match in chain(_SIGNATURE.finditer(text), _SLACK_HOOK.finditer(text)):
        yield match.span("value")


def _drop_empty_span(span: Span) -> Iterator[Span]:
    """The span, unless it is empty."""
    if span[0] < span[1]:
        yield span


_INSERT: Final = re.compile(
    r"(?i)\binsert\s+into\s[^()]{1,200}\((?P<columns>[^()]{0,2000})\)[^()']{0,60}\bvalues\b\s*(?P<values>\S)"
)
_KEY_DETAIL: Final = re.compile(r"(?i)\bkey \((?P<columns>[^()\n]{0,2000})\)=\(")


def find_row_values(text: str) -> Iterator[Span]:
    """Values of columns with secrets: `INSERT INTO t (id, passwd) VALUES (...)`, `Key (passwd)=(...) exists`."""
    for match in _INSERT.finditer(text):
        if names_secret(match["columns"]):
            yield match.start("values"), len(text)
            return
    for match in _KEY_DETAIL.finditer(text):
        if names_secret(match["columns"]):
            line_end = text.find("\n", match.end())
            line_end = len(text) if line_end < 0 else line_end
            closing = text.rfind(")", match.end(), line_end)
            yield match.end(), closing if closing >= 0 else line_end


#: Programs whose options name no secret: the program, its options, and how the secret follows them.
_COMMANDS: Final = tuple(
    re.compile(rf"(?i)(?<![\w.\-]){program}(?=\s)[^\r\n]{{0,400}}?\s{option}(?P<value>\S)")
    for program, option in (
        (r"curl(?:\.exe)?", r"(?:-[A-Za-z]*[uU]|--(?:proxy-)?user)[ \t=]*(?P<quote>[\"']?)[^\s:\"']{0,200}:"),
        (r"(?:mysql|mariadb)[\w\-]*", r"(?-i:-p)(?!\s)"),
        (r"sshpass", r"-p[ \t]*"),
        (r"redis-cli", r"(?-i:-a)[ \t]*"),
        (r"docker[ \t]+login", r"-p[ \t]*"),
    )
)
#: A line of a password file of libpq: host, port, database and user, then the password.
_PGPASS: Final = re.compile(
    r"(?:(?:[^\s:\\'\"]|\\.){1,255}:){1}(?:\d{1,5}|\*):(?:(?:[^\s:\\]|\\.){1,63}:){2}(?P<value>[^\s:])"
)


def find_command_passwords(text: str) -> Iterator[Span]:
    """Passwords after options that only their programs define (`curl -u user:...`), and in lines for `.pgpass`."""
    lower = text.lower()
    for pattern, word in zip(_COMMANDS, ("curl", "m", "sshpass", "redis-cli", "docker"), strict=True):
        if word not in lower:
            continue
        quotes = _OpenQuotes(text)
        for match in pattern.finditer(text):
            begin, quote = match.start("value"), match.groupdict().get("quote")
            if quote:
                # Within quotes that opened before the user, blanks belong to the password.
                end = text.find(quote, begin)
                yield from _drop_empty_span((begin, end if end >= 0 else len(text)))
            else:
                yield from _drop_empty_span(find_value_span(text, begin, AT_BLANK, quotes.before(begin)))
    if "pgpass" in lower:
        for match in _PGPASS.finditer(text):
            yield from _drop_empty_span(find_value_span(text, match.start("value"), AT_BLANK, "'\""))


#: A name of a secret, as the value of one key, beside a key of its value, as in the environment of containers.
_TITLED_PAIR: Final = re.compile(
    rf"(?i)(?<![\w.\-])(?:name|key|variable)[\"']?\s*[:=]\s*[\"']?(?P<name>[\w.\-]{{0,80}}?{STEM}[\w.\-]{{0,80}})[\"']?\s*,?\s*"
    r"[\"']?(?:value|val)[\"']?\s*[:=]\s*(?=\S)"
)


def find_titled_values(text: str) -> Iterator[Span]:
    """`{name: PGPASSWORD, value: ...}`, on one line or on two."""
    for match in _TITLED_PAIR.finditer(text):
        if names_secret(match["name"]):
            yield from _drop_empty_span(find_value_span(text, match.end(), AT_JSON))


_BOUND: Final = re.compile(r"\$(\d{1,5})(?!\d)")
_PARAMETERS: Final = re.compile(r"(?i)\bparameters:\s*(?=\$\d)")
_PARAMETER: Final = re.compile(r"\$(\d{1,5}) = ('(?:[^']|'')*+'?|\S+?(?=,\s|\s|$))")


def find_secret_parameters(text: str) -> frozenset[int]:
    """Numbers of the parameters of a statement that are secrets: `SET password = $1`, `VALUES ($1, crypt($2))`.

    Example:
        >>> sorted(find_secret_parameters("UPDATE users SET password = crypt($2, 'x') WHERE id = $1"))
        [2]
    """
    if "$" not in text or not is_suspicious(text):
        return frozenset()
    spans = chain(find_named_values(text), find_row_values(text))
    return frozenset(int(number[1]) for begin, end in spans for number in _BOUND.finditer(text, begin, end))


def find_parameter_values(text: str, numbers: frozenset[int] | None = None) -> Iterator[Span]:
    """Values of secret parameters in `parameters: $1 = '...', $2 = '...'`.

    Args:
        text: the text.
        numbers: the parameters that are secrets; None: those that a statement in the text says.
    """
    lists = list(_PARAMETERS.finditer(text))
    if not lists:
        return
    secret = find_secret_parameters(text) if numbers is None else numbers
    for place in lists if secret else ():
        at = place.end()
        while match := _PARAMETER.match(text, at):
            if int(match[1]) in secret and match[2] != "NULL":
                quoted = match[2].startswith("'")
                yield match.start(2) + quoted, match.end(2) - (quoted and match[2].endswith("'") and len(match[2]) > 1)
            at = match.end() + 2 if text.startswith(", ", match.end()) else len(text)


#: The order does not matter: if forms overlap, the spans of all are hidden.
FORMS: Final[tuple[Callable[[str], Iterator[Span]], ...]] = (
    find_named_values,
    find_uri_passwords,
    find_secret_tokens,
    find_row_values,
    find_command_passwords,
    find_titled_values,
    find_parameter_values,
)

# Views of a text without one layer of quoting or encoding after the other, with the places that they come from.
#
# JSON within CSV doubles its quotes, a parameter of a URL encodes them, SQL within SQL doubles its apostrophes. Forms
# of secrets are searched in every view, and what they find is hidden at its place in the text.

#: Layers that are undone; each takes time proportional to the text.
_MOST_LAYERS: Final = 5
_URL: Final = re.compile(r"%(?P<url>0[AaDd]|[2-7][0-9A-Fa-f])|(?P<blank>\+)")
_IN_URL: Final = re.compile(r"%(?:0[AaDd]|[2-7][0-9A-Fa-f])")
_ENCODED: Final = re.compile(
    r"\\(?:u00|x)(?P<escape>[2-7][0-9A-Fa-f])"
    r"|(?P<entity>&(?:quot|apos|amp|lt|gt|#0{0,4}(?:3[249]|38|6[0-2])|#[xX]0{0,4}(?:2[0267]|3[c-eC-E]));)"
)
#: Two quotes at the end of a name, or before a word, are of a text whose quotes are doubled; else an empty text.
_IN_DOUBLED: Final = re.compile(
    r"\w\\*(?:\"\"|'')[\"']*\s*(?:=>|[:=,])|[=:,(\[{\s]\\*(?:\"\"|'')(?![\"'\s,;:)\]}&\\]|$)"
)
_DOUBLED: Final = re.compile(r"\"\"|''")
#: A name that ends in an escaped quote, and a value of YAML on several lines, are within a literal with backslashes.
_IN_ESCAPED: Final = re.compile(r"\w(?:\\+[\"'])+\s*(?:=>|[:=,])|:[ \t]*[|>][+\-0-9]{0,2}[ \t]*(?:\\r)?\\n")
_ESCAPED: Final = re.compile(r"\\(?P<escaped>[\\\"'/rn])")
_CONTROLS: Final = {"n": "\n", "r": "\r"}


@dataclass(frozen=True)
class TextView:
    """A text as it reads without some of its layers.

    Attributes:
        text: the text of the view.
        origins: place in the original text of each character of the view, and of its end.
    """

    text: str
    origins: array[int]


def inner_views(text: str) -> Iterator[TextView]:
    """The text without its outermost layer, without the two outermost ones and so on, as long as it has any."""
    view: TextView | None = None
    for _ in range(_MOST_LAYERS):
        layer = next((layer for layer, sign in _LAYERS if sign.search(text)), None)
        if layer is None:
            return
        view = _remove_layer(view or TextView(text, array("q", range(len(text) + 1))), layer)
        text = view.text
        yield view


#: What is replaced -> what shows that the layer is there.
_LAYERS: Final = ((_URL, _IN_URL), (_ENCODED, _ENCODED), (_DOUBLED, _IN_DOUBLED), (_ESCAPED, _IN_ESCAPED))


def _remove_layer(view: TextView, layer: re.Pattern[str]) -> TextView:
    pieces: list[str] = []
    origins = array("q")
    shown = 0
    for match in layer.finditer(view.text):
        pieces += [view.text[shown : match.start()], _decode_escape(match)]
        origins += view.origins[shown : match.start() + 1]
        shown = match.end()
    return TextView("".join((*pieces, view.text[shown:])), origins + view.origins[shown:])


def _decode_escape(match: re.Match[str]) -> str:
    """The character that a match stands for."""
    groups = match.groupdict()
    if code := groups.get("url") or groups.get("escape"):
        return chr(int(code, 16))
    if groups.get("blank"):
        return " "
    return unescape(match[0]) if groups.get("entity") else _CONTROLS.get(match[0][-1], match[0][-1])


__all__ = [
    "MARKERS",
    "MASK",
    "SUSPICIOUS",
    "VERSION",
    "is_suspicious",
    "masked",
    "names_secret",
    "redact",
    "redact_name",
    "redact_path",
    "redact_values",
    "redacted_items",
    "secret_spans",
]

#: Keys of a mapping; YAML also has keys that are not texts.
Key = TypeVar("Key")

#: Incremented whenever the rules hide more or less; sources are then parsed again.
VERSION: Final = 5


def redact(text: str) -> str:
    """The text with passwords, keys, tokens and other credentials replaced by ``***``.

    Parts that are already redacted remain unchanged.
    """
    return masked(text, secret_spans(text)) if is_suspicious(text) else text


def masked(text: str, spans: Iterable[Span]) -> str:
    """The text with ``***`` in place of each span; spans may overlap.

    Example:
        >>> masked("a bc d", [(2, 3), (2, 4)])
        'a *** d'
    """
    pieces: list[str] = []
    shown = 0
    for begin, end in sorted(spans):
        if begin > shown or not pieces:
            pieces += [text[shown:begin], MASK]
        shown = max(shown, end)
    return "".join((*pieces, text[shown:]))


def secret_spans(text: str) -> Iterator[Span]:
    """Beginning and end of each secret, as the text reads and without each of its layers of quoting and encoding."""
    yield from chain.from_iterable(form(text) for form in FORMS)
    for view in inner_views(text):
        for begin, end in chain.from_iterable(form(view.text) for form in FORMS):
            yield view.origins[begin], view.origins[end]


def redact_name(name: str) -> str:
    """A name (of a file, a resource, an application) in which everything after the key of a secret is hidden.

    Example:
        >>> redact_name("laptop token=s3cret, w2")
        'laptop token=***'
    """
    hidden = redact(name)
    return hidden if hidden == name else hidden.partition(MASK)[0] + MASK


def redact_path(path: str) -> str:
    """A path in which each name is redacted separately.

    Example:
        >>> redact_path("/data/db.passwd=s3cret/pglogs/PGLOG-0-1.log")
        '/data/db.passwd=***/pglogs/PGLOG-0-1.log'
    """
    return "/".join(redact_name(name) for name in path.split("/")) if is_suspicious(path) else path


def redact_values(value: object, name: str = "") -> object:
    """Nested mappings and lists, as read from YAML or JSON, of the same shape but without secrets.

    Args:
        value: mappings, lists, texts and numbers.
        name: dotted name of the value; if it is the name of a secret, everything below it is hidden.

    Example:
        >>> redact_values({"db": {"user": "bench", "passwd": 42}, "args": ["--password", "x", "-v"]})
        {'db': {'user': 'bench', 'passwd': '***'}, 'args': ['--password', '***', '-v']}
    """
    if isinstance(value, Mapping):
        items = redacted_items(value)
        return {key: redact_values(inner, f"{name}.{key}" if name else str(key)) for key, inner in items}
    if isinstance(value, list | tuple):
        return [redact_values(inner, name) for _, inner in redacted_items(value)]
    if value is None or isinstance(value, bool):
        return value
    if names_secret(name):
        return MASK
    return redact(value) if isinstance(value, str) else value


def redacted_items(values: Mapping[Key, object] | Sequence[object]) -> Iterator[tuple[object, object]]:
    """Keys or indexes of one level with their values; values that a neighbour marks as secrets are hidden.

    `name: PGPASSWORD` hides the `value` beside it, and `--password` the item that follows in a list.
    """
    if isinstance(values, Mapping):
        titled = any(key in _TITLES and isinstance(title, str) and names_secret(title) for key, title in values.items())
        for key, inner in values.items():
            shown = redact(key) if isinstance(key, str) else key
            yield shown, MASK if titled and key in _TITLED else inner
    else:
        hidden = False
        for index, item in enumerate(values):
            yield index, MASK if hidden else item
            hidden = isinstance(item, str) and item.startswith("-") and "=" not in item and names_secret(item)


#: The environment of containers is written as {name: PGPASSWORD, value: ...}.
_TITLES: Final = ("name", "key", "variable")
_TITLED: Final = ("value", "val")


# Columns of texts: rows of any table, before they leave their format. Only texts that contain a suspicious word are
# examined one by one, and each distinct text once.

#: Number of rows that is enough to see whether texts repeat.
_FEW: Final = 1000
_MARKER_BYTES: Final = tuple(marker.encode() for marker in MARKERS)


def redact_series(texts: pl.Series) -> pl.Series:
    """:func:`redact` for a column of strings; the same object if it contains no secret.

    Example:
        >>> import polars as pl
        >>> redact_series(pl.Series(["user7", "password=x y", None])).to_list()
        ['user7', 'password=***', None]
    """
    # The pattern takes longer to compile than most columns to search.
    if not may_hold_secret(texts.to_arrow()):
        return texts
    rows = texts.str.contains(SUSPICIOUS).fill_null(value=False).arg_true()
    if not rows.len():
        return texts
    suspicious = texts.gather(rows)
    distinct = suspicious.unique()
    redacted = [redact(text) for text in distinct]
    if redacted == distinct.to_list():
        return texts
    # A copy, because scatter writes into the series itself.
    return texts.clone().scatter(rows, suspicious.replace_strict(distinct, redacted))


def redact_expr(text: pl.Expr) -> pl.Expr:
    """:func:`redact` for an expression of strings."""
    import polars as pl

    return text.map_batches(redact_series, return_dtype=pl.String, is_elementwise=True)


def redact_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with redacted texts and categories; the same object if they contain no secret."""
    import pyarrow as pa

    if not len(batch):
        return batch
    columns = batch.columns
    arrays = [_redact_array(array) for array in columns]
    if all(new is old for new, old in zip(arrays, columns, strict=True)):
        return batch
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _redact_array(array: pa.Array) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        words = array.dictionary
        redacted_words = _redact_array(words)
        return array if redacted_words is words else pa.DictionaryArray.from_arrays(array.indices, redacted_words)
    if not (pa.types.is_large_string(array.type) or pa.types.is_string(array.type)) or not may_hold_secret(array):
        return array
    import polars as pl

    texts = pl.Series(array, dtype=pl.String)
    redacted = redact_series(texts)
    if redacted is texts:
        return array
    # Plain texts in memory of their own: views would keep the whole buffer alive.
    return redacted.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest()).cast(array.type)


def may_hold_secret(texts: pa.Array) -> bool:
    """Whether one of the texts may contain a secret, decided without reading them one by one and without polars."""
    if not len(texts) or texts.null_count == len(texts):
        return False
    # Names of devices and tools repeat, and each is examined once.
    if len(texts) > _FEW and len(texts.slice(0, _FEW).unique()) < _FEW // 10:
        texts = texts.unique()
    data = texts.buffers()[2]
    if data is None:
        return False
    lower = data.to_pybytes().lower()
    # The lower case of a letter outside ASCII can be a letter of a marker.
    return not lower.isascii() or any(marker in lower for marker in _MARKER_BYTES)

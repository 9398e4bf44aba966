"""Lines of HammerDB by kind: consoles, logs, counters, time profiles and the JSON of its command `jobs`."""

from __future__ import annotations

import re
from typing import Final

from citus_analysis.formats.clients._report_lines import NUMBER
from citus_analysis.formats.reading.signs import Signs

_USER: Final = r"^(?:Vuser [0-9]+: ?)?"
#: Like `_USER`, or a text in a list of JSON.
_TEXT: Final = r'^(?: *"|Vuser [0-9]+: ?)?'
_DATE: Final = r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [A-Z]{3,4} [0-9]{4}"
_ISO: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"
#: Kind of a line with a result in a form that is not known.
STRANGE: Final = "strange"
#: Kind -> pattern; the first that matches decides.
KINDS: Final = {
    "version": r"^HammerDB CLI v(?P<version>[0-9][0-9.]{0,9})$",
    # Version 3 and earlier print the two numbers in the other order.
    "result": rf"{_TEXT}TEST RESULT : System achieved "
    r"(?:(?P<nopm>[0-9]{1,15}) NOPM from (?P<tpm>[0-9]{1,15}) .+? TPM"
    rf"|(?P<old_tpm>[0-9]{{1,15}}) .+? TPM at (?P<old_nopm>[0-9]{{1,15}}) NOPM)"
    r'(?:",?)?$',
    STRANGE: r"TEST RESULT :",
    "setting": rf"{_USER}(?:Beginning rampup time of (?P<ramp_up>[0-9]{{1,9}})"
    r"|Timing test period of (?P<timed>[0-9]{1,9})) (?:in )?minutes?$",
    "users": rf'{_TEXT}(?P<users>[0-9]{{1,9}}) Active (?:Virtual Users|Sessions) configured(?:",?)?$',
    # Version 2 counts the monitor, too.
    "all_users": rf"{_USER}([0-9]{{1,9}}) Virtual Users configured$",
    "query": rf"{_USER}query ([0-9]{{1,3}}) completed in ({NUMBER}) seconds$",
    "queries": rf"{_USER}(?:Completed ([0-9]{{1,9}}) query set\(s\) in ({NUMBER}) seconds"
    rf"|Geometric mean .* is ({NUMBER}))$",
    "counter": rf"^([0-9]{{1,15}}) ([A-Z][A-Za-z0-9 ]*) (?:tpm|qph)(?: @ ({_DATE}))?$",
    "listed": rf'^ *"(?P<time>{_ISO})": "(?P<per_minute>[0-9]{{1,15}})",?$',
    "user": rf"^>>>>> VIRTUAL USER ([0-9]{{1,9}}) : ELAPSED TIME : {NUMBER}ms$",
    "summary": rf"^>>>>> SUMMARY OF ([0-9]{{1,9}}) ACTIVE VIRTUAL USERS : MEDIAN ELAPSED TIME : {NUMBER}ms$",
    "procedure": r"^>>>>> PROC: ([A-Z_0-9]+)$",
    "values": rf"^(?:CALLS|P99): {NUMBER}.*[A-Z]: {NUMBER}(?:ms|%)?$",
    "timed": r'^ *\{?"([A-Z_0-9]{2,30})": \{$',
    "timing": rf'^ *"(elapsed_ms|calls|(?:min|avg|max|total|p[0-9]{{2}})_ms|sd|ratio_pct)": "({NUMBER})",?$',
    "error": rf"{_USER}(?:Error in Virtual User |.*Procedure Error|FINISHED FAILED|.*\b(?:ERROR|FATAL):)|^Error",
    "noise": r"^$|^Vuser [0-9]+(?::| created)"
    r"|^(?:HammerDB|Hammerdb|Copyright|Type|Initiali[sz]ed|Database set|Benchmark set)"
    r"|^(?:Value|Changed|Script|Logging|to|Transaction Counter|TX Logging|Clearing|Closed|Building|Ready to|in host)\b"
    r"|^[0-9]+ Virtual Users? Created|^(?:Virtual User|vu|tcount|All|ALL|Enter|No Virtual|Timer:|=====)"
    rf"|^[+-]+(?:[+-]+)*$|^.* Hammerdb Time Profile Report @ {_DATE}$|^The xml|^ (?:load|delay) |^TPROC|^TPC"
    r"|^(?:SETTING|SEQUENCE|RUN SEQUENCE|Stopping|Setting jobs|Jobs|second time|Benchmark Run|vudestroy|Gathering"
    r"|Calculating|Writing|Destroying|Connection) ?"
    # Headings and brackets around the JSON of `jobs`, and other texts in it.
    r"|^TRANSACTION (?:RESPONSE TIMES|COUNT)$|^HAMMERDB RESULT$|^ *[\[\]{}]+,?$"
    r'|^ *\{?"[^"]{0,1000}"(?:: (?:\{|"[^"]{0,1000}"))?,?$',
}
#: The number of a virtual user that ended with an error.
FAILED_USER: Final = r"^Vuser ([0-9]{1,9}): ?FINISHED FAILED"
SIGNS: Final = Signs(
    re.compile(
        rb"TEST RESULT : System achieved [0-9]+ (?:NOPM from [0-9]+|[^\n]{1,40} TPM at [0-9]+ NOPM)"
        rb"|^Hammerdb (?:Transaction Counter )?Log @ |^[A-Za-z0-9]+ Hammerdb Time Profile Report @ "
        rb"|^HammerDB CLI v[0-9]|^Vuser 1:Beginning rampup time of [0-9]+ min"
        rb"|^Vuser 1:(?:RUNNING|Executing Query [0-9]+)\r?$",
        re.MULTILINE,
    ),
    (b"TEST RESULT : ", b"Hammerdb ", b"HammerDB CLI v", b"Vuser 1:"),
)
#: Kinds of lines with values.
RESULTS: Final = [kind for kind in KINDS if kind not in (STRANGE, "error", "noise")]
UNKNOWN_RESULT: Final = "a result of HammerDB in a form that is not known"

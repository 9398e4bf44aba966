"""Figures and their library in a page: packed so that a browser unpacks them, and small."""

import base64
import struct
import zlib

import pytest
from plotly.offline import get_plotlyjs

from citus_analysis.core.type_aliases import Json
from citus_analysis.report.html import pack_plotly_library, pack_text, reduce_precision, strip_map_worker


def unpacked(text: str) -> str:
    return zlib.decompress(base64.b85decode(text.replace(",", "<"))).decode()


@pytest.mark.parametrize("text", ["", "a", "</script><!--", "µs – 12\u202f345" * 1000])
def test_what_was_packed_comes_back_and_cannot_end_a_script(text: str) -> None:
    assert unpacked(pack_text(text)) == text
    assert "<" not in pack_text(text)


def test_the_library_leaves_room_for_the_figures_of_a_page() -> None:
    whole = get_plotlyjs()
    kept = strip_map_worker(whole)
    assert unpacked(pack_plotly_library()) == kept
    assert len(pack_plotly_library()) < 1_700_000
    # Only one text, in one piece, was taken out.
    start = next(place for place, (a, b) in enumerate(zip(whole, kept, strict=False)) if a != b)
    assert whole.endswith(kept[start:])


def test_a_library_without_a_worker_stays_as_it_is() -> None:
    assert strip_map_worker("var a=W((e,t)=>{})") == "var a=W((e,t)=>{})"


def array(*values: float) -> Json:
    return {"dtype": "f8", "bdata": base64.b64encode(struct.pack(f"<{len(values)}d", *values)).decode()}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ((0.1, 0.2, 1e6), "f4"),
        ((float("nan"), 2.5), "f4"),
        # Milliseconds since 1970, one second apart: 4 bytes would move them by minutes.
        ((1_763_677_953_000.0, 1_763_677_954_000.0), "f8"),
        ((1e300, 2e300), "f8"),
    ],
)
def test_numbers_take_4_bytes_where_nobody_can_see_it(values: tuple[float, ...], kind: str) -> None:
    trace = reduce_precision({"x": array(*values), "name": "a", "nested": [{"y": array(*values)}]})
    assert isinstance(trace, dict)
    assert isinstance(trace["x"], dict)
    assert trace["x"]["dtype"] == kind
    assert trace["name"] == "a"

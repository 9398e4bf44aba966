"""The grammar of forms, and files of claims: what is written is read back, what is wrong is named with its place."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from citus_analysis.errors import FormatError, InputError
from citus_analysis.published.claims import Bound, Form, parse_form, read_claims

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True)
VALUES = st.text(st.characters(codec="ascii", exclude_characters='"', exclude_categories=["Cc"]), max_size=20)
NUMBERS = st.floats(0.001, 1e9)


@st.composite
def forms(draw: st.DrawFn) -> Form:
    quantity = draw(st.sampled_from(["ratio", "difference", "mean"]))
    names = draw(st.lists(NAMES, min_size=2, max_size=5, unique=True))
    sides = draw(st.lists(VALUES, min_size=2, max_size=2, unique=True))
    low, high = sorted(draw(st.lists(NUMBERS, min_size=2, max_size=2, unique=True)))
    bounds = [Bound("at least", (low,)), Bound("at most", (high,)), Bound("between", (low, high))]
    bounds += [Bound("about", (high, 5.0))] + ([Bound("higher"), Bound("lower")] if quantity != "mean" else [])
    axes = () if quantity == "mean" else ((names[0], sides[0], sides[1]),)
    conditions = tuple((name, draw(VALUES)) for name in names[1:])
    return Form(quantity, draw(NAMES), axes, conditions, draw(st.sampled_from(bounds)))


@settings(deadline=None)
@given(forms())
def test_a_form_is_read_back_as_it_was_written(form: Form) -> None:
    assert parse_form(str(form)) == form


@settings(deadline=None)
@given(st.one_of(st.text(), st.text('ratio mean over at least,"0123 within%', max_size=60)))
def test_any_other_text_is_refused_in_words(text: str) -> None:
    try:
        form = parse_form(text)
    except FormatError as refused:
        error: FormatError | None = refused
    else:
        error = None
        assert parse_form(str(form)) == form
    assert error is None or error.hint


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty part"),
        ("speed x, workers 2 over 1, higher", "does not begin with"),
        ("ratio x, workers 2 over 1", "is no bound"),
        ("ratio x", "states no bound"),
        ("ratio x, workers 2, higher", "a ratio needs COLUMN A over B"),
        ("mean x, workers 2 over 1, at least 3", "a mean needs no COLUMN"),
        ("ratio x, workers 2 over 2, higher", "same workers"),
        ("ratio x, workers 2 over 1, workers 3, higher", "occurs twice"),
        ("ratio x, workers 2 over 1, between 3 and 2", "allows no value"),
        ("ratio x, workers 2 over 1, at most 0", "never"),
        ("mean x, higher", "is not 'higher'"),
        ("ratio x, workers, higher", "neither COLUMN VALUE"),
    ],
)
def test_the_wrong_part_is_named(text: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        parse_form(text)


def test_shipped_claims_have_places() -> None:
    claims = read_claims()
    assert len(claims) >= 24
    assert all(claim.stated.place.strip() and claim.stated.claim.endswith(".") for claim in claims)
    assert {claim.stated.source for claim in claims} == {
        "thesis", "postgres_xc", "sigmod", "hammerdb_talk", "citus_docs"
    }  # fmt: skip


ENTRY = "- {{claim: A., source: me, place: p. 1, form: '{}'}}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not a list of claims"),
        ("a: 1", "not a list of claims"),
        ("[1", "not YAML"),
        (ENTRY.format("ratio x, workers 2 over 1, higher") + "- 3\n", "line 2: Input should be"),
        (ENTRY.format("ratio x, workers 2 over 1, faster"), "line 1, field '0?.?form': 'faster' is no bound"),
        ("\n- {claim: A., source: me, place: p. 1}\n", "line 2: neither form nor printed"),
        ("- {claim: A., source: me, form: 'mean x, at least 1'}\n", "field 'place': Field required"),
        ("- {claim: A., source: me, place: p, form: 'mean x, at least 1', n: 1}\n", "field 'n': Extra inputs"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "claims.yml"
    file.write_text(text)
    with pytest.raises(InputError, match=problem) as found:
        read_claims(file)
    assert str(found.value).startswith(str(file))
    assert found.value.hint


def test_a_file_that_is_not_there_is_an_error_of_the_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_claims(tmp_path / "nothing.yml")

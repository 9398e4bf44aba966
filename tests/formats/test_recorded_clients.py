from tests.formats.refresh_clients import EXPECTED, clients


def test_recorded_clients_say_what_they_are_expected_to_say() -> None:
    """`python -m tests.formats.refresh_clients` rewrites the expectation."""
    found, expected = clients().write_csv().splitlines(), EXPECTED.read_text(encoding="utf-8").splitlines()
    assert [line for line in found if line not in expected] == []
    assert len(found) == len(expected) == 213

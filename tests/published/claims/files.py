"""Files of claims for tests."""

from pathlib import Path


def claims_file(folder: Path, *forms: str) -> Path:
    path = folder / "claims.yml"
    path.write_text("".join(f"- {{claim: A., source: me, place: p. 1, form: '{form}'}}\n" for form in forms))
    return path

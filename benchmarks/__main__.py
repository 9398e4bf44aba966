"""Runs every benchmark of this folder, or those that are named: `python -m benchmarks [NAME ...]`."""

import sys
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Call `main` of each module; it prints its ratios and keeps them in `results`."""
    known = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    wanted = sys.argv[1:] or known
    if unknown := sorted(set(wanted) - set(known)):
        sys.exit(f"no benchmark is named {', '.join(unknown)}; known: {', '.join(known)}")
    del sys.argv[1:]
    for name in wanted:
        print(f"== {name}")
        import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()

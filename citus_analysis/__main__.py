"""Command: python -m citus_analysis."""

from citus_analysis.cli import main

if __name__ == "__main__":
    main()

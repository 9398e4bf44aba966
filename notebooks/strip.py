"""Strip notebooks for version control: python notebooks/strip.py notebooks/*.ipynb."""

import json
import sys
from pathlib import Path

from citus_analysis.report.notebooks import load_notebook, strip_notebook

for argument in sys.argv[1:]:
    path = Path(argument)
    path.write_text(
        json.dumps(strip_notebook(load_notebook(path)), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )

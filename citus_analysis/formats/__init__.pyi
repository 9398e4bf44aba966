# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .api.format import Format as Format
from .api.format import Hints as Hints
from .api.format import Parsed as Parsed
from .api.format import Reject as Reject
from .api.registry import detect_format as detect_format
from .api.registry import format_named as format_named
from .api.registry import formats as formats
from .outputs.finding import find_outputs as find_outputs
from .reading.lines import line_frame as line_frame
from .reading.lines import reject_runs as reject_runs
from .sources.content import Content as Content

__all__: list[str]

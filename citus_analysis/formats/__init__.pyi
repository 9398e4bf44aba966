# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .parsing.format import Format as Format
from .parsing.format import Hints as Hints
from .parsing.format import Parsed as Parsed
from .parsing.format import Reject as Reject
from .parsing.registry import detect_format as detect_format
from .parsing.registry import format_named as format_named
from .parsing.registry import formats as formats
from .parsing.outputs import find_outputs as find_outputs
from .parsing.lines import line_frame as line_frame
from .parsing.lines import reject_runs as reject_runs
from .deliveries.content import Content as Content

__all__: list[str]

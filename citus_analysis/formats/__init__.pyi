# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .api.format import Format as Format
from .api.format import Hints as Hints
from .api.format import Parsed as Parsed
from .api.format import Reject as Reject
from .api.format import reject_rows as reject_rows
from .api.openings import Opening as Opening
from .api.options import BUILT_IN_OPTIONS as BUILT_IN_OPTIONS
from .api.options import DATE_ORDER as DATE_ORDER
from .api.options import FIRST_REPORT as FIRST_REPORT
from .api.options import LOG_LINE_PREFIX as LOG_LINE_PREFIX
from .api.options import Option as Option
from .api.options import TIMEZONE as TIMEZONE
from .api.registry import detect_format as detect_format
from .api.registry import format_named as format_named
from .api.registry import formats as formats
from .api.registry import known_options as known_options
from .api.registry import summary_measures as summary_measures
from .outputs.finding import Output as Output
from .outputs.finding import find_outputs as find_outputs
from .outputs.hints import hint_facts as hint_facts
from .reading.lines import line_frame as line_frame
from .reading.lines import reject_runs as reject_runs
from .sources.content import Block as Block
from .sources.content import Content as Content

__all__: list[str]

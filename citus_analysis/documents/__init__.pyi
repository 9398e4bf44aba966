# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .checking import CheckedDocuments as CheckedDocuments
from .checking import check_documents as check_documents
from .figures import digest_table as digest_table
from .figures import read_stamp as read_stamp
from .figures import stamp_image as stamp_image
from .figures import tabulate_figure as tabulate_figure
from .suggesting import SuggestedBindings as SuggestedBindings
from .suggesting import suggest_bindings as suggest_bindings

__all__: list[str]

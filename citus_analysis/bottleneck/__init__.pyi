# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .connections import ConnectionAdvice as ConnectionAdvice
from .connections import advise_connections as advise_connections
from .measurements import Thresholds as Thresholds
from .profiles import mean_symbols as mean_symbols
from .resources import study_resources as study_resources
from .run_noise import NoiseStudy as NoiseStudy
from .run_noise import noise as noise
from .study import BottleneckStudy as BottleneckStudy
from .study import study_bottleneck as study_bottleneck

__all__: list[str]

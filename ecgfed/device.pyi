# For type checkers alone: at run time ecgfed.device is the module ecgfed.exports.device (ecgfed/base/aliases.py).
from ecgfed.exports.device import *  # noqa: F403
from ecgfed.exports.device import __all__ as __all__

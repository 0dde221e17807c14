"""Old names of ``ecgfed.core.methods.models``, for methods of users; each use warns."""

from ecgfed.base.deprecation import renamed_imports

__getattr__ = renamed_imports(
    __name__,
    "0.3",
    "0.5",
    Answer="ecgfed.core.methods.models:Model",
    Chain="ecgfed.core.methods.models:Pipeline",
    Ensemble="ecgfed.core.methods.models:Ensemble",
    Part="ecgfed.core.methods.models:Stage",
    together="ecgfed.core.methods.models:combine_models",
)

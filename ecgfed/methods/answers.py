"""Old names of ``ecgfed.methods.models``, for methods of users; each use warns."""

from ecgfed.deprecation import renamed_imports

__getattr__ = renamed_imports(
    __name__,
    "0.3",
    "0.5",
    Answer="ecgfed.methods.models:Model",
    Chain="ecgfed.methods.models:Pipeline",
    Ensemble="ecgfed.methods.models:Ensemble",
    Part="ecgfed.methods.models:Stage",
    together="ecgfed.methods.models:combine_models",
)

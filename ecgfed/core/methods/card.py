"""Old names of ``ecgfed.core.methods.communication``, for methods of users; each use warns."""

from ecgfed.base.deprecation import renamed_imports

__getattr__ = renamed_imports(
    __name__,
    "0.3",
    "0.5",
    BESIDE="ecgfed.core.methods.communication:ALWAYS_SENT",
    Card="ecgfed.core.methods.communication:CommunicationSpec",
    Keeps="ecgfed.core.methods.communication:Stored",
    Reports="ecgfed.core.methods.communication:Metric",
    Travels="ecgfed.core.methods.communication:Sent",
    holds="ecgfed.core.methods.communication:condition_holds",
    in_words="ecgfed.core.methods.communication:summarize",
)

"""Old names of ``ecgfed.methods.communication``, for methods of users; each use warns."""

from ecgfed.deprecation import renamed_imports

__getattr__ = renamed_imports(
    __name__,
    "0.3",
    "0.5",
    BESIDE="ecgfed.methods.communication:ALWAYS_SENT",
    Card="ecgfed.methods.communication:CommunicationSpec",
    Keeps="ecgfed.methods.communication:Stored",
    Reports="ecgfed.methods.communication:Metric",
    Travels="ecgfed.methods.communication:Sent",
    holds="ecgfed.methods.communication:condition_holds",
    in_words="ecgfed.methods.communication:summarize",
)

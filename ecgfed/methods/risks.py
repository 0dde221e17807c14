"""Old names of ``ecgfed.methods.losses``, for methods of users; each use warns."""

from ecgfed.deprecation import renamed_imports

__getattr__ = renamed_imports(
    __name__,
    "0.3",
    "0.5",
    RiskSettings="ecgfed.methods.losses:LossSettings",
    balanced_logits="ecgfed.methods.losses:balanced_logits",
    is_label="ecgfed.methods.losses:is_label",
    learned_risk="ecgfed.methods.losses:meta_balanced_loss",
    risk="ecgfed.methods.losses:batch_loss",
)

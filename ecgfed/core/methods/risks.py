"""Old names of ``ecgfed.core.methods.losses``, for methods of users; each use warns."""

from ecgfed.base.deprecation import renamed_imports

__getattr__ = renamed_imports(
    __name__,
    "0.3",
    "0.5",
    RiskSettings="ecgfed.core.methods.losses:LossSettings",
    balanced_logits="ecgfed.core.methods.losses:balanced_logits",
    is_label="ecgfed.core.methods.losses:is_label",
    learned_risk="ecgfed.core.methods.losses:meta_balanced_loss",
    risk="ecgfed.core.methods.losses:batch_loss",
)

"""Construction of nets from specifications."""

from ecgfed.base.errors import OptionError, param
from ecgfed.core.nets.context_net import ContextNet
from ecgfed.core.nets.images import ConvNet, ResNet30
from ecgfed.core.nets.module_net import ModuleNet
from ecgfed.core.nets.net import Net, NetSpec
from ecgfed.core.nets.net_source import NetSource
from ecgfed.core.nets.resnet1d import ResNet1d


def make_net(spec: NetSpec, source: NetSource | None = None) -> Net:
    """Return the net of a specification.

    Args:
        spec: the specification.
        source: of somebody's own net, as the caller named it: a specification may come from a stranger's file.

    Raises:
        OptionError: somebody's own net without ``source``, or one that cannot be trained.
    """
    if spec.module is not None:
        if source is None:
            problem = f"{spec.architecture!r:.200} is somebody's own code, which is not run because a file names it"
            action = f"where it is taken, pass it with {param('net=FILE.py:CLASS')}"
            raise OptionError("net", problem, "a net of this package", action, code="code-not-loaded")
        return ModuleNet(spec, source)
    if spec.modality == "ecg":
        return ContextNet(spec) if spec.architecture == "context" else ResNet1d(spec)
    return ResNet30(spec) if spec.architecture == "resnet30" else ConvNet(spec)

"""Construction of nets from specifications."""

from ecgfed.core.nets.context_net import ContextNet
from ecgfed.core.nets.images import ConvNet, ResNet30
from ecgfed.core.nets.net import Net, NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d


def make_net(spec: NetSpec) -> Net:
    """Return the net of a specification."""
    if spec.modality == "ecg":
        return ContextNet(spec) if spec.architecture == "context" else ResNet1d(spec)
    return ResNet30(spec) if spec.architecture == "resnet30" else ConvNet(spec)

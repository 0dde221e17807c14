"""Construction of nets from specifications."""

from ecgfed.nets.images import ConvNet, ResNet30
from ecgfed.nets.net import Net, NetSpec
from ecgfed.nets.resnet1d import ResNet1d


def make_net(spec: NetSpec) -> Net:
    """Return the net of a specification."""
    if spec.modality == "ecg":
        return ResNet1d(spec)
    return ResNet30(spec) if spec.architecture == "resnet30" else ConvNet(spec)

"""``read_images``: labelled images of a published data set, from its official files."""

from pathlib import Path

from ecgfed.base.errors import OptionError
from ecgfed.base.text import did_you_mean
from ecgfed.domain.cohort.cifar_files import read_cifar10, read_cifar100
from ecgfed.domain.cohort.idx_files import LAYOUTS, read_idx_images
from ecgfed.domain.cohort.labelled_images import LabelledImages
from ecgfed.tasks.progress import SILENT, ProgressReporter

NAMES = (*LAYOUTS, "cifar10", "cifar100", "cifar100-coarse")


def read_images(name: str, source: Path | str, *, progress: ProgressReporter = SILENT) -> LabelledImages:
    """Read MNIST, Fashion-MNIST, EMNIST, CIFAR-10 or CIFAR-100 from the files that their authors publish.

    No file is fetched, no pickle is opened but CIFAR-10's own by a reader that admits arrays of bytes alone. Every size
    is checked, and the files' MD5 where it is published.

    Args:
        name: ``mnist``, ``fashion-mnist``, ``emnist-digits`` (or ``letters``, ``balanced``, ``bymerge``, ``byclass``,
            ``mnist``), ``cifar10``, ``cifar100`` or ``cifar100-coarse``.
        source: the folder of the files; of CIFAR also the archive.
        progress: receives a warning if the files are not the published ones, or cannot be compared with them.

    Raises:
        OptionError: an unknown name, or no such folder.
        CohortError: a file that is missing, damaged, too short, or of another layout.
    """
    if name not in NAMES:
        raise OptionError("name", f"{name!r:.60}", f"one of {', '.join(NAMES)}", did_you_mean(name, NAMES))
    if name in LAYOUTS:
        images = read_idx_images(name, Path(source))
    elif name == "cifar10":
        images = read_cifar10(Path(source))
    else:
        images = read_cifar100(Path(source), coarse=name == "cifar100-coarse")
    if images.warning:
        progress.warn(images.warning)
    return images

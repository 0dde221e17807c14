"""``prepare cifar10``: a cohort from images."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import OptionError, param
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.tasks.progress import SILENT, ProgressReporter, count_reporter


@renamed_parameters("0.3", "0.5", watch="progress")
def prepare_cifar10(
    source: Path | str,
    out: Path | str,
    *,
    download: bool = False,
    url: str | None = None,
    partition: str = "longtail",
    clients: int | None = None,
    rho: float | None = None,
    tau: float | None = None,
    alpha: float | None = None,
    imbalance: float | None = None,
    shards: int | None = None,
    valid_share: float = 0.1,
    limit: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: ProgressReporter = SILENT,
) -> Cohort:
    """Create a cohort from CIFAR-10: 50 clients with long-tailed sizes and classes, 10,000 common test images.

    Args:
        source: folder with the batches of either layout, or an official archive; with ``download``, its destination.
        out: the cohort folder to create.
        download: fetch the binary archive (162 MB) first.
        url: a mirror to download from.
        partition: ``longtail`` (GRP-FED), ``dirichlet`` (Fed-RoD), ``shards`` or ``iid`` (``ecgfed.partition``).
        clients: number of clients; default 50 for ``longtail``, 100 for ``shards``, 20 otherwise.
        rho: ``longtail``: client sizes fall as rank^-rho; default 0.7.
        tau: ``longtail``: a client's class shares fall by this factor; default 0.5.
        alpha: ``dirichlet``: concentration; lower makes clients differ more; default 0.3.
        imbalance: ``dirichlet``: images of the most frequent class for one of the rarest; default 1.
        shards: ``shards``: shards of each client, and so its classes, roughly; default 2.
        valid_share: share of a client's images for validation.
        limit: use this many of the 50,000 training images, and a fifth as many test images.
        seed: seed of all random choices.
        overwrite: replace an existing ``out``.
        progress: receives progress, notes and warnings.

    Raises:
        EcgfedError: an input cannot be used; the message is one line.
    """
    from ecgfed.domain.cohort.cifar import CifarOptions, build_cifar_cohort
    from ecgfed.domain.cohort.cifar_files import HOME_PAGE, download_cifar10, read_cifar10
    from ecgfed.domain.cohort.partition import check_applies

    source, out, on_progress = Path(source), Path(out), count_reporter(progress, "images")
    passed: dict[str, Any] = {"rho": rho, "tau": tau, "alpha": alpha, "imbalance": imbalance, "shards": shards}
    check_applies(partition, passed)
    options = CifarOptions(partition, clients, valid_share=valid_share, limit=limit, seed=seed)
    options = replace(options, **{name: value for name, value in passed.items() if value is not None})
    if download and source.is_file():
        action = f"or leave {param('download')} out"
        raise OptionError("source", f"{source} is a file", "a folder to download into", action)
    if download:
        source = download_cifar10(source, base_url=url or HOME_PAGE, on_progress=on_progress)
    data = read_cifar10(source, on_progress)
    build_cifar_cohort(data, out, options, overwrite=overwrite, on_progress=on_progress)
    if data.warning:
        progress.warn(data.warning)
    return open_cohort(out)

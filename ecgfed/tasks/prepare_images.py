"""``prepare cifar10``: images in, a cohort out."""

from pathlib import Path

from ecgfed.base.errors import OptionError
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.tasks.watch import NOBODY, Watch, telling


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
    valid_share: float = 0.1,
    limit: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    watch: Watch = NOBODY,
) -> Cohort:
    """Make a cohort from CIFAR-10: 50 clients of long-tailed size and classes, 10,000 common test images.

    Args:
        source: folder with the batches of either layout, or an official archive; with ``download``, where to put it.
        out: the cohort folder to make.
        download: fetch the binary archive (162 MB) first.
        url: a mirror to download from.
        partition: ``longtail`` (GRP-FED) or ``dirichlet`` (Fed-RoD).
        clients: how many; default 50 for ``longtail``, 20 else.
        rho: ``longtail``: client sizes fall as rank^-rho; default 0.7.
        tau: ``longtail``: a client's class shares fall by this factor; default 0.5.
        alpha: ``dirichlet``: concentration; less is more different clients; default 0.3.
        imbalance: ``dirichlet``: images of the most frequent class for one of the rarest; default 1.
        valid_share: share of a client's images it does not train on.
        limit: take so many of the 50,000 images, and a fifth of it to test.
        seed: decides everything that is drawn.
        overwrite: replace ``out`` where it exists.
        watch: told of the progress.

    Raises:
        EcgfedError: in one line, what cannot be used.
    """
    from ecgfed.domain.cohort.cifar import CifarOptions, build_cifar_cohort
    from ecgfed.domain.cohort.cifar_files import HOME_PAGE, download_cifar10, read_cifar10

    source, out, told = Path(source), Path(out), telling(watch, "images")
    _check_partition(partition, {"rho": rho, "tau": tau, "alpha": alpha, "imbalance": imbalance})
    options = CifarOptions(
        partition,
        clients,
        0.7 if rho is None else rho,
        0.5 if tau is None else tau,
        0.3 if alpha is None else alpha,
        1.0 if imbalance is None else imbalance,
        valid_share,
        limit,
        seed,
    )
    if download and source.is_file():
        raise OptionError("--source", f"{source} is a file", "a folder to download into", "or leave --download out")
    if download:
        source = download_cifar10(source, base_url=url or HOME_PAGE, progress=told)
    data = read_cifar10(source, told)
    build_cifar_cohort(data, out, options, overwrite=overwrite, progress=told)
    if data.warning:
        watch.warn(data.warning)
    return open_cohort(out)


def _check_partition(partition: str, given: dict[str, float | None]) -> None:
    """Refuse options given that are another partition's; raises OptionError."""
    others = {"longtail": ("alpha", "imbalance"), "dirichlet": ("rho", "tau")}
    for name in others.get(partition, ()):
        if given[name] is not None:
            other = next(kind for kind in others if kind != partition)
            raise OptionError(f"--{name}", f"given for {partition}", f"--partition {other}", f"leave --{name} out")

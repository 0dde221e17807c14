"""Labelled images of a published data set, with its official division into training and test images."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.cohort.partition import NOBODY, partition
from ecgfed.domain.cohort.split import TEST, TRAIN

#: https://github.com/zalandoresearch/fashion-mnist#labels
FASHION = ("T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
_COARSE = """aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices
    household_furniture insects large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes
    large_omnivores_and_herbivores medium_mammals non-insect_invertebrates people reptiles small_mammals trees
    vehicles_1 vehicles_2"""
_FINE = """apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
    castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
    flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
    motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate
    poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider
    squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
    wardrobe whale willow_tree wolf woman worm"""
#: https://www.cs.toronto.edu/~kriz/cifar.html, in order of their numbers
CIFAR100_COARSE, CIFAR100_FINE = tuple(_COARSE.split()), tuple(_FINE.split())


@dataclass(frozen=True, repr=False, eq=False)
class LabelledImages:
    """All images, those to train on first, both in official order.

    Attributes:
        images: (N, channels, height, width) uint8; channels are red, green, blue, or one.
        label: (N,) int64 class numbers.
        train: how many are to train on.
        metadata: JSON-ready: ``layout``, ``md5`` by file, ``official`` (True, False, or None where nobody can say).
        warning: what is not as published, or ``""``.
        classes: names of the classes.
    """

    images: NDArray[np.uint8]
    label: NDArray[np.int64]
    train: int
    metadata: dict[str, Any]
    warning: str
    classes: tuple[str, ...]

    def __repr__(self) -> str:
        shape, test = " x ".join(map(str, self.images.shape[1:])), len(self.label) - self.train
        return f"LabelledImages({self.train:,} to train on, {test:,} to test, {len(self.classes)} classes, {shape})"

    @property
    def split(self) -> NDArray[np.uint8]:
        """The official split, (N,) uint8: 0 train, 2 test; ``split`` of ``cohort_from_arrays``."""
        split = np.full(len(self.label), TEST, np.uint8)
        split[: self.train] = TRAIN
        return split

    def partition(self, kind: str = "dirichlet", **options: Any) -> NDArray[np.int64]:
        """Divide the training images among clients; the test images are common to all.

        Args:
            kind: as of ``ecgfed.partition``.
            options: as of ``ecgfed.partition``.

        Returns:
            (N,) int64 client numbers, -1 for test images and those left over: ``client`` of ``cohort_from_arrays``.
        """
        client = np.full(len(self.label), NOBODY, np.int64)
        client[: self.train] = partition(self.label[: self.train], kind, **options)
        return client

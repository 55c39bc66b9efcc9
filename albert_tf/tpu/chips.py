"""The TPU chips that a step can be compiled for: their names to the compiler, memory, and peak."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

GIB = 2**30


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chip:
    """One chip.

    Attributes:
      name: as Google Cloud calls it.
      topology: the compiler's name of one chip of it.
      configuration: the compiler's name of how its cores are used; "megacore" makes one device of two.
      memory: bytes of high-bandwidth memory (HBM), by the documentation.
      available: bytes of it that the compiler gives to a program.
      peak: most floating-point operations per second in bfloat16, by the documentation.
    """

    name: str
    topology: str
    configuration: str = "default"
    memory: float
    available: float
    peak: float


# Memory and peak: "System architecture" of each chip in Google Cloud's documentation
# (cloud.google.com/tpu/docs/v5e and so on), read in November 2026. What is available of the memory: the figure with
# which libtpu 0.0.52 refuses a program that asks for 384 GiB.
CHIPS: Mapping[str, Chip] = {
    chip.name: chip
    for chip in (
        Chip(
            name="v5e", topology="v5e:1x1", memory=16e9, available=15.75 * GIB, peak=197e12,
        ),
        Chip(
            name="v4", topology="v4:1x1x1", configuration="megacore", memory=32 * GIB, available=30.75 * GIB,
            peak=275e12,
        ),
        Chip(
            name="v5p", topology="v5p:1x1x1", memory=95e9, available=95.73 * GIB, peak=459e12,
        ),
        Chip(
            name="v6e", topology="v6e:1x1", memory=32e9, available=31.24 * GIB, peak=918e12,
        ),
    )
}  # fmt: skip

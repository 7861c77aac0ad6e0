"""Problems: what is left to say about a data set once it is to be learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torch import nn

from eigenmap.core.logging import LogFunction
from eigenmap.data.vectors.input import VectorInput
from eigenmap.fitting.align import Evidence
from eigenmap.fitting.neighbours import Choice, Encode
from eigenmap.model import CodeSource, EncoderSpec, ImageInput, NodeEncoderSpec, NodeInput
from eigenmap.networks import Network
from eigenmap.networks.vectors import VectorEncoderSpec
from eigenmap.recipes.recipe import BaseRecipe
from eigenmap.spectrum import Alignment
from eigenmap.training.config import Setting, TrainingConfig
from eigenmap.training.health import HeldOutPairs
from eigenmap.training.loop import Monitor, Relation

if TYPE_CHECKING:
    from lightning_fabric import Fabric


Input = ImageInput | NodeInput | VectorInput
Encoder = EncoderSpec | NodeEncoderSpec | VectorEncoderSpec


class Side(NamedTuple):
    """All that turns things of one space into codes."""

    network: Network
    alignment: Alignment
    input: Input
    encoder: Encoder


class Code(NamedTuple):
    """The future model: an output of the network, for a single space or for each of two."""

    source: CodeSource
    left: Side
    right: Side | None = None


@dataclass(frozen=True)
class Problem:
    """Things that belong together, a network for them, and an objective: all that `pipeline` needs to know.

    Attributes:
        network: inputs as the relation yields them -> (features, psi).
        stored: the same network as the model keeps it, for inputs as `input` makes them.
        relation: batches to train on; None if nothing is trained.
        objective: (psi, psi_plus, kernel) -> loss.
        held_out: pairs that are not trained on, for the checks during training; None for no such checks.
        evidence: collects the moments of training pairs and held-out pairs, after training; None if `code` chooses.
        input: what becomes of a thing before the stored network sees it.
        encoder: how to build the stored network's encoder again.
        identity: what has to be the same for a run to be resumed, beside the training configuration.
        facts: what the model remembers of the data, given its alignment; called with `say` for what is worth knowing.
        pairs_to_align: how many pairs `evidence` passes through the network; 0 if that takes no time worth mentioning.
        monitor: measures further values at each check.
        neighbours: chooses how codes use neighbours, given a function from inputs to codes; None without neighbours.
        code: chooses the code after training, if that is not left to the alignment of `evidence`.

    """

    network: nn.Module
    stored: Network
    relation: Relation | None
    objective: nn.Module
    held_out: HeldOutPairs | None
    evidence: Callable[[], Evidence] | None
    input: Input
    encoder: Encoder
    identity: Mapping[str, Setting]
    facts: Callable[[Alignment, LogFunction], dict[str, Any]]
    pairs_to_align: int = 0
    monitor: Monitor | None = None
    neighbours: Callable[[Encode], Choice] | None = None
    code: Callable[[LogFunction], Code] | None = None


class Task(Protocol):
    """Data that is read and checked, and the recipe that fits it: what a front door hands to `pipeline.fit`."""

    @property
    def recipe(self) -> BaseRecipe:
        """All settings."""

    @property
    def steps(self) -> int:
        """Length of training, unless the caller says otherwise; 0 for a problem that is solved without."""

    @property
    def step_in_words(self) -> str:
        """What a step looks at, for example "256 images"."""

    def problem(self, fabric: Fabric, config: TrainingConfig) -> Problem:
        """The problem on the devices of `fabric`; everything random is seeded by `config.seed`."""

"""Statement of a fit, independent of the kind of data: `Task` and `Problem`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torch import nn

from eigenmap.core.logging import LogFunction
from eigenmap.fitting.align import Evidence
from eigenmap.fitting.neighbours import Choice, Encode
from eigenmap.model import CodeSource
from eigenmap.model.inputs import Encoder, Input
from eigenmap.networks import Network
from eigenmap.recipes.recipe import BaseRecipe
from eigenmap.spectrum import Alignment
from eigenmap.training.config import Setting, TrainingConfig
from eigenmap.training.health import HeldOutPairs
from eigenmap.training.loop import Monitor, Relation

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Side(NamedTuple):
    """Everything that turns items of one space into codes."""

    network: Network
    alignment: Alignment
    input: Input
    encoder: Encoder


class Code(NamedTuple):
    """Code of the future model: an output of the network, for one space or for each of two."""

    source: CodeSource
    left: Side
    right: Side | None = None


@dataclass(frozen=True)
class Problem:
    """Relation, network, objective and everything else that `pipeline` needs.

    Attributes:
        network: inputs as the relation yields them -> (features, psi).
        stored: the same network as stored in the model, for inputs that `input` returns.
        relation: batches to train on; None if nothing is trained.
        objective: (psi, psi_plus, kernel) -> loss.
        held_out: pairs that are not trained on, for checks during training; None for no checks.
        evidence: collects the moments of training pairs and held-out pairs after training, given the share of them to
            use, which is below 1 if time is short; None if `code` is given.
        input: preprocessing for the stored network.
        encoder: specification to rebuild the stored network's encoder.
        identity: settings that must be equal to resume a run, besides the training configuration.
        facts: returns the facts about the data that the model stores, given its alignment, and reports them to `say`.
        pairs_to_align: number of pairs that `evidence` passes through the network; 0 if the time is negligible.
        monitor: measures further values at each check.
        neighbours: chooses how codes use neighbours, given a function from inputs to codes; None without neighbours.
        code: chooses the code after training, in place of `evidence`.

    """

    network: nn.Module
    stored: Network
    relation: Relation | None
    objective: nn.Module
    held_out: HeldOutPairs | None
    evidence: Callable[[float], Evidence] | None
    input: Input
    encoder: Encoder
    identity: Mapping[str, Setting]
    facts: Callable[[Alignment, LogFunction], dict[str, Any]]
    pairs_to_align: int = 0
    monitor: Monitor | None = None
    neighbours: Callable[[Encode], Choice] | None = None
    code: Callable[[LogFunction], Code] | None = None

    def seconds_to_align(self, step_seconds: float, batch_size: int) -> float:
        """Estimate the time that ordering the features takes: about a third of training on as many pairs."""
        return self.pairs_to_align * step_seconds / batch_size / 3


class Task(Protocol):
    """Validated data and its recipe, as passed to `pipeline.fit`."""

    @property
    def recipe(self) -> BaseRecipe:
        """All settings."""

    @property
    def steps(self) -> int:
        """Default number of training steps; 0 for a problem that needs no training."""

    @property
    def step_in_words(self) -> str:
        """Content of a step, for example "256 images"."""

    def problem(self, fabric: Fabric, config: TrainingConfig) -> Problem:
        """State the problem on the devices of `fabric`; `config.seed` seeds everything random."""

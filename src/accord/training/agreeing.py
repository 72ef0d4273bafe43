"""When agreement is on, how much it counts, and what of a batch it needs."""

from accord.config import AgreementConfig, Experiment
from accord.corpus.batches import Batch, Int16s, Position
from accord.corpus.store import Store
from accord.graph import TranslationGraph
from accord.objective.agreement import AgreementSettings, weight_at
from accord.objective.agreement_inputs import AgreementInputs
from accord.objective.auxiliary import AuxiliaryLanguages
from accord.training.distributed import World


class Agreeing:
    """Agreement as an experiment asks for it, in one of several processes."""

    def __init__(
        self,
        config: AgreementConfig,
        graph: TranslationGraph,
        store: Store,
        *,
        seed: int,
        rank: int,
        world_size: int,
    ) -> None:
        self.config = config
        self.settings = AgreementSettings(
            decoding=config.decoding,
            measure=config.measure,
            normalize=config.normalize,
            max_length=config.max_length,
            relative_length=config.relative_length,
            temperature=config.temperature,
            dropout=config.dropout,
            translations=config.weight > 0,
            encodings=config.encoder_weight > 0,
        )
        self.languages = AuxiliaryLanguages(
            graph, store.vocabulary.tags, law=config.auxiliary, protect=config.protect
        )
        self._seed, self._rank, self._world_size = seed, rank, world_size

    def weights(self, step: int) -> tuple[float, float]:
        """The weights of agreement and of encoder agreement in an update."""
        share = weight_at(step, weight=1.0, start=self.config.start, ramp=self.config.ramp)
        return self.config.weight * share, self.config.encoder_weight * share

    def is_on(self, step: int) -> bool:
        """Whether anything has to be computed; otherwise the run is Basic, bit for bit."""
        return any(self.weights(step))

    def draw(self, batch: Batch, position: Position) -> Int16s:
        """A third language for every row."""
        return self.languages.draw(
            batch,
            seed=self._seed,
            position=position,
            rank=self._rank,
            world_size=self._world_size,
        )

    def inputs(
        self, part: Batch, drawn_B: Int16s, shape: tuple[int, int] | None = None
    ) -> AgreementInputs:
        """The rows of a batch, both sides tagged with the languages drawn for them."""
        found = AgreementInputs.of(part, drawn_B, self.languages, shape)
        return found.pinned() if shape is not None else found


def agreeing_of(experiment: Experiment, store: Store, world: World) -> Agreeing | None:
    """None where the experiment is Basic."""
    config = experiment.objective.agreement
    if config is None or not (config.weight or config.encoder_weight):
        return None
    return Agreeing(
        config,
        experiment.graph,
        store,
        seed=experiment.seed,
        rank=world.rank,
        world_size=world.size,
    )

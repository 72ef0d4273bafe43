"""Rules between the keys of `model`: see checks.py."""

from collections.abc import Iterable, Iterator

from accord.config.model_settings import OWN_KEYS, OWN_PRESETS, ModelSettings
from accord.config.schema import Experiment
from accord.config.section import Complaint, Section


def bad_model(model: ModelSettings) -> Iterator[Complaint]:
    """Keys and presets of another kind of model, and sizes that do not fit together."""
    if model.preset not in OWN_PRESETS.get(model.kind, (model.preset,)):
        other = next(kind for kind, presets in OWN_PRESETS.items() if model.preset in presets)
        yield (
            ("model", "preset"),
            f"{model.preset} is a preset of kind {other}, but the model is a {model.kind}",
            f"set model.kind to {other}, or choose from {', '.join(OWN_PRESETS[model.kind])}",
        )
        return
    for other, keys in OWN_KEYS.items():
        for key in keys:
            if other != model.kind and getattr(model, key) is not None:
                yield (
                    ("model", key),
                    f"only a {other} model has `{key}`, but model.kind is {model.kind}",
                    f"leave it out (or null), or set model.kind to {other}",
                )
    rules = {
        "gnmt": bad_layers,
        "transformer": bad_heads,
        "language-model": _bad_language_model,
    }
    if model.kind in rules:
        yield from rules[model.kind](model)
    yield from _bad_generator(model)


def _bad_language_model(model: ModelSettings) -> Iterator[Complaint]:
    """What only models have that read a source."""
    for key, value in (
        ("encoder_layers", None),
        ("tag", "source"),
        ("tables", None),
        ("generator", None),
    ):
        if getattr(model, key) != value:
            yield (
                ("model", key),
                f"a language model reads no source, so `{key}` does nothing",
                "leave it out: decoder_layers says how many layers it has",
            )


def _bad_generator(model: ModelSettings) -> Iterator[Complaint]:
    generator = model.generator
    if generator is None or generator.bias:
        return
    if generator.rank is not None:
        yield (
            ("model", "generator", "rank"),
            f"without biases, all matrices would be of rank {generator.rank}",
            "set model.generator.bias to true, or leave rank out",
        )
    if model.kind == "transformer":
        yield (
            ("model", "generator", "bias"),
            "without biases, the norms of a Transformer would begin near 0 instead of at 1",
            "set it to true",
        )


# What a phrase-based system has of the sections that are about networks: two keys of training.
_OF_NETWORKS = (
    *("preset", "units", "encoder_layers", "decoder_layers", "dropout", "tag"),
    *("tables", "generator"),
)
_OF_ALL = ("seed", "threads")


def bad_phrase_based(experiment: Experiment) -> Iterator[Complaint]:
    """Keys that only make sense for a network; dev sentences to tune on."""
    model, training = experiment.model, experiment.training
    sections: tuple[tuple[str, Section, Iterable[str]], ...] = (
        ("model", model, _OF_NETWORKS),
        ("objective", experiment.objective, type(experiment.objective).model_fields),
        ("training", training, set(type(training).model_fields).difference(_OF_ALL)),
    )
    for section, values, keys in sections:
        for key, field in type(values).model_fields.items():
            if key in keys and getattr(values, key) != field.default:
                yield (
                    (section, key),
                    "a phrase-based system is not trained by updates of a network, which this is "
                    "about",
                    f"leave {section}.{key} out, or choose another model.kind"
                    + (f"; --set '{section}={{}}' leaves out all" if section != "model" else ""),
                )
    if model.tuning is not None and model.tuning.evaluations and not experiment.dev.given:
        yield (
            ("model", "tuning"),
            "weights are tuned on dev sentences, and `dev` names none",
            "add a dev set, or set model.tuning.evaluations to 0",
        )


def bad_heads(model: ModelSettings) -> Iterator[Complaint]:
    """The heads of a Transformer share out its units; a residual is that of a layer."""
    units, heads = model.units, model.heads or 1
    if units % 2 or units % heads:
        yield (
            ("model", "heads"),
            f"{units} units cannot be shared out to {heads} heads, or are odd",
            "let units be even and a multiple of heads: 64 units per head are usual",
        )
    layer, layers = model.encoder_residual, model.encoder_depth
    if layer is not None and layer > layers:
        yield (
            ("model", "encoder_residual"),
            f"there is no encoder layer {layer} whose residual could be left out",
            f"give a layer from 1 to {layers}, or leave it out",
        )


def bad_layers(model: ModelSettings) -> Iterator[Complaint]:
    """Every decoder layer of GNMT starts from one encoder state."""
    encoder, states, decoder = model.encoder_depth, model.encoder_states, model.decoder_depth
    if model.preset == "gnmt3" and encoder < 2:
        yield (
            ("model", "encoder_layers"),
            f"the encoder of preset gnmt3 has {encoder} layer",
            "give it at least 2: one bidirectional layer and one above",
        )
    elif states != decoder:
        yield (
            ("model", "decoder_layers"),
            f"{decoder} decoder layers cannot start from {states} encoder states "
            f"(preset {model.preset}, encoder_layers {encoder})",
            f"set decoder_layers to {states}, or leave it out",
        )


def bad_language_model_training(experiment: Experiment) -> Iterator[Complaint]:
    """What only those models can be asked for that translate."""
    for key, section in experiment.objective:
        if section is not None:
            yield (
                ("objective", key),
                "a language model knows the likelihood of its text only",
                "leave it out, or choose another model.kind",
            )
    if experiment.training.validation.metric != "cross_entropy":
        yield (
            ("training", "validation", "metric"),
            "a language model translates nothing that could be measured",
            "leave it at cross_entropy",
        )

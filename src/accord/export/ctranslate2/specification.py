"""A Transformer in CTranslate2's words: which of its weights is which of ours."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from accord.data.vocabulary import EOS, tag_piece
from accord.export.base import ExportSource
from accord.inference.backends.ctranslate2_backend import POSITIONS
from accord.inference.text import UNKNOWN
from accord.models.transformer import DecoderLayer, EncoderLayer, Transformer, sinusoids
from accord.models.transformer_decoding import aligning_layer

if TYPE_CHECKING:
    from accord.inference.backends.manifest import ExportPrecision


def specification(model: Transformer, pieces: Sequence[str], precision: "ExportPrecision") -> Any:
    """The model with its vocabulary, ready to be saved."""
    from ctranslate2.specs import TransformerSpec

    encoder, decoder = model.encoder.layers, model.decoder.layers
    spec = TransformerSpec.from_config(
        (len(encoder), len(decoder)),
        model.heads,
        pre_norm=model.encoder.norm is not None,
        # Alignments are read off where our own decoder reads them: all heads of this layer.
        alignment_layer=aligning_layer(len(decoder)),
        alignment_heads=0,
    )
    _tables(spec, model)
    for stack, layers in ((spec.encoder, encoder), (spec.decoder, decoder)):
        for specified, layer in zip(stack.layer, layers, strict=True):
            _shared(specified, cast(EncoderLayer, layer))
    pairs_L = model.keys_and_values.weight.chunk(len(decoder))
    for specified, layer, pairs in zip(spec.decoder.layer, decoder, pairs_L, strict=True):
        attention = cast(DecoderLayer, layer).cross_attention
        query, both, output = specified.attention.linear
        query.weight, both.weight = _copied(attention.query.weight), _copied(pairs)
        output.weight = _copied(attention.output.weight)
        _norm(specified.attention.layer_norm, cast(DecoderLayer, layer).cross_attention_norm)
    for stack, ours in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        if ours.norm is not None:
            _norm(stack.layer_norm, ours.norm)
    _vocabulary(spec, pieces)
    spec.config.layer_norm_epsilon = cast(EncoderLayer, encoder[0]).attention_norm.eps
    spec.validate()
    spec.optimize("int8" if precision == "int8" else None)
    return spec


def short_lists(source: ExportSource) -> bytes:
    """What each target language may say, by its tag: CTranslate2's vocabulary map."""
    pieces, lines = source.trained.vocabulary.pieces(), []
    for language in source.trained.graph.languages:
        forbidden = set(source.trained.decoder.forbidden(language))
        said = [piece for i, piece in enumerate(pieces) if i not in forbidden]
        lines.append(f"{tag_piece(language)}\t{' '.join(said)}\n")
    return "".join(lines).encode()


def _tables(spec: Any, model: Transformer) -> None:
    # Rows times the root of the width: CTranslate2 does that by itself.
    target = _copied(model.target_embedding.weight)
    source = model.source_embedding
    spec.encoder.embeddings[0].weight = target if source is None else _copied(source.weight)
    spec.decoder.embeddings.weight = spec.decoder.projection.weight = target
    # Before the first token, its decoder reads the zero vector as ours does.
    spec.decoder.start_from_zero_embedding = True
    waves = sinusoids(torch.arange(POSITIONS), model.units, torch.float32)
    spec.encoder.position_encodings.encodings = waves
    spec.decoder.position_encodings.encodings = waves


def _shared(specified: Any, layer: EncoderLayer) -> None:
    """Self-attention and feed-forward, which layers of both sides have."""
    qkv, output = specified.self_attention.linear
    qkv.weight = _copied(layer.attention.qkv.weight)
    output.weight = _copied(layer.attention.output.weight)
    _norm(specified.self_attention.layer_norm, layer.attention_norm)
    both, ours = specified.ffn, layer.feed_forward
    for linear, own in ((both.linear_0, ours.inner), (both.linear_1, ours.outer)):
        linear.weight, linear.bias = _copied(own.weight), _copied(own.bias)
    _norm(both.layer_norm, layer.feed_forward_norm)


def _norm(specified: Any, norm: nn.LayerNorm) -> None:
    specified.gamma, specified.beta = _copied(norm.weight), _copied(norm.bias)


def _copied(weight: Tensor) -> Tensor:
    # Weights are brought to 8 bits in place, and the run's own are still to be compared with.
    return weight.detach().clone()


def _vocabulary(spec: Any, pieces: Sequence[str]) -> None:
    spec.register_source_vocabulary(list(pieces))
    spec.register_target_vocabulary(list(pieces))
    config = spec.config
    # Rows bring their end. A first token must be named, but its vector is never read.
    config.unk_token, config.eos_token = UNKNOWN, pieces[EOS]
    config.bos_token = config.decoder_start_token = pieces[EOS]
    config.add_source_bos = config.add_source_eos = False

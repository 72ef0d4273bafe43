"""Dual learning: a sentence is translated into a language without data, and has to come back.

For a sentence x and a translation z ~ P(. | x), with Q the language model of z's language,

    R(z)  =  alpha log Q(z) / |z|  +  (1 - alpha) log P(x | z) / |x|
    grad E[R]  =  E[ (R(z) - b) grad log P(z | x)  +  (1 - alpha) grad log P(x | z) / |x| ]

The first term is REINFORCE's, the second is back-translation, which is exact (Sestorain et al.
2018, after He et al. 2016). Rewards are nats a token, so that short translations are not better for
being short; |.| counts the end of sentence. The estimate is unbiased where z is drawn at
temperature 1 and b does not depend on it. The sentence is encoded once, and dropout is off in both
uses of its decoder: what z is drawn from is the very distribution whose gradient is taken.

Gradients are found by the weighted cross-entropy of tokens, whose weights are known in time: first
z comes back, which gives the second term and the rewards, then the first term is computed.
"""

import torch
from torch import Tensor
from torch.nn import functional

from accord.config.objectives import DualConfig
from accord.data.vocabulary import EOS, PAD
from accord.models.base import Memory, Seq2Seq
from accord.objectives.agreement.decoding import Translations, generate, relative_limit
from accord.objectives.base import Terms
from accord.objectives.dual.inputs import DualInputs
from accord.ops.softmax_cross_entropy import dense_cross_entropy

# What is added up over the sentences that are sent, and over those whose translations are kept.
COUNTS = (
    "sentences",
    "tokens",
    "reference_tokens",
    "copies",
    "right_language",
    "kept",
    "reward",
    "fluency",
    "reconstruction",
)
_CHUNK = 8192  # positions whose distributions are in memory at a time


def dual(
    model: Seq2Seq,
    language_model: Seq2Seq,
    inputs: DualInputs,
    config: DualConfig,
    unigrams_LV: Tensor,
) -> Terms:
    """The negative reward of round trips, summed over sentences: its gradient is the formula's.

    `unigrams_LV` are log-probabilities of tokens in each language's text, to tell the language of
    translations; nothing is learnt from that.
    """
    memory = model.encode(inputs.sentences_BS, inputs.lengths_B, inputs.language_B)
    said = _translate(model, memory, inputs, config)
    kept_B = inputs.weight_B * ~_degenerate(said, inputs, config)
    back_loss, reconstruction_B = _come_back(model, said, inputs, (1 - config.alpha) * kept_B)
    fluency_B = _fluency(language_model, said, inputs)
    reward_B = config.alpha * fluency_B + (1 - config.alpha) * reconstruction_B
    advantage_B = advantages(reward_B, kept_B.to(reward_B), config)
    hidden_BTD = model.decode(memory, model.shifted_embeddings(_padded(said)), dropout=False)
    policy_loss, _ = _scored(model, hidden_BTD, said.tokens_BT, said.real_BT, advantage_B)
    counts = _counts(said, inputs, unigrams_LV) | {
        "kept": kept_B.sum(),
        "reward": torch.dot(reward_B, kept_B.to(reward_B)),
        "fluency": torch.dot(fluency_B, kept_B.to(fluency_B)),
        "reconstruction": torch.dot(reconstruction_B, kept_B.to(reconstruction_B)),
    }
    return Terms({"loss": policy_loss + back_loss}, counts)


def advantages(reward_B: Tensor, kept_B: Tensor, config: DualConfig) -> Tensor:
    """How much better each reward is than the baseline, within limits; 0 where `kept_B` is 0.

    The mean of the others does not depend on the row's own translation, so the gradient stays
    unbiased; the mean of all makes it shorter by the row's own share in it. A row without others
    has nothing to be compared with and learns nothing from its reward.
    """
    count, total = kept_B.sum(), torch.dot(reward_B, kept_B)
    found_B = reward_B
    if config.baseline == "others":
        others_B = (total - reward_B) / (count - 1).clamp(min=1)
        found_B = (reward_B - others_B) * (count > 1)
    elif config.baseline == "batch":
        found_B = reward_B - total / count.clamp(min=1)
    found_B = found_B * kept_B
    if config.advantage_limit is not None:
        most = config.advantage_limit * (torch.dot(found_B, found_B) / count.clamp(min=1)).sqrt()
        found_B = torch.minimum(torch.maximum(found_B, -most), most)
    return found_B


def _translate(
    model: Seq2Seq, memory: Memory, inputs: DualInputs, config: DualConfig
) -> Translations:
    """Draw a translation of every sentence, without gradient."""
    subwords_B = (inputs.lengths_B - 2).clamp(min=0)  # without tag and end
    return generate(
        model,
        memory,
        relative_limit(subwords_B),
        relative_limit(max(inputs.sentences_BS.shape[1] - 2, 0)),
        decoding="sampled",
        temperature=config.temperature,
        dropout=False,
    )


def _degenerate(said: Translations, inputs: DualInputs, config: DualConfig) -> Tensor:
    """Whether each translation repeats itself, is too short, or has no end."""
    reference_B = inputs.lengths_B - 1  # the end of sentence counted, as in translations
    return ~said.ended() | said.degenerate(
        reference_B, config.least_length, config.distinct_bigrams
    )


def _padded(said: Translations) -> Tensor:
    """The tokens of translations, and nothing behind their ends."""
    return said.tokens_BT.where(said.real_BT, PAD)


def _come_back(
    model: Seq2Seq, said: Translations, inputs: DualInputs, weight_B: Tensor
) -> tuple[Tensor, Tensor]:
    """The weighted negative log-probability of each sentence given its translation, a token, and
    this for each sentence, without sign, weight and gradient. Dropout is that of training."""
    subwords_B = said.lengths() - said.ended().long()
    rows_BT = functional.pad(_padded(said), (1, 1), value=PAD)
    rows_BT[:, 0] = inputs.tag_B
    rows_BT.scatter_(1, subwords_B.unsqueeze(1) + 1, EOS)
    memory = model.encode(rows_BT, subwords_B + 2, inputs.other_B)
    target_BS = inputs.sentences_BS[:, 1:]
    hidden_BSD = model.decode(memory, model.shifted_embeddings(target_BS))
    real_BS = target_BS != PAD
    tokens_B = real_BS.sum(dim=1).clamp(min=1)
    return _scored(model, hidden_BSD, target_BS, real_BS, weight_B / tokens_B)


@torch.no_grad()
def _fluency(language_model: Seq2Seq, said: Translations, inputs: DualInputs) -> Tensor:
    """The log-probability of a token of each translation in its language."""
    memory = language_model.encode(inputs.sentences_BS, inputs.lengths_B)  # of these, only the tag
    inputs_BTD = language_model.shifted_embeddings(_padded(said))
    hidden_BTD = language_model.decode(memory, inputs_BTD)
    _, found_B = _scored(language_model, hidden_BTD, said.tokens_BT, said.real_BT, inputs.weight_B)
    return found_B


def _scored(
    model: Seq2Seq, hidden_BTD: Tensor, tokens_BT: Tensor, real_BT: Tensor, weight_B: Tensor
) -> tuple[Tensor, Tensor]:
    """- sum over rows of weight times log P of its tokens; and log P a token, without gradient."""
    loss, found_N = dense_cross_entropy(
        tokens_BT.flatten(),
        hidden_BTD.flatten(0, 1),
        model.output_weight,
        (real_BT * weight_B.unsqueeze(1)).flatten(),
        chunk=_CHUNK,
    )
    total_B = (found_N.view(tokens_BT.shape) * real_BT).sum(dim=1)
    return loss, -total_B / real_BT.sum(dim=1).clamp(min=1)


def _counts(said: Translations, inputs: DualInputs, unigrams_LV: Tensor) -> dict[str, Tensor]:
    weight_B = inputs.weight_B
    of_rows = {
        "tokens": said.lengths(),
        "reference_tokens": inputs.lengths_B - 1,
        "copies": _copied(_padded(said), inputs.sentences_BS[:, 1:]),
        "right_language": said.right_language(unigrams_LV, inputs.other_B),
    }
    found = {name: torch.dot(values.to(weight_B), weight_B) for name, values in of_rows.items()}
    return {"sentences": weight_B.sum(), **found}


def _copied(said_BT: Tensor, sentence_BS: Tensor) -> Tensor:
    """Whether each translation is the sentence itself."""
    width = max(said_BT.shape[1], sentence_BS.shape[1])
    one_BW, other_BW = (
        functional.pad(each, (0, width - each.shape[1]), value=PAD)
        for each in (said_BT, sentence_BS)
    )
    return (one_BW == other_BW).all(dim=1)

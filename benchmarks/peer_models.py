"""Transformers of Accord and of its peers, each with its own loss and step, for peer_speed.py."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import clip_grad_norm_

from accord.config.model_settings import ModelSettings
from accord.data.vocabulary import EOS, PAD
from accord.models.build import build_model
from accord.objectives.base import Work
from accord.objectives.likelihood import LikelihoodObjective, PairInputs
from accord.training.optim import build_optimizer
from accord.training.update import Updater
from transformer_speed import DEVICE, ON_GPU, Sizes, made_up, tensors_of

RATE = 1e-4
SMOOTHING = 0.1
DROPOUT = 0.1


@dataclass(frozen=True)
class Padded:
    """A batch on the device; targets have no begin of sentence."""

    source_BS: Tensor
    target_BT: Tensor
    source_lengths_B: Tensor
    tokens: int

    def renumbered(self, padding: int, end: int) -> "Padded":
        """With a peer's numbers of padding and end of sentence."""

        def changed(ids: Tensor) -> Tensor:
            return torch.where(ids == PAD, padding, torch.where(ids == EOS, end, ids))

        source_BS, target_BT = changed(self.source_BS), changed(self.target_BT)
        return Padded(source_BS, target_BT, self.source_lengths_B, self.tokens)

    def after(self, begin: int) -> Tensor:
        """Targets with a begin of sentence."""
        return nn.functional.pad(self.target_BT, (1, 0), value=begin)


@dataclass(frozen=True)
class Trainee:
    """A model in training: `update` does one update on a batch by its number, and returns the loss
    for each token."""

    model: nn.Module
    update: Callable[[int], Tensor | float]


def padded(sizes: Sizes) -> list[Padded]:
    found = []
    for batch, rows, width in made_up(sizes):
        tensors = tensors_of(batch, rows, width).to(DEVICE)
        ids = (tensors.source_BS.long(), tensors.target_BT.long())
        found.append(Padded(*ids, tensors.source_lengths_B, batch.target_tokens))
    return found


def adam(model: nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam(
        model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9, fused=ON_GPU or None
    )


# ----- Accord


def accord(sizes: Sizes) -> Trainee:
    settings = ModelSettings(
        kind="transformer",
        units=sizes.units,
        heads=sizes.heads,
        feed_forward=sizes.feed_forward,
        encoder_layers=sizes.encoder_layers,
        decoder_layers=sizes.decoder_layers,
        dropout=DROPOUT,
    )
    model = build_model(settings, sizes.vocabulary, seed=1).to(DEVICE).train()
    optimizer = build_optimizer("adam", model, learning_rate=RATE)
    objective = LikelihoodObjective(SMOOTHING)
    updater = Updater(model, optimizer, [objective], clip=2.0, bf16=ON_GPU, graphs=ON_GPU)
    batches = [
        Work([PairInputs(tensors_of(batch, rows, width))], (1.0,), batch.target_tokens)
        for batch, rows, width in made_up(sizes)
    ]

    def update(number: int) -> Tensor:
        work = batches[number]
        return updater.update([work], work.tokens).sums[objective.name][0] / work.tokens

    return Trainee(model, update)


# ----- JoeyNMT


def joeynmt(sizes: Sizes, compiled: bool = False) -> Trainee:
    library, training, vocabularies, batches_of = (
        importlib.import_module(f"joeynmt.{name}")
        for name in ("model", "training", "vocabulary", "batch")
    )
    unknown, padding, begin, end = 0, 1, 2, 3
    specials = SimpleNamespace(
        unk_token="<unk>",
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        sep_token=None,
        lang_tags=[],
        unk_id=unknown,
        pad_id=padding,
        bos_id=begin,
        eos_id=end,
    )
    vocabulary = vocabularies.Vocabulary([], specials)
    for number in range(len(vocabulary), sizes.vocabulary):  # as add_tokens, which is quadratic
        vocabulary._itos.append(str(number))
        vocabulary._stoi[str(number)] = number
    layers = {
        "type": "transformer",
        "num_heads": sizes.heads,
        "embeddings": {"embedding_dim": sizes.units, "scale": True, "dropout": DROPOUT},
        "hidden_size": sizes.units,
        "ff_size": sizes.feed_forward,
        "dropout": DROPOUT,
        "layer_norm": "pre",
    }
    settings = {
        "tied_embeddings": True,
        "tied_softmax": True,
        "encoder": {**layers, "num_layers": sizes.encoder_layers},
        "decoder": {**layers, "num_layers": sizes.decoder_layers},
    }
    torch.manual_seed(1)
    model = library.build_model(settings, vocabulary, vocabulary).to(DEVICE)
    model.loss_function = ("crossentropy", SMOOTHING)
    if compiled:  # its loss picks tokens by a mask, which would be compiled again and again
        model.encoder.compile(dynamic=True)
        model.decoder.compile(dynamic=True)
    optimizer = adam(model)
    manager = SimpleNamespace(
        model=model,
        autocast={"device_type": DEVICE.type, "dtype": torch.bfloat16, "enabled": True},
        scaler=None,
        n_gpu=1,
        args=SimpleNamespace(normalization="tokens", batch_multiplier=1),
    )
    batches = []
    for batch in padded(sizes):
        own = batch.renumbered(padding, end)
        ids = (own.source_BS, own.source_lengths_B, None, own.after(begin), None)
        rows = torch.arange(len(own.source_BS), device=DEVICE)
        batches.append(batches_of.Batch(*ids, rows, DEVICE, padding, end))

    def update(number: int) -> float:
        loss, _ = training.TrainManager._train_step(manager, batches[number])
        optimizer.step()
        model.zero_grad()
        return float(loss)

    return Trainee(model, update)


# ----- eole


def eole(sizes: Sizes, compiled: bool = False) -> Trainee:
    models, losses, optimizers, trainers, configs, utils = (
        importlib.import_module(f"eole.{name}")
        for name in (
            "models.model",
            "utils.loss",
            "utils.optimizers",
            "trainer",
            "config.run",
            "utils",
        )
    )
    unknown, padding, begin, end = 0, 1, 2, 3
    words = {"<unk>": unknown, "<pad>": padding, "<s>": begin, "</s>": end}
    words |= {str(number): number for number in range(len(words), sizes.vocabulary)}
    specials = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    vocabularies = {"src": words, "tgt": words, "specials": specials}
    config = configs.TrainConfig(
        data={},
        src_vocab="none",
        share_vocab=True,
        model={
            "architecture": "transformer",
            "hidden_size": sizes.units,
            "heads": sizes.heads,
            "transformer_ff": sizes.feed_forward,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "embeddings": {
                "word_vec_size": sizes.units,
                "position_encoding_type": "SinusoidalInterleaved",
            },
            "encoder": {"encoder_type": "transformer", "layers": sizes.encoder_layers},
            "decoder": {"decoder_type": "transformer", "layers": sizes.decoder_layers},
        },
        training={
            "dropout": [DROPOUT],
            "attention_dropout": [0.0],
            "label_smoothing": SMOOTHING,
            "compute_dtype": "bf16",
            "use_amp": True,
            "param_init_method": "xavier_uniform",
            "log_attention_entropy": False,
            "normalization": "tokens",
            "world_size": 1 if ON_GPU else 0,
            "gpu_ranks": [0] if ON_GPU else [],
        },
    )
    torch.manual_seed(1)
    model = models.get_model_class(config.model).for_training(
        config.model, vocabularies, config.training, device_id=0 if ON_GPU else -1
    )
    trained = torch.compile(model, dynamic=True) if compiled else model
    clip = config.training.max_grad_norm
    optimizer = optimizers.Optimizer(adam(model), RATE, max_grad_norm=clip, use_amp=True)
    settings = trainers.TrainerConfig(
        norm_method="tokens", n_gpu=int(ON_GPU), dropout=[DROPOUT], attention_dropout=[0.0]
    )
    loss = losses.LossCompute.from_config(config, trained, vocabularies)
    trainer = trainers.Trainer(trained, loss, None, None, {}, optimizer, settings)
    batches = []
    for batch in padded(sizes):
        own = batch.renumbered(padding, end)
        rows = len(own.source_BS)
        sentences = {"cid": ["made up"] * rows, "cid_line_number": list(range(rows))}
        ids = {"src": own.source_BS, "srclen": own.source_lengths_B, "tgt": own.after(begin)}
        batches.append({**ids, **sentences, "images": None, "prefix_len": None})
    tokens = [batch.tokens for batch in padded(sizes)]

    def update(number: int) -> float:
        total, recent = utils.Statistics(), utils.Statistics()
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            trainer._process_accumulated_batches([batches[number]], tokens[number], total, recent)
        return float(total.loss) / tokens[number]

    return Trainee(model, update)


# ----- Hugging Face


def marian(sizes: Sizes, own_loss: bool = True, compiled: bool = False) -> Trainee:
    transformers = importlib.import_module("transformers")
    smoother = importlib.import_module("transformers.trainer_pt_utils").LabelSmoother(SMOOTHING)
    config = transformers.MarianConfig(
        vocab_size=sizes.vocabulary,
        d_model=sizes.units,
        encoder_layers=sizes.encoder_layers,
        decoder_layers=sizes.decoder_layers,
        encoder_attention_heads=sizes.heads,
        decoder_attention_heads=sizes.heads,
        encoder_ffn_dim=sizes.feed_forward,
        decoder_ffn_dim=sizes.feed_forward,
        activation_function="relu",
        dropout=DROPOUT,
        scale_embedding=True,
        use_cache=False,
        pad_token_id=PAD,
        eos_token_id=EOS,
        forced_eos_token_id=EOS,
        decoder_start_token_id=PAD,
        attn_implementation="sdpa",
    )
    torch.manual_seed(1)
    model = transformers.MarianMTModel(config).to(DEVICE).train()
    if config._attn_implementation != "sdpa":
        raise RuntimeError(f"attention is {config._attn_implementation}")
    optimizer = adam(model)
    batches = []
    for batch in padded(sizes):
        labels_BT = batch.target_BT.masked_fill(batch.target_BT == PAD, -100)
        inputs = {
            "input_ids": batch.source_BS,
            "attention_mask": (batch.source_BS != PAD).long(),
            "decoder_input_ids": model.prepare_decoder_input_ids_from_labels(labels_BT),
        }
        batches.append((inputs, labels_BT))

    def loss_of(inputs: dict[str, Tensor], labels_BT: Tensor) -> Tensor:
        outputs = model(**inputs)
        if own_loss:
            return smoother(outputs, labels_BT)  # type: ignore[no-any-return]
        logits = outputs.logits.flatten(0, 1)
        return nn.functional.cross_entropy(
            logits, labels_BT.flatten(), label_smoothing=SMOOTHING, ignore_index=-100
        )

    computed = torch.compile(loss_of, dynamic=True) if compiled else loss_of

    def update(number: int) -> Tensor:
        with torch.autocast(DEVICE.type, torch.bfloat16):
            loss = computed(*batches[number])
        loss.backward()  # type: ignore[no-untyped-call]
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return Trainee(model, update)

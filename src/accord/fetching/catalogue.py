"""The corpora that `accord fetch` knows: where they lie, what they ask for, what is taken of them.

Sizes and checksums are those that others have published; docs/fetch.md names them. Where nobody
has, there is None: the first download is then recorded and compared with from that day on.
"""

from dataclasses import dataclass

from accord.errors import AccordError

_GB = 10**9


@dataclass(frozen=True)
class Part:
    """One file on a server. `urls` are places of the same bytes, tried in turn."""

    name: str
    urls: tuple[str, ...]
    size: int | None = None
    checksum: str | None = None
    """`sha256:` or `md5:` and hex digits."""


@dataclass(frozen=True)
class Member:
    """A file that is wanted: where it goes in the dataset's folder, and its names in the archive.

    Of several names any will do: archives were renamed inside over the years.
    """

    target: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Archive:
    """Parts that make one archive, or one plain file, and the members that are wanted of it."""

    parts: tuple[Part, ...]
    members: tuple[Member, ...]
    most: int
    """More bytes than this never come out of the true archive."""

    @property
    def packed(self) -> bool:
        """Whether it has members; if not, its one part is the file wanted."""
        return ".tar" in self.parts[0].name or self.parts[0].name.endswith(".tgz")


@dataclass(frozen=True)
class Dataset:
    """A corpus with its licence, and all that has to be fetched for it."""

    name: str
    title: str
    homepage: str
    licence: str
    ask: bool
    """Whether the licence asks more of its users than naming the source."""
    size: str
    archives: tuple[Archive, ...]
    others: tuple[Archive, ...] = ()
    """Other archives with some of the same files: taken with --files, and named when all fails."""
    elsewhere: str = ""
    """Where people have found copies, for the message when all fails."""
    argument: str = ""
    """What `accord fetch` is given for it, if not its name."""

    @property
    def members(self) -> tuple[Member, ...]:
        """All files that make up the dataset."""
        return tuple(member for archive in self.archives for member in archive.members)


def dataset(name: str) -> Dataset:
    """The dataset of this name."""
    if name not in DATASETS:
        raise AccordError(
            f"there is no dataset {name!r}", fix=f"datasets: {', '.join(sorted(DATASETS))}"
        )
    return DATASETS[name]


def _bitext(pair: str, name: str, folder: str) -> tuple[Member, ...]:
    """Both sides of a corpus; `name` has {lang}."""
    files = [name.replace("{lang}", language) for language in pair.split("-")]
    return tuple(Member(file, (f"{folder}{file}",)) for file in files)


def _europarl() -> Dataset:
    pairs = ("de-en", "es-en", "fr-en")
    languages = ("de", "en", "es", "fr")
    texts = {pair: f"europarl-v7.{pair}.{{lang}}" for pair in pairs}
    # The release of the paper's authors looks for wmt06/; the archive of today says wmt07/.
    held_out = [
        Member(f"{name}.{x}", tuple(f"{year}/{part}/{name}.{x}" for year in ("wmt07", "wmt06")))
        for part, name in (("dev", "dev2006"), ("devtest", "devtest2006"))
        for x in languages
    ]
    training = Part(
        "training-parallel-europarl-v7.tgz",
        ("https://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",),
        657_632_379,
        "sha256:0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
    )
    devsets = Part("devsets.tgz", ("https://www.statmt.org/wmt07/devsets.tgz",))
    return Dataset(
        name="europarl",
        title="Europarl v7 (en-de, en-es, en-fr), dev2006 and devtest2006",
        homepage="https://www.statmt.org/europarl/",
        licence=(
            "Proceedings of the European Parliament. The makers know of no copyright restrictions "
            "and ask to cite Koehn, Europarl, MT Summit 2005."
        ),
        ask=False,
        size="0.7 GB, about 2 GB on disk",
        archives=(
            Archive(
                (training,),
                tuple(m for pair in pairs for m in _bitext(pair, texts[pair], "training/")),
                8 * _GB,
            ),
            Archive((devsets,), tuple(held_out), _GB),
        ),
        others=tuple(
            Archive(
                (Part(f"{pair}.tgz", (f"https://www.statmt.org/europarl/v7/{pair}.tgz",)),),
                _bitext(pair, texts[pair], ""),
                4 * _GB,
            )
            for pair in pairs
        ),
        elsewhere=(
            "the training texts are also in huggingface.co/datasets/wmt/wmt13 "
            "(training-parallel-europarl-v7.zip; unpack it and use --files)"
        ),
    )


def _un() -> Dataset:
    bases = (
        "https://www.un.org/dgacm/sites/www.un.org.dgacm/files/files/UNCORPUS/",
        "https://conferences.unite.un.org/UNCORPUS/Home/DownloadFile?filename=",
    )

    def part(name: str) -> Part:
        return Part(name, tuple(base + name for base in bases))

    def bitext(pair: str, volumes: int) -> Archive:
        name = f"UNv1.0.{pair}"
        parts = tuple(part(f"{name}.tar.gz.{volume:02d}") for volume in range(volumes))
        return Archive(parts, _bitext(pair, f"{name}.{{lang}}", f"{pair}/"), 40 * _GB)

    held_out = tuple(
        Member(file := f"UNv1.0.{name}.{language}", (f"testsets/{name}/{file}",))
        for name in ("devset", "testset")
        for language in ("en", "es", "fr", "ru")
    )
    return Dataset(
        name="un",
        title="United Nations Parallel Corpus v1.0 (en-es, en-fr, en-ru), dev and test set",
        homepage="https://www.un.org/dgacm/en/content/uncorpus",
        licence=(
            "The United Nations give the corpus without warranty and without liability, and their "
            "privileges and immunities stay untouched. Whoever uses it acknowledges the United "
            "Nations as the source and cites Ziemski, Junczys-Dowmunt and Pouliquen, LREC 2016."
        ),
        ask=True,
        size="about 8 GB in 9 files, about 28 GB on disk",
        archives=(
            bitext("en-es", 2),
            bitext("en-fr", 3),
            bitext("en-ru", 3),
            Archive((part("UNv1.0.testsets.tar.gz"),), held_out, _GB),
        ),
        elsewhere="opus.nlpl.eu has the bitexts as UNPC v1.0, with other file names",
    )


def _iwslt17() -> Dataset:
    folder = "DeEnItNlRo-DeEnItNlRo/"
    supervised = ("en-de", "en-it", "en-nl", "en-ro", "de-it", "de-ro", "it-nl", "nl-ro")
    members = [m for p in supervised for m in _bitext(p, f"train.tags.{p}.{{lang}}", folder)]
    for pair in (*supervised, "de-nl", "it-ro"):
        for year in ("dev2010", "tst2010"):
            members += _bitext(pair, f"IWSLT17.TED.{year}.{pair}.{{lang}}.xml", folder)
    path = "2017-01-trnmted/texts/DeEnItNlRo/DeEnItNlRo/DeEnItNlRo-DeEnItNlRo.tgz"
    revision = "ebd7c60d9800c2a1be010a227e5f0a2363730f7a"
    archive = Part(
        "DeEnItNlRo-DeEnItNlRo.tgz",
        (
            f"https://huggingface.co/datasets/IWSLT/iwslt2017/resolve/{revision}/data/{path}",
            f"https://wit3.fbk.eu/archive/{path}",
        ),
        329_331_279,
        "sha256:cebb3839b7580f8e4eecf66d75424caa29b9410a9a491a732b2d343626ee0243",
    )
    return Dataset(
        name="iwslt17",
        title="IWSLT 2017 multilingual TED task (de, en, it, nl, ro), dev2010 and tst2010",
        homepage="https://sites.google.com/site/iwsltevaluation2017/TED-tasks",
        licence=(
            "Subtitles of TED talks under Creative Commons BY-NC-ND: name TED, no commercial use, "
            "no altered copies passed on. Cite Cettolo, Girardi and Federico, EAMT 2012."
        ),
        ask=True,
        size="0.3 GB, about 0.5 GB on disk",
        archives=(Archive((archive,), tuple(members), 8 * _GB),),
        elsewhere=(
            "wit3.fbk.eu/2017-01 links a 2017-01-trnmted.tgz that holds this archive "
            "(below texts/; unpack it and use --files)"
        ),
    )


def _multi30k() -> Dataset:
    base = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
    checksums = {
        "train.cs.gz": "d9a5fc268917725a2b0efce3a0cc8607",
        "train.de.gz": "81ff90b99829c0cd4b1b587d394afd39",
        "train.en.gz": "0065d13af80720a55ca8153d126e6627",
        "train.fr.gz": "6cb767741dcad3931f966fefbc05203f",
        "val.cs.gz": "83cdc082f646b769095615384cf5c0ca",
        "val.de.gz": "6e0e229eb049e3fc99a1ef02fb2d5f91",
        "val.en.gz": "2b69aa9253948ac9f67e94917272dd40",
        "val.fr.gz": "93fc564584b7e5ba410c761ea5a1c682",
        "test_2016_flickr.cs.gz": "3104872229daa1bef3b401d44dd2220b",
        "test_2016_flickr.de.gz": "efd67d314d98489b716b145475101932",
        "test_2016_flickr.en.gz": "ff2c0fcb4893a13bd73414306bc250ae",
        "test_2016_flickr.fr.gz": "08dc7cd4a662f31718412de95ca9bfe3",
    }
    return Dataset(
        name="multi30k",
        title="Multi30k, task 1 (cs, de, en, fr), validation and 2016 Flickr test set",
        homepage="https://github.com/multi30k/dataset",
        licence=(
            "Captions of Flickr30k, which are for research and education without commercial use; "
            "the repository itself states no licence. Cite Elliott et al. 2016 and 2017 and "
            "Barrault et al. 2018."
        ),
        ask=True,
        size="about 2 MB in 12 files",
        archives=tuple(
            Archive(
                (Part(name, (base + name,), checksum=f"md5:{md5}"),),
                (Member(name, (name,)),),
                10**8,
            )
            for name, md5 in checksums.items()
        ),
    )


DATASETS = {item.name: item for item in (_europarl(), _un(), _iwslt17(), _multi30k())}

"""Settings of the pool that contradict each other."""

from accord.config.objectives import CompleteConfig
from accord.errors import AccordError


def check(config: CompleteConfig) -> None:
    """Refuse what no single key shows to be wrong."""
    search, teacher = config.search, config.teacher
    if search.nbest > search.beam:
        raise _refused(
            "search.nbest",
            f"a beam of {search.beam} finds no {search.nbest} translations",
            "give a larger search.beam",
        )
    if config.select == "agreement" and search.nbest < 2:
        raise _refused(
            "select",
            "agreement chooses between translations, but there is only one",
            "give search.nbest and search.beam of 2 or more",
        )
    if config.select == "agreement" and teacher.vote > 0:
        raise _refused(
            "select",
            "both sides are heard twice: in the search (teacher.vote) and in the choice",
            "use one of the two",
        )
    if teacher.run is not None and teacher.kind != "frozen":
        raise _refused(
            "teacher.run",
            f"another run cannot teach where the teacher is {teacher.kind}",
            "use teacher.kind frozen, or leave teacher.run out",
        )
    if teacher.run is None and teacher.checkpoint != "best":
        raise _refused(
            "teacher.checkpoint",
            "it chooses between the checkpoints of another run, but none is to teach",
            "name it (teacher.run), or leave teacher.checkpoint out",
        )


def _refused(key: str, what: str, fix: str) -> AccordError:
    return AccordError(what, where=f"objective.complete.{key}", fix=fix)

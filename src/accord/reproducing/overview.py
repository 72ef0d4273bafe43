"""A plan in words: stages, commands, hours, disk. Nothing is done."""

from collections.abc import Iterator

from accord.fetching.catalogue import dataset
from accord.reproducing.estimates import ASSUMPTIONS, disk, hours
from accord.reproducing.plan import Plan


def overview(plan: Plan, speed: float | None = None) -> str:
    """What would be done, and what has been."""
    return "\n".join(_lines(plan, speed)) + "\n"


def _lines(plan: Plan, speed: float | None) -> Iterator[str]:
    yield f"{plan.setting.name}, {plan.scale} scale: {len(plan.stages)} stages, to {plan.directory}"
    total = left = 0.0
    for number, stage in enumerate(plan.stages, start=1):
        time, done = hours(stage, plan, speed), stage.done()
        total += time
        left += 0.0 if done else time
        said = "done" if done else _time(time)
        yield f"\n{number}. {plan.title(stage)}{f' [{said}]' if said else ''}"
        yield f"   {stage.command}"
    yield f"\nThen {plan.page} is written."
    needed = disk(plan)
    rest = f", of which {_time(left) or 'hardly any'} is still to come" if left < total else ""
    yield f"\nTime: {_time(total) or 'minutes'}{rest}. {ASSUMPTIONS}"
    yield (
        f"Disk: data {dataset(plan.setting.dataset).size} (below {plan.data}); stores about "
        f"{needed.stores:.1f} GB, checkpoints about {needed.runs:.1f} GB (below {plan.directory})."
    )


def _time(hours: float) -> str:
    """`about 3.4 hours`, `about 12 minutes`; nothing for what takes no time worth naming."""
    minutes = 60 * hours
    if minutes < 0.5:
        return ""
    return f"about {hours:.1f} hours" if hours >= 1 else f"about {minutes:.0f} min"

"""A sequential colour map that the colour-blind can read, and text that is legible on it."""

# Steps of cividis, from dark to bright: evenly brighter to every kind of eye.
_CIVIDIS = (
    "#00224e",
    "#123570",
    "#3b496c",
    "#575d6d",
    "#707173",
    "#8a8678",
    "#a59c74",
    "#c3b369",
    "#e1cc55",
    "#fee838",
)


def colour(share: float) -> str:
    """The colour at `share` of the way from dark (0) to bright (1)."""
    place = min(max(share, 0.0), 1.0) * (len(_CIVIDIS) - 1)
    low = min(int(place), len(_CIVIDIS) - 2)
    ends = zip(_parts(_CIVIDIS[low]), _parts(_CIVIDIS[low + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (place - low)):02x}" for a, b in ends)


def text_on(background: str) -> str:
    """Black or white, whichever is easier to read: the contrast is always above 4.5."""
    light = luminance(background) + 0.05
    return "#000000" if light / 0.05 > 1.05 / light else "#ffffff"


def luminance(shade: str) -> float:
    """Relative luminance as the Web Content Accessibility Guidelines define it."""
    linear = []
    for part in _parts(shade):
        value = part / 255
        linear.append(value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4)
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def gradient(*, bright_first: bool = False) -> str:
    """The whole map from left to right, as a CSS background."""
    steps = _CIVIDIS[::-1] if bright_first else _CIVIDIS
    return f"linear-gradient(to right, {', '.join(steps)})"


def _parts(shade: str) -> tuple[int, int, int]:
    return int(shade[1:3], 16), int(shade[3:5], 16), int(shade[5:7], 16)

"""Documents: text inside HTML, office files, subtitles and the like, translated in its place."""

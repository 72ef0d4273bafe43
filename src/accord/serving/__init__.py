"""A trained model as an HTTP service: LibreTranslate's interface, batching, limits, a page."""

"""A Transformer as a model of CTranslate2."""

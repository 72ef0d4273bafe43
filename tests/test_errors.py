import pickle

from accord.errors import AccordError


def test_an_error_says_where_what_and_how_to_mend_it():
    error = AccordError("no such key 'x'", where="a.yaml, line 3", fix="use 'y'")
    assert str(error) == "a.yaml, line 3: no such key 'x'\n  fix: use 'y'"
    assert str(AccordError("only this")) == "only this"


def test_an_error_survives_the_way_from_a_worker_process():
    error = pickle.loads(pickle.dumps(AccordError("a", where="b", fix="c")))
    assert (error.what, error.where, error.fix) == ("a", "b", "c")

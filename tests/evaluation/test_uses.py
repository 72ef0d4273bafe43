"""RUN/scored.jsonl: every look at the sentences of a set is counted, and none gets lost."""

from dataclasses import replace

from accord.evaluation.folder import evaluation_directory, read
from accord.evaluation.uses import FILE, counted, note, read_uses, uses_of
from made_runs import LINES, make_run


def evaluated(run, name="test-beam4"):
    return read(evaluation_directory(run, name))


def test_every_evaluation_is_noted(tmp_path):
    run = make_run(tmp_path / "run")
    make_run(run)  # again: its figures replace the others, the note stays
    make_run(run, name="test-beam4-first10", limit=10)
    make_run(run, name="dev-beam4", split="dev")
    found = counted(read_uses(run))
    assert [(x.split, x.first, x.last, len(uses)) for x, uses in found.items()] == [
        ("test", 1, LINES, 2),
        ("test", 1, 10, 1),
        ("dev", 1, LINES, 1),
    ]
    use = read_uses(run)[0]
    assert (use.set, use.evaluation, use.checkpoint, use.step) == ("all", "test-beam4", "best", 400)
    assert use.options["beam"] == 4
    assert use.options["pivot"]
    assert not use.options["ensemble"]
    assert use.date == read_uses(run)[0].date


def test_lines_and_references_tell_sentences_apart(tmp_path):
    whole = evaluated(make_run(tmp_path / "whole"))
    later = evaluated(make_run(tmp_path / "later", lines=(11, 20)))
    other = evaluated(make_run(tmp_path / "other", seed=1))
    again = evaluated(make_run(tmp_path / "again", lost=0.1))  # other translations
    (a,), (b,), (c,), (d,) = map(uses_of, (whole, later, other, again))
    assert (b.first, b.last) == (11, 20)
    assert len({a.references, b.references, c.references}) == 3
    assert a.references == d.references


def test_a_line_that_a_crash_cut_off_spoils_no_other(tmp_path):
    run = make_run(tmp_path / "run")
    file = run / FILE
    file.write_bytes(file.read_bytes() + file.read_bytes()[:25] + b"\xc3")
    assert len(read_uses(run)) == 1
    note(run, uses_of(evaluated(run)))
    assert len(read_uses(run)) == 2
    assert file.read_bytes().endswith(b"}\n")


def test_a_run_of_before_has_nothing_noted(tmp_path):
    run = make_run(tmp_path / "run")
    (run / FILE).unlink()
    assert read_uses(run) == []
    note(run, [replace(use, step=7) for use in uses_of(evaluated(run))])
    assert [use.step for use in read_uses(run)] == [7]

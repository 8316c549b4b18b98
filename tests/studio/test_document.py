"""The study file as a document: comments stay, nothing made outside is lost, every state comes back."""

import difflib
import tomllib

import pytest

pytest.importorskip("tomlkit", reason="the studio is not installed: pip install 'kapitza[studio]'")
pytest.importorskip("nicegui", reason="the studio is not installed: pip install 'kapitza[studio]'")

import kapitza as kz
from kapitza.errors import DataError
from kapitza.recordings import copy_recording
from kapitza.studio.document import Change, Document
from kapitza.studio.fields import keeps_entry
from kapitza.studio.session import seen_outside
from kapitza.study import write_new_study


@pytest.fixture
def document(tmp_path):
    return Document(write_new_study(copy_recording("shaker", tmp_path)))


def lines_changed(before, after):
    found = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    return sum(line.startswith("- ") for line in found), sum(line.startswith("+ ") for line in found)


def test_an_unchanged_study_is_unchanged_to_the_byte(document):
    before = document.path.read_bytes()
    document.set(("fit", "method"), "auto")
    assert document.path.read_bytes() == before
    assert not document.can_undo


def test_three_keys_change_three_lines_and_no_comment(document):
    before = document.text
    document.set_all({("fit", "method"): "shooting", ("model", 0, "parameters", "c", "value"): 2.5, ("seed",): 4})
    assert lines_changed(before, document.text) == (3, 3)
    assert [line for line in before.splitlines() if line.startswith("#")] == [
        line for line in document.text.splitlines() if line.startswith("#")
    ]
    assert '# or "shooting"' in document.text
    content = tomllib.loads(document.path.read_text())
    assert (content["fit"]["method"], content["model"]["parameters"]["c"]["value"], content["seed"]) == (
        "shooting",
        2.5,
        4,
    )
    assert kz.read_study(document.path).methods == ("shooting",)


def test_undo_and_redo_give_every_state_back(document):
    states = [document.text]
    for value in ("shooting", "harmonic", "auto"):
        document.set(("fit", "method"), value)
        states.append(document.text)
    for state in states[-2::-1]:
        document.undo()
        assert document.path.read_text() == state
    assert not document.can_undo
    for state in states[1:]:
        document.redo()
        assert document.path.read_text() == state
    assert not document.can_redo


def test_tables_are_made_removed_and_repeated(document):
    document.set(("fit", "bounds", "c"), [0.0, 5.0])
    document.set(("data", 0, "hold_back"), [[1.0, 2.0]])
    document.set(("model", 1), {"name": "second", "library": "duffing"})
    assert [table.get("name") for table in document.tables("model")] == [None, "second"]
    assert document.get("model", 1, "library") == "duffing"
    document.set(("model", 1), None)
    document.set(("fit", "bounds", "c"), None)
    assert len(document.tables("model")) == 1
    assert "c" not in document.get("fit", "bounds", default={})
    assert document.get("data", 0, "hold_back") == [[1.0, 2.0]]


def test_an_edit_outside_is_kept_beside_one_here(document):
    document.path.write_text(document.text.replace("seed = 0", "seed = 7"))
    change = document.set(("fit", "method"), "shooting", by="window")
    assert (document.get("seed"), document.get("fit", "method")) == (7, "shooting")
    assert change.places == ()
    assert change.message == ""
    document.undo()
    assert (document.get("seed"), document.get("fit", "method")) == (7, "auto")
    document.undo()
    assert document.get("seed") == 0


def test_both_edit_one_key_the_later_wins_and_it_is_said(document):
    document.path.write_text(document.text.replace("seed = 0", "seed = 7"))
    change = document.set(("seed",), 9)
    assert document.get("seed") == 9
    assert "seed = 7" in change.message
    document.undo()
    assert document.get("seed") == 7


def test_a_file_that_cannot_be_parsed_is_not_written_over(document):
    document.path.write_text(document.text + "\n[[[")
    with pytest.raises(DataError, match="until it is mended"):
        document.set(("seed",), 9)
    assert document.path.read_text().endswith("[[[")
    assert document.get("seed") == 0
    document.replace(document.text.removesuffix("\n[[["))
    document.set(("seed",), 9)
    assert document.get("seed") == 9


def test_a_broken_file_is_not_said_to_be_shown(document):
    document.path.write_text(document.text.replace("seed = 0", "seed = 5"))
    assert document.refresh()
    assert seen_outside(document).endswith("is shown anew.")
    document.path.write_text(document.text + "\n[[[")
    assert document.refresh()
    assert "cannot be read" in seen_outside(document)
    assert "shown anew" not in seen_outside(document)
    assert document.get("seed") == 5


def test_a_refused_entry_stays_until_its_own_key_is_changed():
    assert keeps_entry('"3..5" is not a number', 0.08, 0.08)
    assert not keeps_entry('"3..5" is not a number', 0.09, 0.08)
    assert not keeps_entry("", 0.08, 0.08)


def test_a_file_that_an_editor_has_just_emptied_is_read_when_it_is_written(document, monkeypatch):
    """An editor that writes in place empties the file first; a look in between must not take it for the study."""
    written = document.text.replace("seed = 0", "seed = 5")
    document.path.write_text("")
    monkeypatch.setattr("kapitza.studio.document.time.sleep", lambda seconds: document.path.write_text(written))
    assert document.refresh()
    assert document.get("seed") == 5
    assert document.text == written


def test_a_file_that_stays_empty_is_empty(document, monkeypatch):
    looks = []
    monkeypatch.setattr("kapitza.studio.document.time.sleep", looks.append)
    document.path.write_text("")
    assert document.refresh()
    assert document.tables("model") == []
    assert looks


def test_a_file_that_is_gone_is_reported(document):
    document.path.unlink()
    with pytest.raises(DataError, match="not there any more"):
        document.set(("seed",), 1)


def test_line_ends_and_strange_names_survive(tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(b'title = "x" # note\r\n[fit]\r\n# none\r\n')
    document = Document(path)
    evil = '<img src=x onerror="alert(1)">\n"""\u202e'
    document.set(("title",), evil)
    assert tomllib.loads(path.read_bytes().decode())["title"] == evil
    assert b"[fit]\r\n# none\r\n" in path.read_bytes()


def test_a_change_knows_what_it_touches():
    change = Change((("model", 0, "parameters", "c", "value"),))
    assert change.touches("model", 0, "parameters", "c")
    assert change.touches("model", 0, "parameters", "c", "value")
    assert not change.touches("model", 1)
    assert not change.touches("fit")
    assert Change().touches("fit")

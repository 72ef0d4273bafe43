"""Files through the server: translated, kept for a while, within limits, beside other requests."""

import os
import shutil
import socket
import tempfile
import threading

import httpx
import pytest

from accord.serving import file_folder
from accord.serving.file_folder import FileFolder, temporary_folder
from document_cases import docx, run, unzipped
from serving_fakes import FakeTranslator, Running, ask, request_bytes, until


@pytest.fixture(scope="module")
def server():
    with Running(batch_delay=0, max_file=20_000, max_file_characters=1000) as made:
        yield made


def send(server, name="note.txt", content=b"Eins. Zwei.", status=200, **fields):
    fields = {"source": "de", "target": "fr", **fields}
    files = {"file": (name, content)} if name else {"other": ("x", b"")}
    answer = httpx.post(f"{server.url}/translate_file", data=fields, files=files, timeout=60)
    assert answer.status_code == status, answer.text
    if status == 200:
        assert set(answer.json()) == {"translatedFileUrl"}
        return httpx.get(answer.json()["translatedFileUrl"])
    assert set(answer.json()) == {"error"}
    return answer.json()["error"]


def test_a_file_goes_in_and_its_translation_is_fetched(server):
    found = send(server)
    assert found.content == b"fr: Eins. fr: Zwei."
    assert found.headers["content-disposition"] == "attachment; filename*=UTF-8''note_fr.txt"
    assert found.headers["content-type"] == "application/octet-stream"
    body = f"<w:p>{run('Das ist das ')}{run('Haus', '<w:b/>')}</w:p>"
    made = unzipped(send(server, "a b.DOCX", docx(body)).content)["word/document.xml"].decode()
    assert '<w:b/></w:rPr><w:t xml:space="preserve">Haus</w:t>' in made
    german = b"<p>Das ist ein ganz normaler deutscher Satz.</p>"
    assert send(server, "x.html", german, source="auto").content.startswith(b"<p>fr: Das")
    assert send(server, "x.html", german, source="auto", target="de").content == german
    assert send(server, "x.html", german, via="en").content.startswith(b"<p>fr: en: Das")
    assert send(server, "x.txt", b"").content == b""
    through = httpx.post(
        f"{server.url}/translate_file",
        data={"target": "fr"},
        files={"file": ("x.txt", b"Eins")},
        headers={"X-Forwarded-Proto": "https", "Host": "example.org"},
    )
    address = through.json()["translatedFileUrl"]
    assert address.startswith("https://example.org/download_file/")


@pytest.mark.parametrize(
    ("status", "asked", "words"),
    [
        (400, {"name": None}, "'file' is missing"),
        (400, {"target": ""}, "'target' is missing"),
        (400, {"target": "xx"}, "target 'xx' is not known"),
        (400, {"via": "fr"}, "name a third language"),
        (400, {"name": "x.pdf"}, "'.pdf' cannot be translated: use one of"),
        (400, {"name": "x.docx"}, "no whole, readable ZIP"),
        (400, {"content": b"\xff"}, "save the file in UTF-8"),
        (413, {"content": b"x" * 1001}, "1001 characters of text, and no more than 1000"),
        (413, {"content": b"x" * 20_001}, "larger than 20,000 bytes"),
        (413, {"content": b"x" * 90_000}, "larger than 85,536 bytes"),
        (500, {"content": b"poison"}, "internal error"),
    ],
)
def test_files_that_are_refused(server, status, asked, words):
    assert words in send(server, status=status, **asked)


def test_a_file_comes_in_a_form(server):
    answer = httpx.post(f"{server.url}/translate_file", json={"target": "fr"})
    assert (answer.status_code, "send multipart/form-data" in answer.text) == (400, True)


def test_keys_and_servers_that_take_no_files():
    with Running(batch_delay=0, api_keys=("geheim",)) as server:
        assert "key is missing" in send(server, status=403)
        assert send(server, api_key="geheim").content == b"fr: Eins. fr: Zwei."
    with Running(batch_delay=0, max_file=0) as server:
        assert "no files" in send(server, status=403)
        settings = httpx.get(f"{server.url}/frontend/settings").json()
        assert (settings["filesTranslation"], settings["supportedFilesFormat"]) == (False, [])


@pytest.mark.parametrize(
    "name",
    [
        "../../../etc/passwd.txt",
        "..\\..\\boot.txt",
        "/etc/x.txt",
        "a\0b.txt",
        ".txt.txt",
        "é ü.txt",
    ],
)
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    folder = FileFolder(tmp_path / "files")
    kept = folder.put(name, "fr", b"x")
    assert [path.name for path in (tmp_path / "files").iterdir()] == [kept]
    assert list(tmp_path.iterdir()) == [tmp_path / "files"]
    shown, content = folder.get(kept)
    assert content == b"x"
    assert shown.endswith("_fr.txt")


def test_only_files_that_were_put_there_are_given_away(server, tmp_path):
    (tmp_path / "secret").write_text("secret")
    folder = FileFolder(tmp_path / "files")
    (tmp_path / "files").mkdir()
    for name in ("../secret", "", ".", "..", "x", f"{'0' * 32}.x/../../secret", f"{'0' * 32}.a"):
        assert folder.get(name) is None
    for path in ("..%2f..%2fetc%2fpasswd", "../../etc/passwd", "%2e%2e", "x" * 500, "%00"):
        sent = f"GET /download_file/{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        status, _, body = ask(server.port, sent)
        assert status == 404
        assert b"error" in body


def test_files_go_when_they_are_old_or_too_many(tmp_path, monkeypatch):
    folder = FileFolder(tmp_path)
    old, new = (folder.put(f"{x}.txt", "fr", bytes(100)) for x in "ab")
    os.utime(tmp_path / old, (1, 1))
    folder.sweep()
    assert folder.get(old) is None
    assert folder.get(new) is not None
    monkeypatch.setattr(file_folder, "MAX_KEPT", 250)
    os.utime(
        tmp_path / new, (os.stat(tmp_path / new).st_atime, os.stat(tmp_path / new).st_mtime - 9)
    )
    newer = [folder.put("c.txt", "fr", bytes(100)) for _ in range(2)]
    assert folder.get(new) is None
    assert all(folder.get(name) for name in newer)


def test_what_a_killed_server_left_is_cleared_up(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary_folder() as living:
        left = tmp_path / ".accord-files.abcdefgh"
        shutil.copytree(living, left)
        (left / "x").write_bytes(b"x")
        with temporary_folder() as other:
            assert set(tmp_path.iterdir()) == {living, other}
    assert list(tmp_path.iterdir()) == []


def test_workers_share_one_folder_and_a_server_alone_leaves_none(tmp_path):
    folder = str(tmp_path)
    with (
        Running(batch_delay=0, file_folder=folder) as one,
        Running(batch_delay=0, file_folder=folder) as two,
    ):
        url = str(send(one).url)
        assert httpx.get(url.replace(one.url, two.url)).content == b"fr: Eins. fr: Zwei."
        assert len(list(tmp_path.iterdir())) == 1


def in_background(function, *arguments, **named):
    found = []
    thread = threading.Thread(target=lambda: found.append(function(*arguments, **named)))
    thread.start()
    return thread, found


def test_others_are_served_while_a_file_is_translated():
    translator = FakeTranslator()
    with Running(translator, batch_delay=0, batch_size=4, queue=300) as server:
        translator.go.clear()
        content = "\n".join(f"Satz {i}" for i in range(60)).encode()
        thread, found = in_background(send, server, content=content)
        until(lambda: server.figure("accord_open_requests") == 1 and translator.threads)
        asked = {"q": "Eilig.", "source": "de", "target": "fr"}
        other, answers = in_background(httpx.post, f"{server.url}/translate", json=asked)
        until(lambda: server.figure("accord_waiting_sentences") == 1)
        translator.go.set()
        thread.join(30)
        other.join(30)
        assert answers[0].json() == {"translatedText": "fr: Eilig."}
        assert found[0].content.count(b"fr: Satz") == 60
        texts = [batch[0] for batch in translator.batches]
        assert "Eilig." in texts[1]  # behind the batch that was being computed, and no later
        assert max(map(len, texts)) == 4
        assert len(texts) > 10


def test_only_so_many_files_at_once_and_none_in_the_end():
    translator = FakeTranslator()
    with Running(translator, batch_delay=0) as server:
        translator.go.clear()
        sending = [in_background(_post, server) for _ in range(4)]
        until(lambda: server.figure("accord_open_requests") == 4)
        until(lambda: bool(translator.threads))
        refused = _post(server)
        assert refused.status_code == 429
        assert refused.headers["retry-after"]
        server.server.drain("the test is over")
        translator.go.set()
        for thread, _ in sending:
            thread.join(30)
        statuses = sorted(found[0].status_code for _, found in sending)
        # A batch that is done at the end of a file ends it; what has more to come is sent away.
        assert set(statuses) <= {200, 503}
        assert 503 in statuses


def _post(server):
    content = "\n".join(f"Satz {i}" for i in range(100)).encode()
    return httpx.post(
        f"{server.url}/translate_file",
        data={"source": "de", "target": "fr"},
        files={"file": ("x.txt", content)},
        timeout=60,
    )


def test_a_file_whose_client_is_gone_is_given_up():
    translator = FakeTranslator()
    with Running(translator, batch_delay=0, batch_size=1) as server:
        translator.go.clear()
        body = (
            b'--x\r\nContent-Disposition: form-data; name="target"\r\n\r\nfr\r\n'
            b'--x\r\nContent-Disposition: form-data; name="source"\r\n\r\nde\r\n'
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
            + b"Satz\n" * 50
            + b"\r\n--x--\r\n"
        )
        kind = "multipart/form-data; boundary=x"
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(request_bytes(body, "/translate_file", kind))
            until(lambda: bool(translator.threads))
        until(lambda: server.figure("accord_open_requests") == 0)
        translator.go.set()
        until(lambda: '"status": 499' in server.lines.text)
        assert len(translator.batches) <= 1


def test_a_file_that_takes_too_long_is_given_up():
    with Running(
        FakeTranslator(delay=0.05), batch_delay=0, batch_size=1, file_timeout=0.2
    ) as server:
        answer = _post(server)
        assert (answer.status_code, "0.2 seconds" in answer.text) == (504, True)


def test_the_log_names_no_files():
    with Running(batch_delay=0) as server:  # in the log of a shared one others' lines come first
        send(server, "Geheimnis.txt")
        until(lambda: len(server.lines.facts()) == 2)
        assert "Geheimnis" not in server.lines.text
        facts = {fact["path"]: fact for fact in server.lines.facts()}
    assert set(facts) == {"/translate_file", "/download_file"}
    assert {"source", "target", "characters", "sentences"} <= set(facts["/translate_file"])

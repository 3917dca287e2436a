"""`lookalike push` against a stand-in for the hub's HTTP interface on this machine, and the model card."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from huggingface_hub import constants

from lookalike.cli import run as main
from lookalike.errors import FileError
from lookalike.export.hub import push_to_hub
from lookalike.export.model_card import model_card
from lookalike.models.checkpoint import load_model

from .conftest import build_small

COMMIT = "0" * 40
ACCOUNT = {
    "name": "Somebody",
    "orgs": [{"name": "museum", "roleInOrg": "write"}, {"name": "readers", "roleInOrg": "read"}],
    "auth": {"accessToken": {"role": "write"}},
}


class StandIn(BaseHTTPRequestHandler):
    """The few routes that an upload and a download of a model use; files live in `server.files`."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append(f"POST {self.path}")
        if self.server.refuse:
            return self.answer({"error": "refused"}, code=self.server.refuse)
        if self.path == "/api/validate-yaml":
            if "license: my own" in json.loads(body)["content"]:
                return self.answer({"error": '"license" must be one of [...]'}, code=400)
            return self.answer({"errors": [], "warnings": []})
        if self.path == "/api/repos/create":
            self.server.created = json.loads(body)
            return self.answer({"url": f"{self.server.address}/somebody/toys"})
        if "/preupload/" in self.path:
            names = [file["path"] for file in json.loads(body)["files"]]
            return self.answer(
                {"files": [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]}
            )
        if "/commit/" in self.path:
            for line in body.decode().splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    self.server.files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            return self.answer(
                {"commitOid": COMMIT, "commitUrl": f"{self.server.address}/somebody/toys/commit/{COMMIT}"}
            )
        return self.answer({"error": self.path}, code=404)

    def do_GET(self):
        self.send_file(body=True)

    def do_HEAD(self):
        self.send_file(body=False)

    def send_file(self, *, body):
        self.server.asked.append(f"{self.command} {self.path}")
        if self.path == "/api/whoami-v2":
            if self.headers["Authorization"] != "Bearer hf_test":
                return self.answer({"error": "Invalid credentials in Authorization header"}, code=401)
            return self.answer(self.server.account)
        content = self.server.files.get(self.path.partition("/resolve/main/")[2])
        if content is None and self.path.startswith("/api/models/somebody/toys"):
            names = [{"rfilename": name} for name in self.server.files]
            return self.answer({"id": "somebody/toys", "sha": COMMIT, "siblings": names})
        if content is None:
            return self.answer({"error": "Entry not found"}, code=404, **{"X-Error-Code": "EntryNotFound"})
        self.send_response(200)
        for name, value in {
            "Content-Length": len(content),
            "ETag": f'"{hashlib.sha1(content).hexdigest()}"',
            "X-Repo-Commit": COMMIT,
        }.items():
            self.send_header(name, str(value))
        self.end_headers()
        if body:
            self.wfile.write(content)
        return None

    def answer(self, value, code=200, **headers):
        content = json.dumps(value).encode()
        self.send_response(code)
        for name, text in {
            "Content-Type": "application/json",
            "Content-Length": len(content),
            **headers,
        }.items():
            self.send_header(name, str(text))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    server.address = f"http://127.0.0.1:{server.server_address[1]}"
    server.files, server.asked, server.refuse, server.account = {}, [], 0, ACCOUNT
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def push(hub, run, in_this_process, monkeypatch, capsys):
    """The command with the stand-in as its hub; returns its exit code and what it prints."""
    for name in [name for name in os.environ if name.startswith("HF_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)

    def call(name, *words, token="hf_test"):
        monkeypatch.setenv("HF_TOKEN", token)
        code = main(["push", str(run), name, *words])
        return SimpleNamespace(code=code, **capsys.readouterr()._asdict())

    return call


def test_a_pushed_model_opens_by_its_name_of_the_hub(hub, push, tmp_path):
    """Its weights are random, which no license of the hub says."""
    done = push("somebody/toys")
    assert done.code == 0, done.err
    assert done.out.strip() == f"{hub.address}/somebody/toys"
    assert hub.created.get("private") is True or hub.created.get("visibility") == "private", hub.created
    assert sorted(hub.files) == ["README.md", "config.json", "model.safetensors"]
    assert "\nlicense: other\n" in hub.files["README.md"].decode()
    assert "name one with --license" in done.err
    program = (
        "from lookalike.models import build_embedder\n"
        "embedder = build_embedder('hf-hub:somebody/toys', embedding_dim=4)\n"
        "print(embedder.config.architecture.name, embedder.preprocessing.size, embedder.config.weights_origin)"
    )
    opened = subprocess.run(  # the client reads where the hub is when it is imported
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "hf")},
    )
    assert opened.returncode == 0, opened.stderr
    assert opened.stdout.split() == ["test_resnet", "64", "hf-hub:somebody/toys"]


def test_the_license_that_is_given_is_that_of_the_card(hub, push):
    done = push("museum/toys", "--license", "mit")
    assert done.code == 0, done.err
    assert "\nlicense: mit\n" in hub.files["README.md"].decode()
    assert "name one with --license" not in done.err


@pytest.mark.parametrize(
    ("code", "advice"), [(401, "hf auth login"), (403, "hf auth login"), (500, "try again")]
)
def test_a_hub_that_refuses_is_one_line(hub, push, code, advice):
    hub.refuse = code
    done = push("somebody/toys")
    assert done.code == 1
    assert re.search("the hub refuses the (upload|model card) of 'somebody/toys'", done.err)
    assert advice in done.err
    assert one_line(done.err)


def one_line(text):
    """Whether there is one line besides warnings."""
    return len([line for line in text.splitlines() if not line.startswith("warning: ")]) == 1


READER = ACCOUNT | {"auth": {"accessToken": {"role": "read"}}}


@pytest.mark.parametrize(
    ("name", "token", "account", "license_", "said"),
    [
        (
            "somebody/toys",
            "hf_old",
            ACCOUNT,
            None,
            r"Invalid user token.*[^.]; log in as somebody who may write there",
        ),
        ("somebody/toys", "hf_test", READER, None, "your token of the hub may only read; log in"),
        (
            "else/toys",
            "hf_test",
            ACCOUNT,
            None,
            "'Somebody', who .* of 'else', only of Somebody, museum; log in",
        ),
        ("readers/toys", "hf_test", ACCOUNT, None, "of 'readers', only of Somebody, museum"),
        ("museum/toys", "hf_test", ACCOUNT, "my own", "refuses the model card of 'museum/toys': .*license"),
    ],
)
def test_what_the_hub_would_refuse_is_found_before_anything_is_computed(
    hub, push, name, token, account, license_, said
):
    hub.account = account
    done = push(name, "--images", "no images", *(("--license", license_) if license_ else ()), token=token)
    assert done.code == 1
    assert re.search(said, done.err), done.err
    assert one_line(done.err)
    assert not [path for path in hub.asked if "create" in path or "commit" in path]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("toys", "'toys' has no owner; give OWNER/NAME"),
        ("some/body/toys", "'some/body/toys' is not the name of a repository"),
        ("some body/toys", "'some body/toys' is not the name of a repository"),
        ("somebody/", "'somebody/' is not the name of a repository"),
    ],
)
def test_a_wrong_name_is_refused_before_anything_is_read(name, said, capsys):
    assert main(["push", "no run", name]) == 1
    assert capsys.readouterr().err.startswith(f"error: {said}")


def test_without_a_token_nothing_is_tried(run, monkeypatch, capsys):
    monkeypatch.setattr("lookalike.export.hub.get_token", lambda: None)
    assert main(["push", "no run", "somebody/toys"]) == 1
    assert (
        "no model in 'no run'" in capsys.readouterr().err
    )  # what is wrong here is said before the hub is asked
    assert main(["push", str(run), "somebody/toys"]) == 1
    assert capsys.readouterr().err.startswith("error: nobody is logged in to the hub; log in")


def test_offline_nothing_is_tried(run, monkeypatch, capsys):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(FileError, match="HF_HUB_OFFLINE is set"):
        push_to_hub(run, "somebody/toys")
    assert main(["push", "no run", "somebody/toys"]) == 1  # said before anything is read
    assert capsys.readouterr().err.startswith("error: HF_HUB_OFFLINE is set")


def test_the_card_says_what_is_known_and_no_more(run):
    model, _ = load_model(run)
    card = model_card(run, "somebody/toys", model, agreement="12 images, the same")
    assert card.startswith("---\nlibrary_name: timm\n")
    assert "Not measured on test classes." in card
    assert "hf-hub:somebody/toys" in card
    assert "30 images of 3 classes of\ntoys" in card
    assert "{{" not in card
    assert "logits" in card
    (run / "data.json").unlink()
    assert "does not say which images" in model_card(run, "somebody/toys", model, agreement="")


def test_the_card_of_a_model_without_projection_speaks_of_none(run):
    card = model_card(run, "somebody/toys", build_small(embedding_dim=None), agreement="")
    assert "pooling\n`catavgmax`.\n" in card
    assert "`pooler_output` is the embedding" in card
    assert "logits" not in card

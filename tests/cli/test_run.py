"""`opkit run`: bad input gets one clear line and a defined exit status; signals end it in order."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest
import yaml

HANDLERS = """
import logging
import opkit

@opkit.reconcile("example.com", "v1", "widgets")
async def reconcile(name, patch):
    logging.getLogger("authors.own").info("hello")
    patch.status["seen"] = True
"""

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: w1, namespace: default}
spec: {n: 1}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "handlers.py").write_text(HANDLERS)
    (tmp_path / "manifests.yaml").write_text(DEFINITION)
    return tmp_path


def command(folder, *arguments, kubeconfig=None):
    environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    environment["HOME"] = str(folder / "nobody")
    if kubeconfig is not None:
        environment["KUBECONFIG"] = str(kubeconfig)
    return {"args": [sys.executable, "-m", "opkit", *arguments], "env": environment, "cwd": folder}


def run(folder, *arguments, kubeconfig=None, timeout=60):
    return subprocess.run(
        **command(folder, *arguments, kubeconfig=kubeconfig), capture_output=True, text=True, timeout=timeout
    )


@contextlib.contextmanager
def started(folder, *arguments, kubeconfig=None):
    """A process that is killed at the end if it still runs; what it says goes to `output`."""
    with open(folder / "output", "wb") as output:
        process = subprocess.Popen(
            **command(folder, *arguments, kubeconfig=kubeconfig), stdout=output, stderr=subprocess.STDOUT
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(10)


def wait_for(folder, text, timeout=30):
    """Wait until the process has said this; all that it said."""
    deadline = time.monotonic() + timeout
    while text not in (said := (folder / "output").read_text()):
        assert time.monotonic() < deadline, said
        time.sleep(0.05)
    return said


def kubeconfig_for(folder, server, token="wrong"):
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": token}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param([], "name a file with handlers", id="no-file"),
        pytest.param(["nofile.py"], "no such file or folder: nofile.py", id="no-such-file"),
        pytest.param(["handlers.py", "-A", "-n", "x"], "either --namespace or --all-namespaces", id="both-scopes"),
        pytest.param(["handlers.py", "--apply", "x"], "--apply is for the embedded server", id="apply-without"),
        pytest.param(["handlers.py", "--parallel", "0"], "0 is not in the range", id="no-parallel"),
        pytest.param(["handlers.py", "--trigger", ":0"], "--trigger needs --trigger-token FILE", id="no-token"),
        pytest.param(["handlers.py", "--no-such-flag"], "No such option", id="unknown-flag"),
    ],
)
def test_usage_errors_are_one_line_and_status_2(folder, arguments, expected):
    """What is wrong with the command itself is told in one line, with exit status 2."""
    result = run(folder, "run", *arguments)
    assert result.returncode == 2
    assert expected in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("import opkit\n\nimport nowhere_to_be_found\n", "handlers.py:3: ModuleNotFoundError", id="import"),
        pytest.param("def broken(:\n", "handlers.py:1: SyntaxError", id="syntax"),
        pytest.param("", "no handlers in handlers.py", id="no-handlers"),
    ],
)
def test_handlers_that_dont_load_are_told_with_the_authors_line(folder, source, expected):
    """A module that fails to import, or holds no handlers, is told in one line, with exit status 1."""
    (folder / "handlers.py").write_text(source)
    result = run(folder, "run", "handlers.py")
    assert result.returncode == 1
    assert expected in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_without_a_cluster_it_says_how_to_name_one(folder):
    """No kubeconfig and no service account: one line that says what to do, exit status 1."""
    result = run(folder, "run", "handlers.py")
    assert result.returncode == 1
    assert "name a kubeconfig file in KUBECONFIG" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("content", [pytest.param(None, id="missing"), pytest.param("{not: [yaml", id="broken")])
def test_a_kubeconfig_that_cant_be_read_is_told(folder, content):
    """A kubeconfig that is missing or broken is told in one line that names it."""
    path = folder / "config"
    if content is not None:
        path.write_text(content)
    result = run(folder, "run", "handlers.py", kubeconfig=path)
    assert result.returncode == 1
    assert str(path) in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_server_that_cant_be_reached_is_tried_on(folder):
    """It says so once, keeps trying, and ends in order when it is told to."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    config = kubeconfig_for(folder, f"http://127.0.0.1:{port}")
    with started(folder, "run", "handlers.py", kubeconfig=config) as process:
        wait_for(folder, "can't be asked what it serves")
        time.sleep(3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    said = (folder / "output").read_text()
    assert said.count("tried again until it answers") == 1
    assert "Traceback" not in said


def test_wrong_credentials_are_told(folder, embedded_cluster):
    """Credentials that the server refuses at the start: one line, exit status 1."""
    config = kubeconfig_for(folder, embedded_cluster.url)
    result = run(folder, "run", "handlers.py", "-q", kubeconfig=config)
    assert result.returncode == 1
    assert "refuses the credentials" in result.stderr
    assert str(config) in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_embedded_until_idle_shows_what_happened(folder):
    """It applies the manifests, reconciles, prints a table, and ends with status 0."""
    result = run(folder, "run", "handlers.py", "--embedded", "--apply", "manifests.yaml", "--until-idle")
    assert result.returncode == 0, result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["CONTROLLER", "OBJECT", "HANDLER", "RUNS", "LAST", "MESSAGE"]
    assert lines[1] == ["reconcile", "default/w1", "reconcile", "1", "success"]


def test_until_idle_with_a_failure_has_status_1(folder):
    """What fails for longer than a few retries is shown, and is the exit status."""
    (folder / "handlers.py").write_text(
        HANDLERS.replace('patch.status["seen"] = True', 'raise opkit.PermanentError("never")')
    )
    result = run(folder, "run", "handlers.py", "--embedded", "--apply", "manifests.yaml", "--until-idle", "-q")
    assert result.returncode == 1
    assert "failure" in result.stdout
    assert "never" in result.stdout


def test_embedded_state_in_a_file(folder):
    """With --data a second run finds the objects of the first, as it left them."""
    arguments = ["run", "handlers.py", "--embedded", "--data", "state.json", "--until-idle"]
    first = run(folder, *arguments, "--apply", "manifests.yaml")
    second = run(folder, *arguments)
    assert (first.returncode, second.returncode) == (0, 0)
    assert "default/w1" in second.stdout


@pytest.mark.parametrize(
    ("log_format", "check"),
    [
        pytest.param("plain", lambda line: line == "[default/w1] reconcile: hello", id="plain"),
        pytest.param("full", lambda line: line.endswith("[default/w1] reconcile: hello"), id="full"),
    ],
)
def test_log_formats_name_object_and_controller(folder, log_format, check):
    """Each line of a handler, from any logger, names the object and the controller."""
    result = run(
        folder, "run", "handlers.py", "--embedded", "--apply", "manifests.yaml", "--until-idle",
        "--log-format", log_format,
    )  # fmt: skip
    line = next(line for line in result.stderr.splitlines() if "hello" in line)
    assert check(line)


def test_json_logs_have_kopfs_keys(folder):
    """One JSON object a line: message, timestamp, severity, and the object's reference."""
    result = run(
        folder, "run", "handlers.py", "--embedded", "--apply", "manifests.yaml", "--until-idle",
        "--log-format", "json", "--log-refkey", "k8s",
    )  # fmt: skip
    records = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    record = next(record for record in records if record["message"] == "hello")
    assert record["severity"] == "info"
    assert record["controller"] == "reconcile"
    assert record["k8s"]["name"] == "w1"
    assert record["k8s"]["kind"] == "Widget"
    assert "timestamp" in record


SLOW = textwrap.dedent(
    """
    import asyncio, time
    import opkit

    @opkit.startup()
    def start(settings):
        settings.shutdown.grace = {grace}

    @opkit.shutdown()
    def stop():
        print("shut down", flush=True)

    @opkit.reconcile("example.com", "v1", "widgets")
    {handler}
    """
)


@pytest.mark.parametrize(
    ("grace", "handler", "expected"),
    [
        pytest.param(
            10,
            "async def reconcile(name):\n    print('in', flush=True)\n    await asyncio.sleep(1)\n"
            "    print('finished', flush=True)",
            ["finished", "shut down"],
            id="finishes-within-the-grace",
        ),
        pytest.param(
            0.5,
            "async def reconcile(name):\n    print('in', flush=True)\n    await asyncio.sleep(60)",
            ["reconcile on default/w1 did not end within 0.5 s", "shut down"],
            id="is-cancelled",
        ),
        pytest.param(
            0.5,
            "def reconcile(name):\n    print('in', flush=True)\n    time.sleep(60)",
            ["did not end within 0.5 s", "still runs in a thread", "shut down"],
            id="a-stuck-thread-is-left-behind",
        ),
        pytest.param(
            10,
            "def reconcile(stopping):\n    print('in', flush=True)\n    stopping.wait(60)\n"
            "    print('saw it', flush=True)",
            ["saw it", "shut down"],
            id="a-thread-sees-stopping",
        ),
    ],
)
def test_the_first_signal_stops_in_order(folder, grace, handler, expected):
    """Running handlers get their grace, what does not end is named, the shutdown handler runs, exit status 0."""
    (folder / "handlers.py").write_text(SLOW.format(grace=grace, handler=handler))
    with started(folder, "run", "handlers.py", "--embedded", "--apply", "manifests.yaml") as process:
        wait_for(folder, "in\n")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    said = (folder / "output").read_text()
    for text in expected:
        assert text in said


def test_the_second_signal_ends_it_at_once(folder):
    """Two signals: no grace, no shutdown handler, and the signal's exit status."""
    handler = "async def reconcile(name):\n    print('in', flush=True)\n    await asyncio.sleep(60)"
    (folder / "handlers.py").write_text(SLOW.format(grace=60, handler=handler))
    with started(folder, "run", "handlers.py", "--embedded", "--apply", "manifests.yaml") as process:
        wait_for(folder, "in\n")
        process.send_signal(signal.SIGINT)
        wait_for(folder, "Stopping on SIGINT")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 128 + signal.SIGINT
    assert "shut down" not in (folder / "output").read_text()


def test_a_startup_handler_that_fails_ends_it(folder):
    """The failure is told in one line with the handler's place, exit status 1."""
    (folder / "handlers.py").write_text(HANDLERS + "\n@opkit.startup()\ndef start():\n    raise ValueError('no')\n")
    result = run(folder, "run", "handlers.py", "--embedded", "-q")
    assert result.returncode == 1
    assert "the startup handler start" in result.stderr
    assert "ValueError: no" in result.stderr
    assert "Traceback" not in result.stderr


def test_liveness_and_triggers(folder):
    """The health is served where it is asked for, and so are triggers, with their token."""
    import urllib.error
    import urllib.request

    (folder / "token").write_text("secret\n")
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        health, triggers = one.getsockname()[1], two.getsockname()[1]
    arguments = [
        "run", "handlers.py", "--embedded", "--apply", "manifests.yaml", "--log-format", "plain",
        "--liveness", f"http://127.0.0.1:{health}/healthz",
        "--trigger", f":{triggers}", "--trigger-token", "token",
    ]  # fmt: skip

    def post(path, token):
        request = urllib.request.Request(
            f"http://127.0.0.1:{triggers}{path}", method="POST", headers={"Authorization": f"Bearer {token}"}
        )
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    with started(folder, *arguments) as process:
        wait_for(folder, "hello")
        with urllib.request.urlopen(f"http://127.0.0.1:{health}/healthz") as answer:
            body = json.load(answer)
        assert body["ok"] is True
        assert "stream of widgets.v1.example.com" in body["checks"]
        assert post("/reconcile/widgets/default/w1", "wrong") == 401
        assert post("/reconcile/widgets/default/nobody", "secret") == 404
        assert post("/reconcile/widgets/default/w1", "secret") == 202
        wait_for(folder, "(MANUAL)")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


HANGING = {
    "asyncs-thread": "@opkit.reconcile('v1', 'namespaces')\nasync def go():\n    print('in', flush=True)\n"
    "    await asyncio.to_thread(time.sleep, 60)\n",
    "own-thread": "@opkit.reconcile('v1', 'namespaces')\nasync def go():\n    print('in', flush=True)\n"
    "    threading.Thread(target=time.sleep, args=(60,)).start()\n",
    "poll": "@opkit.poll(of=('v1', 'namespaces'), interval=60)\ndef look():\n"
    "    print('in', flush=True)\n    time.sleep(60)\n",
    "startup": "@opkit.startup()\ndef begin():\n    print('in', flush=True)\n    time.sleep(60)\n",
    "retried-startup": "@opkit.startup()\ndef begin():\n    print('in', flush=True)\n"
    "    raise opkit.TemporaryError('not yet', delay=0.1)\n",
    "shutdown": "@opkit.reconcile('v1', 'namespaces')\nasync def go():\n    print('in', flush=True)\n"
    "@opkit.shutdown()\ndef end():\n    time.sleep(60)\n",
    "login": "@opkit.login()\ndef enter(**_):\n    print('in', flush=True)\n    time.sleep(60)\n",
}


@pytest.mark.parametrize("what", HANGING)
def test_whatever_hangs_the_process_ends(folder, what):
    """A second after the grace at most (and some, on a busy machine), named, with exit status 0."""
    head = "import asyncio, threading, time\nimport opkit\n@opkit.startup()\ndef configure(settings):\n"
    code = f"{head}    settings.shutdown.grace = 1\n{HANGING[what]}"
    if "opkit.reconcile" not in code:
        code += "@opkit.reconcile('v1', 'namespaces')\nasync def go(): ...\n"
    (folder / "handlers.py").write_text(code)
    with started(folder, "run", "handlers.py", "--embedded") as process:
        wait_for(folder, "in\n")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0

"""``nats://HOST/SUBJECT`` and ``natss://`` (TLS): every record as one message, through nats-py.

With ``stream=NAME`` a record is done when that stream of JetStream has stored it; its id is the message's, so that the
server discards one that is sent twice. Without it a record is done when the server has it, and nothing is stored.
"""

import asyncio
import contextlib
import json
import os
import re
from typing import Any, Dict, List, Optional

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks.broker import FILES, client, context
from edgeveil.edge_runtime.sinks.forms import FORMS, form_name
from edgeveil.edge_runtime.sinks.network_base import LOGIN, OPTIONS, TIMEOUT_S, ConnectionLost, NetworkSink
from edgeveil.edge_runtime.sinks.uri import LOOPBACK, Known, address, secret
from edgeveil.edge_runtime.sinks.wire import json_bytes

NO_TLS = "the server offers no TLS, and natss:// wants it"


def _word(text: str) -> str:
    """A subject or the name of a stream, of parts with dots between; raises ``BadInput``, also for wildcards."""
    if not re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", text) or len(text) > 200:
        raise BadInput("expected a subject as hall.door, of letters, digits, _, - and dots; got {!a}".format(text))
    return text


class NatsSink(NetworkSink):
    """Publishes to SUBJECT, and to SUBJECT.format, SUBJECT.status and SUBJECT.count."""

    schemes = ("nats", "natss")
    forms = ("nats://HOST[:4222]/SUBJECT", "natss://HOST[:4222]/SUBJECT")
    help = "a message; `stream=NAME`: stored by that stream of JetStream; `as=` as for HTTP"
    needs = ("nats",)
    reads = ("password_file", "token_file", "ca", "cert", "key")
    starttls = True

    def __init__(self, uri: str, outputs: List[Output], manifest: Optional[Manifest], settings: Dict[str, Any]) -> None:
        secure = uri.startswith("natss:")
        known: Known = dict(OPTIONS, user=str, password_file=str, token_file=str, stream=_word)
        known.update({"as": form_name}, **(FILES if secure else {}))
        self._host, port, path, options = address(uri, 4222, known)
        self._subject = _word(path[1:])
        self._nats = client("nats", "NATS needs nats-py", "nats")
        self._login = _login(options, safe=secure or self._host in LOOPBACK)
        self._tls = context(options) if secure else None
        where = "{}:{}".format("[{}]".format(self._host) if ":" in self._host else self._host, port)
        self._server = ("tls://" if secure else "nats://") + where
        form, self._stream = options.pop("as", None), options.pop("stream", None)
        self._form = FORMS[form](outputs, manifest) if form else None
        self._loop: Any = None
        self._errors: List[str] = []
        name = "{}://{}/{}".format("natss" if secure else "nats", where, self._subject)
        super(NatsSink, self).__init__(name, outputs, manifest, dict(settings, **options))

    def _connect(self) -> None:
        self._loop, self._errors = asyncio.new_event_loop(), []
        self._connection = client = self._nats.NATS()

        def user() -> str:
            # The library speaks on in the clear to a server that offers no TLS.
            if self._tls is not None and self._of_connection("ssl_object") is None:
                raise ConnectionLost(NO_TLS)
            return self._login.get("user") or ""

        async def note(error: Exception) -> None:
            self._errors.append(str(error))

        async def make_event() -> asyncio.Event:  # which belongs to the loop that runs
            return asyncio.Event()

        async def end() -> None:
            self._gone.set()

        self._gone = self._loop.run_until_complete(make_event())
        login: Dict[str, Any] = {name: self._login[name] for name in ("password", "token") if self._login.get(name)}
        if self._login.get("user") or self._tls is not None:
            login["user"] = user
        if self._tls is not None:
            login.update(tls=self._tls, tls_hostname=self._host)
        self._run(
            client.connect(self._server, allow_reconnect=False, error_cb=note, closed_cb=end, name="edgeveil", **login)
        )
        if self._tls is not None and self._of_connection("ssl_object") is None:
            raise ConnectionLost(NO_TLS)
        self._publish(".format", json_bytes(self._format.document))

    def _send(self, record: bytes) -> bool:
        counts = self._is_count(record)
        if counts:
            name, data = json.loads(record.decode("utf-8"))["id"], record
        else:
            one = self._format.decode(record)
            name, data = one.id, record if self._form is None else self._form.encode(one)
        if self._stream is None:
            self._publish(".count" if counts else "", data)
            return True
        headers = {"Nats-Msg-Id": name, "Nats-Expected-Stream": self._stream}
        subject = self._subject + ".count" * counts
        answer = self._run(self._connection.request(subject, data, timeout=TIMEOUT_S, headers=headers))
        problem = json.loads(answer.data.decode("utf-8")).get("error")
        if problem:
            what = "the stream {} does not take it ({})"
            raise ConnectionLost(what.format(self._stream, str(problem.get("description"))[:200]))
        return True

    def _send_status(self, document: Dict[str, Any]) -> None:
        self._publish(".status", json_bytes(document))

    def _publish(self, end: str, data: bytes) -> None:
        """Send a message, and wait until the server has it: it answers in order."""
        self._run(self._connection.publish(self._subject + end, data))
        self._run(self._connection.flush(TIMEOUT_S))
        if self._errors:
            cure = "let the user publish {0} and {0}.> there".format(self._subject)
            raise ConnectionLost("the server refuses it ({})".format(self._errors[0][:200]), cure)

    def _check(self) -> None:
        self._run(asyncio.sleep(0.01))  # the library answers the server's own questions
        if self._connection.is_closed:
            raise ConnectionLost("the server has gone")

    def _run(self, work: Any) -> Any:
        """The result of a coroutine of the library, run in this thread for ``TIMEOUT_S`` at most."""
        errors = self._nats.errors
        try:
            return self._loop.run_until_complete(self._until_gone(work))
        except (asyncio.TimeoutError, errors.TimeoutError):
            raise ConnectionLost("the server does not answer") from None
        except errors.NoRespondersError:
            cure = "make a stream there that has {0} and {0}.count, or leave stream= out".format(self._subject)
            raise ConnectionLost("no stream of JetStream takes {}".format(self._subject), cure) from None
        except errors.Error as error:
            said = " ".join(str(error).split())[:200]
            cure = LOGIN if "authoriz" in said.lower() else ""
            raise ConnectionLost("the server ends it ({})".format(said or type(error).__name__), cure) from None

    async def _until_gone(self, work: Any) -> Any:
        """The library goes on to wait for an answer of a server that has gone."""
        tasks = [asyncio.ensure_future(one) for one in (work, self._gone.wait())]
        try:
            await asyncio.wait(tasks, timeout=TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                return tasks[0].result()
            raise ConnectionLost("the server " + ("has gone" if tasks[1].done() else "does not answer"))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _of_connection(self, name: str) -> Any:
        """What asyncio has of the connection under the library's: its "socket" or "ssl_object"; None without one."""
        writer = getattr(getattr(self._connection, "_transport", None), "_io_writer", None)
        return None if writer is None else writer.get_extra_info(name)

    def _socket_now(self) -> Any:
        return self._of_connection("socket")

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        loop, self._loop = self._loop, None
        if loop is None:
            return
        try:
            if connection is not None and not connection.is_closed:
                with contextlib.suppress(Exception):
                    loop.run_until_complete(asyncio.wait_for(connection.close(), 1.0))
        finally:
            loop.close()


def _login(options: Dict[str, Any], *, safe: bool) -> Dict[str, Optional[str]]:
    """User, password and token of the options, of files and of the environment. Raises ``BadInput``."""
    user = options.pop("user", None) or os.environ.get("EDGEVEIL_NATS_USERNAME")
    given = os.environ.get("EDGEVEIL_NATS_PASSWORD"), os.environ.get("EDGEVEIL_NATS_TOKEN")
    password = secret(options.pop("password_file", None), given[0], "the password for NATS")
    token = secret(options.pop("token_file", None), given[1], "the token for NATS")
    if bool(password) != bool(user):
        raise BadInput("a user of NATS needs user=NAME and password_file=FILE, both")
    if (password or token) and not safe:
        raise BadInput("the secret would cross the network in the clear: use natss://")
    return {"user": user, "password": password, "token": token}

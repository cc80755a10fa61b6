"""A schema registry in this process, with the part of Confluent's interface that is used here, and the texts in it.

Each test makes its own; its server's thread ends with the test's block.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from barnabas_spark.pipeline.entry import RegistryAddress


class FakeRegistry:
    """Schemas by id, and the ids of each subject's versions."""

    def __init__(self, login: str | None = None) -> None:
        self.authorization: str | None = None
        self.login = login
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.url = ""

    @property
    def address(self) -> RegistryAddress:
        return RegistryAddress(self.url, self.login)

    def put(self, subject: str, schema: dict[str, Any]) -> int:
        """Gives the id, which is the same for the same schema. Ids begin at 256, to have two bytes that count."""
        known = next((number for number, each in self.schemas.items() if each == schema), 256 + len(self.schemas))
        self.schemas[known] = schema
        versions = self.subjects.setdefault(subject, [])
        if known not in versions:
            versions.append(known)
        return known

    def answer(self, method: str, path: str, body: bytes) -> dict[str, Any] | None:
        """The answer's JSON, or None for not found."""
        self.asked.append(f"{method} {path}")
        path, _, query = path.partition("?")
        match path.split("/")[1:]:
            case ["subjects", subject, "versions"] if method == "POST":
                return {"id": self.put(subject, json.loads(body))}
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                versions = self.subjects[subject]
                return {"id": versions[-1 if version == "latest" else int(version) - 1]}
            case ["schemas", "ids", number] if int(number) in self.schemas:
                schema = self.schemas[int(number)]
                if schema.get("schemaType") == "PROTOBUF" and query != "format=serialized":
                    return {**schema, "schema": "the text of a .proto file"}
                return schema
        return None


@contextmanager
def fake_registry(login: str | None = None) -> Iterator[FakeRegistry]:
    """A registry that runs until the block ends, and wants this login."""
    import base64

    registry = FakeRegistry(login)
    wanted = None if login is None else "Basic " + base64.b64encode(login.encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET", b"")

        def do_POST(self) -> None:
            self._answer("POST", self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, method: str, body: bytes) -> None:
            if self.headers["Authorization"] != wanted:
                status, found = 401, {"message": "who are you?"}
            else:
                answer = registry.answer(method, self.path, body)
                status, found = (404, {"message": "not there"}) if answer is None else (200, answer)
            told = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="fake-registry")
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

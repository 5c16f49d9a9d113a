"""An S3 server on loopback: versitygw where Go is there to build it, else moto, which it says aloud.

versitygw checks logins and checksums as a real store does; moto accepts any login, so a test of those needs versitygw.

Source: versitygw 1.8 (`posix --help`); AWS Signature Version 4; moto's server mode.
"""

import hashlib
import hmac
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

import httpx

from kafka_maintenance.servers.cache import cache_folder, locked
from kafka_maintenance.servers.errors import LocalStackError
from kafka_maintenance.servers.ports import LOOPBACK, bypass_proxy, check_port, listens
from kafka_maintenance.servers.process import start_child, wait_until
from kafka_maintenance.servers.service import Server
from kafka_maintenance.servers.workspace import Workspace

GATEWAY_MODULE = "github.com/versity/versitygw/cmd/versitygw"
GATEWAY_VERSION = "v1.8.0"
BUILD_TIMEOUT_S = 900
QUICK_BUILD = ("-gcflags=all=-N -l -dwarf=false", "-ldflags=-s -w")
"""The compiler optimizes nothing and writes nothing for a debugger, and its collector (GOGC) runs seldom: half the CPU time, for a store of small objects."""
REGION = "us-east-1"
Kind = Literal["versitygw", "moto"]


class ObjectStoreServer(Server):
    """An S3 server; a context manager that starts it and waits until it answers.

    `kind` says which one runs. Buckets are addressed by path; the region is us-east-1.
    """

    def __init__(
        self,
        workspace: Workspace | None = None,
        *,
        kind: Kind | None = None,
        port: int | None = None,
        access_key: str = "local",
        secret_key: str | None = None,
        name: str = "s3",
    ) -> None:
        """Describe a server; nothing is started.

        Args:
            workspace: where objects and logs go; None for a temporary folder that `stop` deletes.
            kind: which server; None for versitygw if it is built or can be, else moto.
            port: port on 127.0.0.1; None for a free one.
            access_key: login of the one user.
            secret_key: its password; None for a random one.
            name: name of its folder, its log and its record.
        """
        super().__init__(workspace, name=name, port=port)
        self._kind = kind
        self.access_key = access_key
        self.secret_key = secret_key or secrets.token_urlsafe(18)

    @property
    def kind(self) -> Kind:
        """Which server this is; decided at the first question."""
        if self._kind is None:
            self._kind = "versitygw" if gateway_program() else "moto"
        return self._kind

    @property
    def endpoint_url(self) -> str:
        """The address for a client: `http://127.0.0.1:<port>`."""
        return f"http://{LOOPBACK}:{self.port}"

    def start(self) -> Self:
        """Start it and wait until it answers.

        Raises:
            LocalStackError: versitygw was demanded and cannot be built; else what `start_child` and `wait_until` raise.
        """
        bypass_proxy()
        check_port(self.port, self.name)
        command, env = self._versitygw() if self.kind == "versitygw" else self._moto()
        self._child = child = start_child(self.workspace, self.name, command, env={**os.environ, **env})
        wait_until(
            lambda: listens(self.port),
            what=f"{self.kind} answers at {self.endpoint_url}",
            timeout_s=60,
            children=[child],
        )
        return self

    def create_bucket(self, bucket: str) -> str:
        """Create a bucket if it does not exist.

        Returns:
            Its URI, `s3://<bucket>`.

        Raises:
            LocalStackError: the server refused.
        """
        answer = httpx.put(f"{self.endpoint_url}/{bucket}", headers=self._signed_headers("PUT", f"/{bucket}"))
        if answer.status_code not in {200, 409}:
            raise LocalStackError(
                f"creating bucket {bucket!r} at {self.endpoint_url}: expected status 200, found {answer.status_code}:"
                f" {answer.text[:300]}; see {self.workspace.logs / self.name}.log"
            )
        return f"s3://{bucket}"

    def _versitygw(self) -> tuple[list[str], dict[str, str]]:
        program = gateway_program()
        if program is None:
            raise LocalStackError(
                f"starting versitygw {GATEWAY_VERSION}: it is not built and Go cannot build it here;"
                " install Go 1.25 or newer, or take kind='moto'"
            )
        folder = self.workspace.subfolder(self.name)
        objects, versions = folder / "objects", folder / "versions"
        objects.mkdir(exist_ok=True)
        versions.mkdir(exist_ok=True)
        sidecar = [] if _has_extended_attributes(objects) else ["--sidecar", str(self.workspace.subfolder("s3-meta"))]
        command = [
            *(str(program), "--port", f"{LOOPBACK}:{self.port}", "--region", REGION, "--quiet"),
            *("posix", *sidecar, "--versioning-dir", str(versions), str(objects)),
        ]
        return command, {"ROOT_ACCESS_KEY_ID": self.access_key, "ROOT_SECRET_ACCESS_KEY": self.secret_key}

    def _moto(self) -> tuple[list[str], dict[str, str]]:
        print(
            f"{self.name}: versitygw is not there (no Go to build it): moto stands in, which accepts any login",
            file=sys.stderr,
        )
        return [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(self.port)], {}

    def _signed_headers(self, method: str, path: str) -> dict[str, str]:
        """Headers of a request without body or query, signed by Signature Version 4."""
        now = datetime.now(UTC)
        stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        host = f"{LOOPBACK}:{self.port}"
        digest = hashlib.sha256(b"").hexdigest()
        canonical = (
            f"{method}\n{path}\n\nhost:{host}\nx-amz-content-sha256:{digest}\nx-amz-date:{stamp}\n\n"
            f"host;x-amz-content-sha256;x-amz-date\n{digest}"
        )
        scope = f"{day}/{REGION}/s3/aws4_request"
        to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = f"AWS4{self.secret_key}".encode()
        for part in (day, REGION, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
        return {
            "Host": host,
            "x-amz-content-sha256": digest,
            "x-amz-date": stamp,
            "Authorization": f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope},"
            f" SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}",
        }


def gateway_program(*, cache: Path | None = None, env: Mapping[str, str] | None = None) -> Path | None:
    """Versitygw's program: from the cache, else built by Go into the cache (about 1 CPU minute once).

    Returns:
        The program; None when it is not cached and there is no Go, or Go cannot build it.
    """
    environment = dict(os.environ if env is None else env)
    program = (cache or cache_folder(environment)) / "bin" / f"versitygw-{GATEWAY_VERSION}"
    go = shutil.which("go", path=environment.get("PATH", ""))
    if program.exists() or go is None:
        return program if program.exists() else None
    with locked(program.with_suffix(".lock")):
        if not program.exists():
            print(f"building versitygw {GATEWAY_VERSION} by `go install`, about one minute, once", file=sys.stderr)
            _build_gateway(go, program, environment)
    return program if program.exists() else None


def _build_gateway(go: str, program: Path, env: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix="build-", dir=program.parent) as folder:
        try:
            answer = subprocess.run(
                [go, "install", *QUICK_BUILD, f"{GATEWAY_MODULE}@{GATEWAY_VERSION}"],
                env={**env, "GOBIN": folder, "CGO_ENABLED": "0", "GOGC": "400"},
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
                timeout=BUILD_TIMEOUT_S,
            )
            error = answer.stderr.strip()[-400:]
        except (OSError, subprocess.TimeoutExpired) as failure:
            error = str(failure)
        built = Path(folder) / "versitygw"
        if built.exists():
            built.rename(program)
        else:
            print(f"building versitygw failed: {error}", file=sys.stderr)


def _has_extended_attributes(folder: Path) -> bool:
    try:
        os.setxattr(folder, "user.kafka-maintenance", b"1")
    except (OSError, AttributeError):
        return False
    os.removexattr(folder, "user.kafka-maintenance")
    return True

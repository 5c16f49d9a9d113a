"""Certificates for tests, and a ZooKeeper that demands them at its secure port."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from controller_core.adapters.zookeeper.session import ZooKeeperTls
from kafka_maintenance.servers import ZooKeeperServer
from kafka_maintenance.servers.ports import free_port

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8
PLAIN = serialization.NoEncryption()
SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """Issues certificates into files of a folder: `<name>.pem`, `<name>.key`, and both in `<name>-both.pem`."""

    def __init__(self, folder, name):
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.file = folder / f"{name}.pem"
        made = self._signed(self._name, self._key).add_extension(x509.BasicConstraints(True, None), critical=True)
        made = made.add_extension(SIGNS_CERTIFICATES, critical=True)
        self.file.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(PEM))

    def issue(self, name, *, host="127.0.0.1"):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        hosts = x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))])
        certificate = self._signed(subject, key).add_extension(hosts, critical=False).sign(self._key, hashes.SHA256())
        texts = {"pem": certificate.public_bytes(PEM), "key": key.private_bytes(PEM, PKCS8, PLAIN)}
        for kind, text in texts.items():
            (self.folder / f"{name}.{kind}").write_bytes(text)
        (self.folder / f"{name}-both.pem").write_bytes(texts["key"] + texts["pem"])

    def _signed(self, subject, key):
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            # Python 3.13 demands these two (RFC 5280, `ssl.VERIFY_X509_STRICT`).
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def issued(folder):
    """Certificates: `server`, `client`, `elsewhere` (for another host) of the authority `ours`; `stranger` of `theirs`."""
    ours, theirs = Authority(folder, "ours"), Authority(folder, "theirs")
    ours.issue("server")
    ours.issue("client")
    ours.issue("elsewhere", host="192.0.2.1")
    theirs.issue("stranger")
    return folder


def started(files, certificate):
    """A server that demands client certificates of `ours` at its secure port; its plain port is for the tests."""
    port = free_port()
    config = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "secureClientPort": str(port),
        "secureClientPortAddress": "127.0.0.1",
        "ssl.keyStore.location": str(files / f"{certificate}-both.pem"),
        "ssl.trustStore.location": str(files / "ours.pem"),
        "ssl.clientAuth": "need",
    }
    return SecureZooKeeperServer(port, config)


class SecureZooKeeperServer(ZooKeeperServer):
    """With the address of its secure port, for which the server's class has no use."""

    def __init__(self, port, config):
        super().__init__(config=config)
        self.secure_hosts = f"127.0.0.1:{port}"


def tls(files, ca="ours", certificate="client", **fields):
    return ZooKeeperTls(
        ca=str(files / f"{ca}.pem"),
        certificate=str(files / f"{certificate}.pem") if certificate else None,
        key=str(files / f"{certificate}.key") if certificate else None,
        **fields,
    )

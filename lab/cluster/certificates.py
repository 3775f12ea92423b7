"""The lab's certificate authority, and the certificates of the API server, its kubelet client and webhooks."""

from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from lab.site import Site


class Certificates:
    """The files below `<lab>/certificates`, all in PEM."""

    def __init__(self, site: Site) -> None:
        self.directory = site.directory / "certificates"
        self.authority = self.directory / "ca.crt"
        self.service_accounts = self.directory / "service-accounts.key"

    def certificate(self, name: str) -> Path:
        """Returns the file of the certificate chain of `name`."""
        return self.webhooks / "tls.crt" if name == "webhooks" else self.directory / f"{name}.crt"

    def key(self, name: str) -> Path:
        """Returns the file of the private key of `name`."""
        return self.webhooks / "tls.key" if name == "webhooks" else self.directory / f"{name}.key"

    @property
    def webhooks(self) -> Path:
        """The directory with the two files that a webhook server expects."""
        return self.directory / "webhooks"

    def create(self, site: Site) -> None:
        """Creates all keys and certificates."""
        self.webhooks.mkdir(parents=True)
        authority = trustme.CA(organization_name="heavylift lab")
        authority.cert_pem.write_to_path(self.authority)
        first_service = site.service_network.replace(".0/20", ".1")
        names = [site.address, "127.0.0.1", first_service, "kubernetes.default.svc", "localhost"]
        issued = {
            "api": authority.issue_cert(*dict.fromkeys(names)),
            "webhooks": authority.issue_cert(site.address),
            "kubelet-client": authority.issue_cert(
                "kube-apiserver", common_name="kube-apiserver", organization_name="system:masters"
            ),
        }
        for name, certificate in issued.items():
            certificate.private_key_pem.write_to_path(self.key(name))
            for index, blob in enumerate(certificate.cert_chain_pems):
                blob.write_to_path(self.certificate(name), append=index > 0)
        signing = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.service_accounts.write_bytes(
            signing.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )

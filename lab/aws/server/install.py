"""Puts the lab's operations in the place of moto's, and makes the user that the lab's credentials belong to."""

import os

# Read when moto's IAM is imported: with it, AWS' own policies such as AmazonEKSClusterPolicy exist.
os.environ.setdefault("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")

# isort: split
from moto.autoscaling import urls as autoscaling_urls
from moto.ec2 import urls as ec2_urls
from moto.eks import urls as eks_urls
from moto.iam import urls as iam_urls
from moto.iam.models import iam_backends
from moto.servicequotas import urls as quotas_urls
from moto.ssm import urls as ssm_urls

from lab.aws.credentials import ACCESS_KEY, ACCOUNT, SECRET_KEY, USER
from lab.aws.server.ec2.operations import LabEC2
from lab.aws.server.eks import LabEKS
from lab.aws.server.services.parameters import LabParameters
from lab.aws.server.services.quotas import LabServiceQuotas
from lab.aws.server.services.rights import LabIAM
from lab.aws.server.services.scaling import LabAutoScaling


def install() -> None:
    """Replaces moto's handlers of the services that the lab extends."""
    ec2_urls.url_paths["{0}/"] = LabEC2.dispatch
    ssm_urls.url_paths["{0}/$"] = LabParameters.dispatch
    quotas_urls.url_paths["{0}/$"] = LabServiceQuotas.dispatch
    autoscaling_urls.url_paths["{0}/$"] = LabAutoScaling.dispatch
    iam_urls.url_paths["{0}/$"] = LabIAM.dispatch
    eks_urls.url_paths.clear()
    eks_urls.url_paths["{0}/.*$"] = LabEKS.dispatch


def add_user() -> None:
    """Adds the user whose access key the lab gives out, with all rights, if it does not exist."""
    backend = iam_backends[ACCOUNT]["aws"]
    if USER in backend.users:
        return
    backend.create_user("us-east-1", user_name=USER)
    backend.attach_user_policy("arn:aws:iam::aws:policy/AdministratorAccess", USER)
    key = backend.create_access_key(USER)
    del backend.access_keys[key.physical_resource_id]
    key.access_key_id, key.secret_access_key = ACCESS_KEY, SECRET_KEY
    backend.access_keys[key.physical_resource_id] = key

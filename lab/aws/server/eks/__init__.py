"""EKS, in the place of moto's: clusters, node groups, add-ons, access entries and Pod Identity."""

from lab.aws.server.eks.access import Access
from lab.aws.server.eks.addons import Addons
from lab.aws.server.eks.clusters import Clusters
from lab.aws.server.eks.identity import PodIdentity
from lab.aws.server.eks.node_groups import NodeGroups


class LabEKS(Clusters, NodeGroups, Addons, Access, PodIdentity):
    """Each public method is an operation of the API, and its parameters and answers have the API's shape."""

"""Network, EKS cluster, two GPU nodes with EFA and a mirror, as a stack on AWS has them, without what runs on them."""

import pulumi
import pulumi_aws as aws

from components.aws.eks_cluster import EksCluster
from components.aws.eks_gpu_nodes import EksGpuNodes
from components.aws.eks_network import EksNetwork
from components.aws.weight_mirror import WeightMirror
from config.catalogue import CapacityKind

REGION, ZONES = "us-east-2", ("use2-az1", "use2-az2")

config = pulumi.Config("aws-test")
provider = aws.Provider("aws", region=REGION, default_tags={"tags": {"heavylift": "test"}})
options = pulumi.ResourceOptions(provider=provider)
network = EksNetwork("network", {"region": REGION, "zones": ZONES, "cidr": "10.0.0.0/16"}, options)
cluster = EksCluster(
    "eks",
    {
        "region": REGION,
        "version": "1.35",
        "subnet_ids": [network.subnets[zone] for zone in ZONES],
        "public_access_cidrs": ["203.0.113.0/24"],
    },
    options,
)
nodes = EksGpuNodes(
    "nodes",
    {
        "cluster_name": cluster.cluster_name,
        "vpc_id": network.vpc_id,
        "subnet_id": network.subnets[ZONES[0]],
        "security_group_id": cluster.security_group_id,
        "instance_type": "p5.48xlarge",
        "count": 2,
        "capacity": {"kind": CapacityKind(config.require("kind")), "id": config.require("reservation")},
        "efa": True,
    },
    options,
)
WeightMirror(
    "mirror", {"cluster_name": cluster.cluster_name, "namespace": "heavylift", "service_account": "stager"}, options
)
pulumi.export("cluster", cluster.cluster_name)
pulumi.export("group", nodes.node_group)

"""The addresses from which the API server reaches pods."""

from components.cluster.api import ClusterApi

_ENDPOINTS = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


def api_server_addresses(api: ClusterApi) -> list[str]:
    """Returns the addresses of the Service `kubernetes`, by which the API server proxies the request for the first
    token.

    Limit: where it reaches pods through konnectivity, the requests come from the agents' pods instead.
    Raises ClusterUnreachable.
    """
    slices = api.read(_ENDPOINTS, labelSelector="kubernetes.io/service-name=kubernetes").get("items") or []
    endpoints = (endpoint for each in slices for endpoint in each.get("endpoints") or ())
    return sorted({address for endpoint in endpoints for address in endpoint.get("addresses") or ()})

"""From the SDK's spelling to the API's."""

from components.pods.manifest import manifest


def test_fields_are_spelled_as_the_api_spells_them_at_every_depth() -> None:
    pod = {"init_containers": [{"volume_mounts": [{"mount_path": "/weights", "read_only": True}]}]}
    assert manifest(pod) == {"initContainers": [{"volumeMounts": [{"mountPath": "/weights", "readOnly": True}]}]}


def test_names_that_are_data_stay_as_they_are() -> None:
    limits = {"limits": {"rdma/hca_shared_devices_a": "1"}, "node_selector": {"our_label": "x"}}
    assert manifest(limits) == {"limits": {"rdma/hca_shared_devices_a": "1"}, "nodeSelector": {"our_label": "x"}}


def test_values_are_not_touched() -> None:
    name = object()  # as an output of another resource is one
    kept = manifest({"config_map": {"name": name}, "args": ["--max_len"], "env": [{"name": "A_B", "value": "c_d"}]})
    assert kept["configMap"]["name"] is name
    assert kept["args"] == ["--max_len"]
    assert kept["env"] == [{"name": "A_B", "value": "c_d"}]

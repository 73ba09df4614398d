"""The manifest of docs/cluster: of a shape that Kubernetes takes, and as docs/cluster.md says."""

import json
import pathlib

import pytest

yaml = pytest.importorskip("yaml", reason="comes with the extra [cluster]")
jsonschema = pytest.importorskip("jsonschema", reason="comes with the extra [cluster]")

MANIFEST = pathlib.Path(__file__).parent.parent / "docs" / "cluster" / "kuberay.yaml"
NAME = "tff-keyboard"


def strict(properties, *, optional=()):
    """A schema of a mapping with these keys and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": [key for key in properties if key not in optional],
        "additionalProperties": False,
    }


def items(schema):
    return {"type": "array", "items": schema, "minItems": 1}


STRING, TRUE, FALSE = {"type": "string"}, {"const": True}, {"const": False}
STRINGS = {"type": "object", "additionalProperties": STRING}  # a number would be refused
VOLUME = {
    "type": "object",
    "required": ["name"],
    "minProperties": 2,
    "maxProperties": 2,
}
CONTAINER = strict(
    {
        "name": STRING,
        "image": STRING,
        "env": items(strict({"name": STRING, "value": STRING})),
        "resources": strict({"requests": STRINGS, "limits": STRINGS}),
        "securityContext": strict(
            {
                "allowPrivilegeEscalation": FALSE,
                "runAsNonRoot": TRUE,
                "capabilities": {"const": {"drop": ["ALL"]}},
            }
        ),
        "volumeMounts": items(
            strict(
                {"name": STRING, "mountPath": STRING, "readOnly": {"type": "boolean"}},
                optional=["readOnly"],
            )
        ),
    }
)
TEMPLATE = strict(
    {
        "spec": strict(
            {
                "automountServiceAccountToken": FALSE,
                "nodeSelector": strict({"node.kubernetes.io/instance-type": STRING}),
                "containers": items(CONTAINER),
                "volumes": items(VOLUME),
            }
        )
    }
)
COUNT = {"type": "integer", "minimum": 1}
CLUSTER = strict(
    {
        "apiVersion": {"const": "ray.io/v1"},
        "kind": {"const": "RayCluster"},
        "metadata": strict({"name": {"const": NAME}}),
        "spec": strict(
            {
                "rayVersion": {"pattern": r"^2\.52\."},
                "authOptions": {"const": {"mode": "token"}},
                "headGroupSpec": strict({"rayStartParams": STRINGS, "template": TEMPLATE}),
                "workerGroupSpecs": items(
                    strict(
                        {
                            "groupName": STRING,
                            "replicas": COUNT,
                            "minReplicas": COUNT,
                            "maxReplicas": COUNT,
                            "rayStartParams": STRINGS,
                            "template": TEMPLATE,
                        }
                    )
                ),
            }
        ),
    }
)


@pytest.fixture(scope="module")
def documents():
    return list(yaml.safe_load_all(MANIFEST.read_text()))


@pytest.fixture
def templates(documents):
    spec = documents[0]["spec"]
    return [spec["headGroupSpec"]["template"], spec["workerGroupSpecs"][0]["template"]]


def test_the_shape(documents):
    jsonschema.validate(documents[0], CLUSTER)
    assert documents[1]["kind"] == "NetworkPolicy"
    assert len(documents) == 2


def test_every_pod_has_tls_the_store_read_only_and_shared_memory(templates):
    images = set()
    for template in templates:
        (container,) = template["spec"]["containers"]
        images.add(container["image"])
        settings = {entry["name"]: entry["value"] for entry in container["env"]}
        assert settings["RAY_USE_TLS"] == "1"
        assert settings["RAY_USAGE_STATS_ENABLED"] == "0"
        mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
        assert mounts.keys() == volumes.keys()
        assert mounts["stores"]["readOnly"]
        assert volumes["stores"]["persistentVolumeClaim"]["readOnly"]
        assert mounts["stores"]["mountPath"] == settings["TFF_KEYBOARD_STORES"]
        assert mounts["shared-memory"]["mountPath"] == "/dev/shm"
        assert volumes["shared-memory"]["emptyDir"]["medium"] == "Memory"
        for file in ("RAY_TLS_CA_CERT", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY"):
            assert settings[file].startswith(mounts["tls"]["mountPath"] + "/")
    assert len(images) == 1


def test_workers_have_our_resource_and_the_head_has_not(documents):
    spec = documents[0]["spec"]
    worker = spec["workerGroupSpecs"][0]["rayStartParams"]
    assert json.loads(json.loads(worker["resources"])) == {"tff_keyboard": 1}
    assert "resources" not in spec["headGroupSpec"]["rayStartParams"]
    assert worker["include-dashboard"] == "false"


def test_only_the_clusters_pods_talk_to_each_other(documents):
    own = {"podSelector": {"matchLabels": {"ray.io/cluster": NAME}}}
    spec = documents[1]["spec"]
    assert spec["podSelector"] == own["podSelector"]
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    (ingress,) = spec["ingress"]
    operator = [peer for peer in ingress["from"] if peer != own]
    assert [peer["podSelector"]["matchLabels"] for peer in operator] == [
        {"app.kubernetes.io/name": "kuberay-operator"}
    ]
    for rule in spec["egress"]:
        assert rule.get("to") == [own] or {port["port"] for port in rule["ports"]} == {53}

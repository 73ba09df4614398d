"""The manifest of docs/cluster: what Kubernetes takes, and as docs/cluster.md says.

The schemas of Kubernetes come with a package; that of a RayCluster around them is written here
(KubeRay's own, of commit feeaf72 of 2026-08-19, took the whole file, strictly).
"""

import json
import pathlib

import pytest

yaml = pytest.importorskip("yaml", reason="comes with the packages of development")
kubernetes_validate = pytest.importorskip("kubernetes_validate")

from tasks.train import cluster as cluster_task  # noqa: E402

MANIFEST = pathlib.Path(__file__).parents[2] / "docs" / "cluster" / "kuberay.yaml"
NAME = "tff-keyboard"
VERSION = "1.33"  # of Kubernetes
SPEC = {"rayVersion", "authOptions", "headGroupSpec", "workerGroupSpecs"}
GROUP = {"rayStartParams", "template"}
WORKERS = GROUP | {"groupName", "replicas", "minReplicas", "maxReplicas"}


@pytest.fixture(scope="module")
def documents():
    return list(yaml.safe_load_all(MANIFEST.read_text()))


@pytest.fixture
def groups(documents):
    spec = documents[0]["spec"]
    return [spec["headGroupSpec"], *spec["workerGroupSpecs"]]


@pytest.fixture
def pods(groups):
    return [group["template"]["spec"] for group in groups]


def test_kubernetes_takes_it(documents, pods):
    for spec in pods:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
        kubernetes_validate.validate(pod, VERSION, strict=True)
        pod["spec"] = spec | {"securityContextt": {}}
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(pod, VERSION, strict=True)
    kubernetes_validate.validate(documents[1], VERSION, strict=True)
    assert [document["kind"] for document in documents] == ["RayCluster", "NetworkPolicy"]


def test_the_cluster_around_the_pods(documents, groups):
    cluster = documents[0]
    assert (cluster["apiVersion"], cluster["metadata"]["name"]) == ("ray.io/v1", NAME)
    assert cluster["spec"].keys() == SPEC
    assert cluster["spec"]["rayVersion"].startswith("2.52.")
    assert cluster["spec"]["authOptions"] == {"mode": "token"}
    head, *workers = groups
    assert head.keys() == GROUP
    assert all(group.keys() == WORKERS for group in workers)
    for group in groups:  # KubeRay takes strings only
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())


def test_nobody_is_root_or_writes_but_where_it_must(pods):
    for spec in pods:
        user = spec["securityContext"]
        assert user["runAsNonRoot"]
        assert min(user["runAsUser"], user["runAsGroup"], user["fsGroup"]) > 0
        assert user["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not spec["automountServiceAccountToken"]
        for container in (*spec["initContainers"], *spec["containers"]):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["requests"] == container["resources"]["limits"]
            assert "ephemeral-storage" in container["resources"]["limits"]
            writable = {m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")}
            home = {e["name"]: e.get("value") for e in container["env"]}["HOME"]
            assert home in writable
            assert writable <= {"/tmp", "/tls", "/dev/shm", "/runs"}


def test_volumes_and_mounts_fit(pods):
    for spec in pods:
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        containers = (*spec["initContainers"], *spec["containers"])
        mounted = {m["name"] for container in containers for m in container["volumeMounts"]}
        assert mounted == volumes.keys()
        (ray,) = spec["containers"]
        mounts = {mount["name"]: mount for mount in ray["volumeMounts"]}
        settings = {entry["name"]: entry.get("value") for entry in ray["env"]}
        assert mounts["stores"]["readOnly"]
        assert volumes["stores"]["persistentVolumeClaim"]["readOnly"]
        assert mounts["stores"]["mountPath"] == settings["TFF_KEYBOARD_STORES"]
        assert mounts["shared-memory"]["mountPath"] == "/dev/shm"
        assert volumes["shared-memory"]["emptyDir"]["medium"] == "Memory"
        assert "authority" not in mounts  # the key that admits machines


def test_each_pod_makes_a_certificate_for_its_own_address(pods):
    """By the command of this version; Ray looks for what it writes."""
    for spec, is_head in zip(pods, (True, False), strict=True):
        (maker,) = spec["initContainers"]
        name, task, *words = maker["command"]
        assert (name, task) == ("tff-keyboard", "cluster")
        options = cluster_task.Options.parse(task, [*words, *maker["args"]])
        assert options.action == "certificate"
        assert options.name == ("$(POD_IP)", *(["$(FQ_RAY_IP)"] if is_head else []))
        field = {entry["name"]: entry for entry in maker["env"]}["POD_IP"]["valueFrom"]
        assert field == {"fieldRef": {"fieldPath": "status.podIP"}}
        mounts = {mount["mountPath"]: mount["name"] for mount in maker["volumeMounts"]}
        assert mounts[str(options.authority)] == "authority"
        (ray,) = spec["containers"]
        settings = {entry["name"]: entry.get("value") for entry in ray["env"]}
        assert settings["RAY_USE_TLS"] == "1"
        tls = {m["name"]: m["mountPath"] for m in ray["volumeMounts"]}["tls"]
        assert mounts[str(options.out)] == "tls"
        for variable, file in (
            ("RAY_TLS_CA_CERT", "ca.crt"),
            ("RAY_TLS_SERVER_CERT", "tls.crt"),
            ("RAY_TLS_SERVER_KEY", "tls.key"),
        ):
            assert settings[variable] == f"{tls}/{file}"


def test_probes_ask_ports_that_are_open(groups):
    """KubeRay's own ask the dashboard, which is not started."""
    ports = ("6379", groups[1]["rayStartParams"]["node-manager-port"])
    for group, port in zip(groups, ports, strict=True):
        assert group["rayStartParams"]["include-dashboard"] == "false"
        (ray,) = group["template"]["spec"]["containers"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert ray[probe]["tcpSocket"] == {"port": int(port)}


def test_workers_have_our_resource_and_the_head_has_not(groups):
    head, worker = (group["rayStartParams"] for group in groups)
    assert json.loads(json.loads(worker["resources"])) == {"tff_keyboard": 1}
    assert "resources" not in head


def test_all_pods_have_one_image(pods):
    containers = [c for spec in pods for c in (*spec["initContainers"], *spec["containers"])]
    assert len({container["image"] for container in containers}) == 1


def test_only_the_clusters_pods_and_the_operator_talk_to_it(documents):
    own = {"podSelector": {"matchLabels": {"ray.io/cluster": NAME}}}
    spec = documents[1]["spec"]
    assert spec["podSelector"] == own["podSelector"]
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    (ingress,) = spec["ingress"]
    (operator,) = [peer for peer in ingress["from"] if peer != own]
    assert operator["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "kuberay-operator"}
    assert operator["namespaceSelector"]["matchLabels"].keys() == {"kubernetes.io/metadata.name"}
    for rule in spec["egress"]:
        assert rule.get("to") == [own] or {port["port"] for port in rule["ports"]} == {53}

"""A client that openapi-python-client generated works against a daemon, and its answers fit the document.

usage: openapi_client.py FOLDER_OF_THE_CLIENT DOCUMENT CONTROL_SOCKET DEVICE_FILE
"""

import importlib
import json
import pkgutil
import socketserver
import sys

import httpx
from openapi_schema_validator import OAS31Validator

folder, document, socket, device = sys.argv[1:]
sys.path.insert(0, folder)

import sandstone_client
import sandstone_client.api
from sandstone_client import models

transport = httpx.HTTPTransport(uds=socket)
client = sandstone_client.Client(
    base_url="http://localhost",
    raise_on_unexpected_status=True,
    httpx_args={"transport": transport},
)

OPERATIONS = {}
for group in pkgutil.iter_modules(sandstone_client.api.__path__):
    package = importlib.import_module(f"sandstone_client.api.{group.name}")
    for module in pkgutil.iter_modules(package.__path__):
        name = f"sandstone_client.api.{group.name}.{module.name}"
        OPERATIONS[module.name] = importlib.import_module(name)


def call(operation, *path, **rest):
    """Calls an operation; a problem is an error."""
    answer = OPERATIONS[operation].sync_detailed(*path, client=client, **rest)
    assert not isinstance(answer.parsed, models.Problem), f"{operation}: {answer.parsed}"
    assert answer.status_code in (200, 204), f"{operation}: {answer.status_code}"
    return answer.parsed


def refused(operation, kind, *path, **rest):
    """Calls an operation that must be refused, with a problem of this kind."""
    answer = OPERATIONS[operation].sync_detailed(*path, client=client, **rest).parsed
    assert isinstance(answer, models.Problem), f"{operation}: {answer}"
    assert answer.kind == kind and answer.message and answer.next_, f"{operation}: {answer}"


def check_answers():
    """Asks for all that can be asked for without a name; each answer must fit its schema."""
    with open(document, encoding="utf-8") as file:
        whole = json.load(file)
    checked = 0
    with httpx.Client(transport=httpx.HTTPTransport(uds=socket), base_url="http://localhost") as raw:
        for path, methods in whole["paths"].items():
            content = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema")
            needs = [p for p in methods.get("get", {}).get("parameters", []) if p.get("required")]
            if schema is None or needs:
                continue
            answer = raw.get(path)
            assert answer.status_code == 200, f"{path}: {answer.text}"
            with_types = {**schema, "components": whole["components"]}
            OAS31Validator(with_types).validate(answer.json())
            checked += 1
    return checked


def free_port():
    with socketserver.TCPServer(("127.0.0.1", 0), None) as server:
        return server.server_address[1]


TARGET = "iqn.2026-01.org.sandstone.conformance:generated"

# A request for a missing unit is refused with a problem, as the document describes.
refused("lu_show", models.ErrorKind.NOT_FOUND, "disk")
assert call("pool_list") == []

vdev = models.VdevRequest(kind=models.VdevKind.DISK, paths=[device])
call("pool_create", body=models.CreatePool(name="tank", vdevs=[vdev], file_size=256 << 20))
assert [(pool.name, pool.state) for pool in call("pool_list")] == [("tank", "ONLINE")]

volume = models.DatasetChangeCreate(
    name="tank/disk", verb=models.DatasetChangeCreateVerb.CREATE, size=64 << 20, sparse=True
)
call("volume_change", body=volume)
assert "tank/disk" in [dataset.name for dataset in call("volume_list")]

backend = models.BackendSpecVolume(kind=models.BackendSpecVolumeKind.VOLUME, volume="tank/disk")
call("lu_create", body=models.CreateUnit(name="disk", backend=backend))
unit = call("lu_show", "disk")
assert unit.spec.backend.volume == "tank/disk" and unit.status.size == 64 << 20, unit

call("target_create", body=models.CreateTarget(iqn=TARGET, portals=[f"127.0.0.1:{free_port()}"]))
chap = models.SetChap(user="web", secret="a-secret-of-the-lab")
call("host_create", body=models.CreateHost(name="web", initiators=["iqn.2026-01.x:web"], chap=chap))
made = call("map_add", body=models.AddMap(unit="disk", host="web", target=TARGET))
assert made.differences[0].action == models.Action.ADD, made
assert [(of.unit, of.host) for of in call("map_list")] == [("disk", "web")]
explained = call("map_explain", initiator="iqn.2026-01.x:web", unit="disk")
assert explained is not None

checked = check_answers()
newest = call("config_generations")[-1]
assert newest.in_force and newest.changes[0].command == "POST /v1/maps", newest

# A dry run changes nothing. Deleting an object in use is refused. In order, all can be deleted.
call("lu_delete", "disk", dry_run=True, cascade=True)
refused("lu_delete", models.ErrorKind.IN_USE, "disk")
call("map_remove", body=models.RemoveMap(unit="disk"))
call("host_delete", "web")
call("target_delete", TARGET)
call("lu_delete", "disk")
destroy = models.DatasetChangeDestroy(names=["tank/disk"], verb=models.DatasetChangeDestroyVerb.DESTROY)
call("volume_change", body=destroy)
call("pool_destroy", "tank")
assert call("lu_list") == [] and call("map_list") == [] and call("pool_list") == []
print(f"{len(OPERATIONS)} operations generated, {checked} answers checked")

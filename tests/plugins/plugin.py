"""A device plugin for tests, written against the published protocol with grpcio only, without code of nodewarden.

    plugin.py DESCRIPTORS BEHAVIOUR LOG

DESCRIPTORS is a google.protobuf.FileDescriptorSet with the package v1beta1. BEHAVIOUR is a JSON object (see DEFAULTS).
LOG is a file that gets one JSON object per line for each call that the plugin gets and for each of its registrations.

Lines on standard input change the behaviour while the plugin runs: `{"set": {...}}` replaces keys of the behaviour and
sends the list of devices again, `{"register": n}` makes n registrations at once, `{"end": "streams"}` ends the streams
of ListAndWatch, `{"die": code}` exits at once with this code. The plugin ends when its standard input is closed.
"""

import json
import os
import sys
import threading
import time
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

DEFAULTS = {
    "dir": "",  # the directory of kubelet.sock
    "resource": "",
    "endpoint": "plugin.sock",  # the name sent with the registration
    "socket": None,  # where it listens; by default the endpoint in the directory
    "version": "v1beta1",
    "watcher": None,  # a socket in the plugin watcher's directory; then it does not register by itself
    "register": 1,  # number of registrations at once; each has an endpoint of its own
    "again": True,  # registers again when there is a new kubelet.sock
    "pre_start_required": False,
    "preferred_allocation": False,
    "devices": [],  # {"id": "", "health": "Healthy", "numa": [0]}
    "response": {},  # a v1beta1.ContainerAllocateResponse as JSON; {ids} stands for the ids, separated by commas
    "per_device": [],  # {"container_path": "/dev/{id}", "host_path": "…", "permissions": "rw"}, added once per device
    "preferred": None,  # the ids to answer in any case; by default the last of the available ones
    "responses": 1,  # number of container responses in an answer to Allocate
    "hang": [],  # names of calls that are never answered
    "fail": {},  # names of calls that fail, with the error message
    "slow": {},  # names of calls, with the seconds that they take
    "die": [],  # names of calls in which the process exits
}


def message_classes(path):
    """Returns the message classes of a FileDescriptorSet and of the plugin watcher's protocol, by full name."""
    files = descriptor_pb2.FileDescriptorSet()
    with open(path, "rb") as file:
        files.ParseFromString(file.read())
    # The four messages of k8s.io/kubelet/pkg/apis/pluginregistration/v1.
    watcher = files.file.add(name="pluginregistration.proto", package="pluginregistration", syntax="proto3")
    text, flag = descriptor_pb2.FieldDescriptorProto.TYPE_STRING, descriptor_pb2.FieldDescriptorProto.TYPE_BOOL
    fields = {
        "InfoRequest": [],
        "PluginInfo": [("type", text), ("name", text), ("endpoint", text), ("supported_versions", text)],
        "RegistrationStatus": [("plugin_registered", flag), ("error", text)],
        "RegistrationStatusResponse": [],
    }
    for name, these in fields.items():
        message = watcher.message_type.add(name=name)
        for number, (field, kind) in enumerate(these, 1):
            many = field.endswith("versions")
            label = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED if many else 1
            message.field.add(name=field, number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    names = [f"{file.package}.{message.name}" for file in files.file for message in file.message_type]
    return {name: factory.GetPrototype(pool.FindMessageTypeByName(name)) for name in names}


class Plugin:
    def __init__(self, messages, behaviour, log):
        self.messages, self.behaviour, self.log_file = messages, {**DEFAULTS, **behaviour}, log
        self.changed = threading.Condition()
        self.version = 0  # incremented with every change of the devices
        self.cut = 0  # incremented when streams are to end
        self.servers = []

    def log(self, call, **more):
        with self.changed:
            line = {"at": time.time(), "call": call, **more}
            self.log_file.write(json.dumps(line) + "\n")
            self.log_file.flush()

    def message(self, name, **fields):
        return self.messages[f"v1beta1.{name}"](**fields)

    # Calls that it serves.

    def misbehave(self, call, context):
        """Delays, fails or hangs this call, or exits, as the behaviour says."""
        if call in self.behaviour["die"]:
            os._exit(1)
        if call in self.behaviour["hang"]:
            while True:
                time.sleep(60)
        if call in self.behaviour["slow"]:
            time.sleep(self.behaviour["slow"][call])
        if call in self.behaviour["fail"]:
            context.abort(grpc.StatusCode.INTERNAL, self.behaviour["fail"][call])

    def options(self):
        return self.message(
            "DevicePluginOptions",
            pre_start_required=self.behaviour["pre_start_required"],
            get_preferred_allocation_available=self.behaviour["preferred_allocation"],
        )

    def get_options(self, _request, context):
        self.log("GetDevicePluginOptions")
        self.misbehave("GetDevicePluginOptions", context)
        return self.options()

    def devices(self):
        answer = self.message("ListAndWatchResponse")
        for one in self.behaviour["devices"]:
            device = answer.devices.add(ID=one["id"], health=one.get("health", "Healthy"))
            for node in one.get("numa", []):
                device.topology.nodes.add(ID=node)
        return answer

    def list_and_watch(self, _request, context):
        self.log("ListAndWatch")
        self.misbehave("ListAndWatch", context)
        seen, cut = -1, self.cut
        while context.is_active():
            with self.changed:
                self.changed.wait_for(lambda: self.version != seen or self.cut != cut, timeout=1)
                if self.cut != cut:
                    return
                if self.version == seen:
                    continue
                seen = self.version
                answer = self.devices()
            yield answer
        self.log("ListAndWatchEnded")

    def get_preferred(self, request, context):
        answer = self.message("PreferredAllocationResponse")
        for one in request.container_requests:
            available, must = sorted(one.available_deviceIDs), list(one.must_include_deviceIDs)
            size = one.allocation_size
            self.log("GetPreferredAllocation", available=available, must_include=sorted(must), size=size)
            rest = [name for name in reversed(available) if name not in must]
            chosen = self.behaviour["preferred"]
            if chosen is None:
                chosen = (must + rest)[:size]
            answer.container_responses.add(deviceIDs=chosen)
        self.misbehave("GetPreferredAllocation", context)
        return answer

    def allocate(self, request, context):
        answer = self.message("AllocateResponse")
        for one in request.container_requests:
            ids = list(one.devices_ids)
            self.log("Allocate", ids=sorted(ids), containers=len(request.container_requests))
            text = json.dumps(self.behaviour["response"]).replace("{ids}", ",".join(sorted(ids)))
            for _ in range(self.behaviour["responses"]):
                response = answer.container_responses.add()
                json_format.Parse(text, response)
                for spec in self.behaviour["per_device"]:
                    for name in ids:
                        response.devices.add(**{key: value.replace("{id}", name) for key, value in spec.items()})
        self.misbehave("Allocate", context)
        return answer

    def pre_start(self, request, context):
        self.log("PreStartContainer", ids=sorted(request.devices_ids))
        self.misbehave("PreStartContainer", context)
        return self.message("PreStartContainerResponse")

    def get_info(self, _request, context):
        self.log("GetInfo")
        self.misbehave("GetInfo", context)
        return self.messages["pluginregistration.PluginInfo"](
            type="DevicePlugin",
            name=self.behaviour["resource"],
            endpoint=self.socket_path(),
            supported_versions=[self.behaviour["version"]],
        )

    def notify(self, request, _context):
        self.log("NotifyRegistrationStatus", registered=request.plugin_registered, error=request.error)
        return self.messages["pluginregistration.RegistrationStatusResponse"]()

    # Its own actions.

    def socket_path(self, number=0):
        if self.behaviour["watcher"]:
            return self.behaviour["watcher"]
        endpoint = os.path.basename(self.behaviour["endpoint"])
        path = self.behaviour["socket"] or os.path.join(self.behaviour["dir"], endpoint)
        return path if number == 0 else f"{path}.{number}"

    def handlers(self):
        def handler(method, request, answer, stream=False):
            request, answer = self.messages[request], self.messages[answer]
            make = grpc.unary_stream_rpc_method_handler if stream else grpc.unary_unary_rpc_method_handler
            return make(method, request_deserializer=request.FromString, response_serializer=answer.SerializeToString)

        plugin = {
            "GetDevicePluginOptions": handler(self.get_options, "v1beta1.Empty", "v1beta1.DevicePluginOptions"),
            "ListAndWatch": handler(self.list_and_watch, "v1beta1.Empty", "v1beta1.ListAndWatchResponse", True),
            "GetPreferredAllocation": handler(
                self.get_preferred, "v1beta1.PreferredAllocationRequest", "v1beta1.PreferredAllocationResponse"
            ),
            "Allocate": handler(self.allocate, "v1beta1.AllocateRequest", "v1beta1.AllocateResponse"),
            "PreStartContainer": handler(
                self.pre_start, "v1beta1.PreStartContainerRequest", "v1beta1.PreStartContainerResponse"
            ),
        }
        status = "pluginregistration.RegistrationStatus"
        watcher = {
            "GetInfo": handler(self.get_info, "pluginregistration.InfoRequest", "pluginregistration.PluginInfo"),
            "NotifyRegistrationStatus": handler(self.notify, status, f"{status}Response"),
        }
        return (
            grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", plugin),
            grpc.method_handlers_generic_handler("pluginregistration.Registration", watcher),
        )

    def serve(self, count):
        """Listens on new sockets, because the kubelet may have removed the old ones."""
        for server in self.servers:
            server.stop(None).wait(2)
        self.servers = []
        for number in range(count):
            server = grpc.server(futures.ThreadPoolExecutor(max_workers=64))
            server.add_generic_rpc_handlers(self.handlers())
            path = self.socket_path(number)
            if os.path.exists(path):
                os.unlink(path)
            server.add_insecure_port(f"unix:{path}")
            server.start()
            self.servers.append(server)
        self.log("Listening", count=count)

    def register(self, count):
        threads = [threading.Thread(target=self.register_one, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def register_one(self, number):
        endpoint = self.behaviour["endpoint"] if number == 0 else f"{self.behaviour['endpoint']}.{number}"
        request = self.message(
            "RegisterRequest",
            version=self.behaviour["version"],
            endpoint=endpoint,
            resource_name=self.behaviour["resource"],
            options=self.options(),
        )
        empty = self.messages["v1beta1.Empty"]
        socket = os.path.join(self.behaviour["dir"], "kubelet.sock")
        with grpc.insecure_channel(f"unix:{socket}", options=[("grpc.enable_http_proxy", 0)]) as channel:
            call = channel.unary_unary(
                "/v1beta1.Registration/Register",
                request_serializer=type(request).SerializeToString,
                response_deserializer=empty.FromString,
            )
            try:
                call(request, timeout=20, wait_for_ready=True)
                self.log("Registered", endpoint=endpoint)
            except grpc.RpcError as error:
                self.log("Refused", endpoint=endpoint, error=error.details(), code=error.code().name)

    def watch_kubelet(self):
        """Registers as soon as there is a kubelet.sock, and again with every new one."""
        socket, last = os.path.join(self.behaviour["dir"], "kubelet.sock"), None
        while True:
            try:
                found = os.stat(socket)
                identity = (found.st_ino, found.st_mtime_ns)
            except FileNotFoundError:
                identity = None
            if identity and identity != last and (last is None or self.behaviour["again"]):
                self.serve(self.behaviour["register"])
                self.register(self.behaviour["register"])
                last = identity
            time.sleep(0.02)

    def commands(self):
        for line in sys.stdin:
            order = json.loads(line)
            if "die" in order:
                os._exit(order["die"])
            with self.changed:
                self.behaviour.update(order.get("set", {}))
                self.version += 1
                self.cut += order.get("end") == "streams"
                self.changed.notify_all()
            if "register" in order:
                if order["register"] > len(self.servers):
                    self.serve(order["register"])
                self.register(order["register"])
            self.log("Obeyed", order=order)


def main():
    descriptors, behaviour, log = sys.argv[1:]
    with open(behaviour, encoding="utf-8") as file:
        behaviour = json.load(file)
    plugin = Plugin(message_classes(descriptors), behaviour, open(log, "a", encoding="utf-8"))
    # A plugin of the plugin watcher waits to be found; the others look for the kubelet.
    if plugin.behaviour["watcher"]:
        plugin.serve(1)
    else:
        threading.Thread(target=plugin.watch_kubelet, daemon=True).start()
    plugin.commands()
    os._exit(0)


if __name__ == "__main__":
    main()

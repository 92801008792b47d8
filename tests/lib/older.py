# SPDX-License-Identifier: GPL-2.0-or-later
"""A QEMU that says less of its guest than this one does, to a recorder: a proxy
at its QMP socket, which changes what the recorder asks the producer for."""

import array
import os
import socket
import tempfile
import threading

import transport

READY_KERNELS = 4
TASKS = 9
TASKS_SIZE = 48                 # of producers that know no kernels
CHUNK = 1 << 16
FDS = 16


def _send(sock, data, fds):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))] \
        if fds else []
    sent = sock.sendmsg([data], rights)
    if sent < len(data):
        sock.sendall(data[sent:])
    for fd in fds:
        os.close(fd)


def _receive(sock):
    """What there is, and file descriptors with it; b'' at the end"""
    data, ancillary, _, _ = sock.recvmsg(CHUNK, socket.CMSG_SPACE(4 * FDS))
    fds = array.array('i')
    for _, _, rights in ancillary:
        fds.frombytes(rights)
    return data, list(fds)


def _run(step, *socks):
    """Have a thread repeat it until one of its sockets ends."""
    def loop():
        try:
            while step():
                pass
        except OSError:
            pass
        for sock in socks:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
    threading.Thread(target=loop, daemon=True).start()


class Older:
    """with Older(qmp_path) as older: … record --qmp older.path

    Its producer sends no KERNEL events; and no TASK events, unless tasks is
    set.
    """

    def __init__(self, qmp_path, tasks=False):
        self.qmp_path = qmp_path
        self.tasks = tasks

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix='backtrail-')
        self.path = os.path.join(self.folder.name, 'qmp')
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(4)
        _run(self._accept)
        return self

    def __exit__(self, *exc):
        self.listener.close()
        self.folder.cleanup()

    def _accept(self):
        client, _ = self.listener.accept()
        server = socket.socket(socket.AF_UNIX)
        server.connect(self.qmp_path)
        _run(lambda: self._relay(client, server, self._between), client, server)
        _run(lambda: self._relay(server, client), client, server)
        return True

    def _relay(self, source, to, change=lambda fd: fd):
        data, fds = _receive(source)
        if data:
            _send(to, data, [change(fd) for fd in fds])
        return data

    def _between(self, fd):
        """Stand between the agent, whose socket it is, and the device."""
        agent = socket.socket(fileno=fd)
        device, theirs = socket.socketpair(socket.AF_UNIX)
        _run(lambda: self._message(agent, device), agent, device)
        _run(lambda: self._relay(device, agent), agent, device)
        return theirs.detach()

    def _message(self, agent, device):
        data, _ = transport.receive(agent, transport.MSG.size)
        if len(data) < transport.MSG.size:
            return False
        magic, version, kind, reason, zero, value = transport.MSG.unpack(data)
        tasks = b''
        if kind == TASKS:
            tasks, _ = transport.receive(agent, value)
            tasks, value = tasks[:TASKS_SIZE], TASKS_SIZE
        elif kind == transport.READY:
            value &= ~READY_KERNELS
        if kind != TASKS or self.tasks:
            device.sendall(transport.MSG.pack(magic, version, kind, reason,
                                              zero, value) + tasks)
        return True

# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent's side of the control connection, in Python.

For tests that are the service, and not always a good one.  Nothing here is
shared with the agent in host-agent/.
"""

import contextlib
import json
import os
import socket
import struct
import threading
import time

import transport

JSON, RESEND_CODE = 7, 8
JSON_MAX = 1 << 20

# What an answer returns if it is not to be sent
NOTHING = object()


class Refused(Exception):
    """Raised by an answer: the command fails with this text."""


class ExecuteError(Exception):
    """What the agent wanted to have executed has failed."""

    def __init__(self, error):
        super().__init__(error['desc'])
        self.cls = error['class']
        self.desc = error['desc']


def message(obj):
    """The bytes of a JSON message; obj is an object or its text."""
    text = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
    return transport.message(JSON, value=len(text)) + text


class Data(transport.Agent):
    """A data connection that a device has made."""

    def __init__(self, sock, fds, slot, size):
        super().__init__(None)
        self.sock.close()
        self.theirs.close()
        self.sock = sock
        self.take(fds, slot, size)


class Service:
    """A service that listens at a path, with threads of its own.

    answer(service, command) says what a command returns, raises Refused, or
    returns NOTHING; it runs in a thread of its own and may call execute().
    Data connections are answered READY if ready, and drained if drain.
    """

    def __init__(self, path, answer=None, ready=True, drain=True):
        self.path = path
        self.answer = answer or (lambda service, command: command)
        self.ready = ready
        self.drain = drain
        self.changed = threading.Condition()
        self.guests = []        # guest messages, one for each connection
        self.commands = []
        self.events = []
        self.replies = {}
        self.data = []
        self.protocol = []      # what a device must not do
        self.closed = 0         # control connections that have ended
        self.ids = 0
        self.control = None
        self.socks = []
        self.threads = []
        self.ended = False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(8)
        self.spawn(self.accept)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.kill()
        if exc[0] is None and self.protocol:
            raise AssertionError(f'the device has sent {self.protocol}')

    def spawn(self, function, *args):
        thread = threading.Thread(target=function, args=args, daemon=True)
        self.threads.append(thread)
        thread.start()

    def kill(self):
        """Gone, as if it had been killed: no more is read or answered."""
        with self.changed:
            self.ended = True
            self.listener.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
            for sock in self.socks:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
            self.changed.notify_all()
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join(10)
        for sock in self.socks:
            sock.close()
        for data in self.data:
            data.close()

    def accept(self):
        self.listener.settimeout(0.1)
        while not self.ended:
            try:
                sock, _ = self.listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            sock.settimeout(None)
            with self.changed:
                self.socks.append(sock)
            self.spawn(self.serve, sock)

    def serve(self, sock):
        try:
            head, fds = transport.receive(sock, transport.MSG.size, 3)
            if len(head) < transport.MSG.size:
                return
            magic, version, kind, slot, _, size = transport.MSG.unpack(head)
            if (magic, version) != (transport.MSG_MAGIC, transport.VERSION):
                self.note(self.protocol, head)
            elif kind == JSON:
                self.serve_control(sock, size)
            elif kind == transport.HELLO:
                self.serve_data(sock, fds, slot, size)
            else:
                self.note(self.protocol, head)
        except OSError:
            pass

    def note(self, where, what):
        with self.changed:
            where.append(what)
            self.changed.notify_all()

    def serve_control(self, sock, size):
        self.control = sock
        try:
            while True:
                text, _ = transport.receive(sock, size)
                if len(text) < size:
                    return
                self.take(json.loads(text))
                head, fds = transport.receive(sock, transport.MSG.size, 1)
                if len(head) < transport.MSG.size:
                    return
                magic, version, kind, _, _, size = transport.MSG.unpack(head)
                if (magic, version, kind) != (transport.MSG_MAGIC,
                                              transport.VERSION, JSON) or \
                        not 0 < size <= JSON_MAX or fds:
                    self.note(self.protocol, head)
                    return
        finally:
            with self.changed:
                if self.control is sock:
                    self.control = None
                self.closed += 1
                self.changed.notify_all()

    def take(self, message):
        kind = message.get('type')
        if kind == 'guest':
            self.note(self.guests, message)
        elif kind == 'command':
            self.note(self.commands, message['command'])
            self.spawn(self.reply, message['id'], message['command'])
        elif kind == 'event':
            self.note(self.events, (message['event'], message['data']))
        elif kind == 'reply':
            with self.changed:
                self.replies[message['id']] = message
                self.changed.notify_all()
        else:
            self.note(self.protocol, message)

    def reply(self, ident, command):
        try:
            reply = {'return': self.answer(self, command)}
        except Refused as e:
            reply = {'error': {'class': 'GenericError', 'desc': str(e)}}
        if reply.get('return') is not NOTHING:
            with contextlib.suppress(OSError):
                self.send({'type': 'reply', 'id': ident, **reply})

    def serve_data(self, sock, fds, slot, size):
        data = Data(sock, fds, slot, size)
        # Before the device continues
        self.note(self.data, data)
        if self.ready:
            sock.sendall(transport.message(transport.READY))
        try:
            while self.drain and not self.ended:
                if not data.drain_once():
                    time.sleep(0.001)
        except (struct.error, IndexError, OverflowError, ValueError):
            # Another agent has spoilt the memory: this one cannot continue, and
            # the guest must not wait for it.
            sock.shutdown(socket.SHUT_RDWR)

    def send(self, obj):
        self.send_bytes(message(obj))

    def send_bytes(self, data):
        with self.changed:
            control = self.control
        if not control:
            raise ConnectionResetError('there is no control connection')
        control.sendall(data)

    def wait(self, condition, what, timeout=60):
        with self.changed:
            if not self.changed.wait_for(lambda: condition() or self.ended,
                                         timeout) or not condition():
                raise TimeoutError(f'{what}: events are {self.events}')

    def wait_guest(self, number=1):
        """The guest message of the connection of this number, from 1 on."""
        self.wait(lambda: len(self.guests) >= number, 'no guest message')
        return self.guests[number - 1]

    def wait_event(self, name, match=lambda data: True):
        """Remove and return the data of the first such event."""
        found = []

        def look():
            for event in self.events:
                if event[0] == name and match(event[1]):
                    found.append(event)
                    return True
            return False
        self.wait(look, f'no event {name}')
        with self.changed:
            self.events.remove(found[0])
        return found[0][1]

    def wait_reply(self, ident):
        self.wait(lambda: ident in self.replies, f'no reply {ident}')
        return self.replies.pop(ident)

    def execute(self, command, **arguments):
        """Have QEMU execute a command and return what it returns."""
        with self.changed:
            self.ids += 1
            ident = self.ids
        request = {'type': 'execute', 'id': ident, 'execute': command}
        if arguments:
            request['arguments'] = arguments
        self.send(request)
        reply = self.wait_reply(ident)
        if 'error' in reply:
            raise ExecuteError(reply['error'])
        return reply['return']

# SPDX-License-Identifier: GPL-2.0-or-later
"""Hostile gdbs at the server of a hostile trace.

Several connect to one server, by TCP, and send what no gdb sends.  A request is
answered, can be interrupted, or ends the connection; another gdb is served
meanwhile; and the server ends within a second or two when it is asked to.
"""

import os
import signal
import socket
import subprocess
import time

import campaign
import grow
import mutate
import packets
import rsp
import traces

ANSWER = 20                     # seconds, of a machine that is busy
OTHERS = 10                     # for '?' of another gdb, the same
END = 10
PATIENCE = 3                    # before a request is interrupted
PEERS = 3
STEPS = 25


class Part(traces.Part):
    name = 'gdbserver'
    parallel = False
    # Searches of those that are long take their time; they are in other tests.
    samples = tuple(s for s in traces.SAMPLES if s not in ('large', 'tree'))

    def recover(self):
        self.stop()

    def round(self):
        self.server = None
        for name in self.files():
            os.unlink(name)
        data = self.make_trace(self.path)
        self.places = self.places_of(data)
        if not self.start():
            return
        try:
            self.converse()
            self.check_end()
        finally:
            self.stop()

    def places_of(self, data):
        """Addresses that mean something"""
        try:
            return grow.places(self.random, mutate.File(data))
        except Exception:
            return [0x1000]

    def start(self):
        """Start the server.  False if the trace has nothing to walk along,
        which is said."""
        options = self.random.choice(((), (), ('--vcpu', '0'),
                                      ('--process', 'init'),
                                      ('--at', 'last panic'), ('--at', '@1')))
        self.say(f'gdbserver {options}')
        self.err = open(self.out + '.err', 'w+b')
        self.server = subprocess.Popen(
            [self.backtrail, 'gdbserver', *options, self.path, '0'],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.err,
            env={**os.environ, **traces.SANITIZED})
        lines = [self.server.stdout.readline() for _ in '12']
        self.counts['servers'] += 1
        if not lines[1]:
            status = self.server.wait(ANSWER)
            self.clean({0, 1, 2, 3}, status)
            return False
        self.port = int(lines[1].rpartition(b':')[2])
        return True

    def said(self):
        self.err.seek(0)
        return self.err.read()

    def clean(self, codes, status):
        said = self.said()
        if status not in codes or b'runtime error' in said or \
                b'Sanitizer' in said:
            raise campaign.Failure(f'status {status}: {said[-3000:]!r}')
        self.printable(('gdbserver',), said)
        # Whom SIGTERM ends by the deadline says nothing.
        if status and status > 0 and not said:
            raise campaign.Failure(f'status {status}, and no word')

    def gdb(self):
        return rsp.Gdb(('127.0.0.1', self.port), ANSWER)

    def converse(self):
        r = self.random
        gdbs = [self.gdb() for _ in range(r.randrange(1, PEERS + 1))]
        try:
            for _ in range(STEPS):
                i = r.randrange(len(gdbs))
                if not self.step(gdbs[i]):
                    gdbs[i].close()
                    gdbs[i] = self.gdb()
                if r.random() < 0.1:
                    self.ask_another()
        finally:
            for gdb in gdbs:
                gdb.close()

    def step(self, gdb):
        """One thing that a gdb does; false if it is to be another one now."""
        r = self.random
        self.counts['requests'] += 1
        if r.random() < 0.05:
            # Whatever comes back, and then it is gone.
            try:
                gdb.socket.sendall(packets.raw(r, self.places))
                gdb.socket.settimeout(0.05)
                gdb.socket.recv(1 << 16)
            except OSError:
                pass
            return False
        text = packets.request(r, self.places)
        self.say(f'{text[:100]!r}')
        begin = time.monotonic()
        try:
            gdb.socket.settimeout(PATIENCE)
            gdb.send(text)
            answer = self.hear(gdb)
        except (TimeoutError, socket.timeout):
            answer = self.interrupt(gdb, text)
        except (BrokenPipeError, ConnectionError):
            answer = None
        took = time.monotonic() - begin
        if took > PATIENCE:
            self.counts['interrupted'] += 1
        return answer is not None

    def hear(self, gdb):
        """The answer; what is printed comes before it."""
        while True:
            answer = gdb.hear()
            if not answer or answer[0] != 'O' or answer == 'OK':
                return answer
            try:
                printed = bytes.fromhex(answer[1:])
            except ValueError:
                raise campaign.Failure(f'prints no digits: {answer[:200]}') \
                    from None
            self.printable(('monitor',), printed)

    def interrupt(self, gdb, text):
        try:
            gdb.socket.settimeout(ANSWER)
            gdb.interrupt()
            return self.hear(gdb)
        except (TimeoutError, socket.timeout):
            raise campaign.Failure(f'{text[:200]!r} cannot be interrupted: '
                                   f'{ANSWER} s') from None
        except (BrokenPipeError, ConnectionError):
            return None

    def ask_another(self):
        """Another gdb waits for nobody."""
        begin = time.monotonic()
        other = self.gdb()
        try:
            answer = other.ask('?')
        except (TimeoutError, socket.timeout):
            answer = None
        finally:
            other.close()
        took = time.monotonic() - begin
        if not answer or answer[0] not in 'TSW' or took > OTHERS:
            raise campaign.Failure(f'another gdb was told {answer!r} after '
                                   f'{took:.1f} s: {self.said()[-3000:]!r}')

    def check_end(self):
        self.clean({None}, self.server.poll())
        self.server.send_signal(signal.SIGTERM)
        try:
            status = self.server.wait(END)
        except subprocess.TimeoutExpired:
            raise campaign.Failure(f'SIGTERM does not end it: {END} s') \
                from None
        self.clean({0, 1, 3, -signal.SIGTERM}, status)

    def stop(self):
        if self.server:
            self.server.kill()
            self.server.wait()
            self.server.stdout.close()
            self.err.close()
            self.server = None

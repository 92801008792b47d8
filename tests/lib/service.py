# SPDX-License-Identifier: GPL-2.0-or-later
"""Run backtraild for a test, and guests that are traced by it."""

import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import booted
import guest
import hold
import qemu


def binary():
    """Path of backtraild: in $BACKTRAIL_BUILD or build/."""
    build = os.environ.get('BACKTRAIL_BUILD', os.path.join(qemu.TOP, 'build'))
    path = os.path.join(build, 'host-agent', 'service', 'backtraild')
    if not os.access(path, os.X_OK):
        raise qemu.QemuError(f'no backtraild at {path}: run ninja, or set '
                             'BACKTRAIL_BUILD to the build folder')
    return path


class Service:
    """A backtraild with folders of its own, which are gone in the end.

    config: {group: {key: value}}
    slow:   its disk can be held, see held()
    """

    def __init__(self, config=None, slow=False, own=False):
        self.slow = slow
        self.options = ['--idle', '3600'] if own else []
        self.dir = tempfile.mkdtemp(prefix='backtraild-')
        self.socket = self.path('agent.sock')
        self.traces = self.path('traces')
        self.log = self.path('log')
        self.process = None
        self.configure(config or {})

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def trace(self, *names):
        return os.path.join(self.traces, *names)

    def configure(self, config):
        groups = {'service': {'socket': self.socket, 'traces': self.traces,
                              'state': self.path('state'),
                              'verbose': 'true'}}
        # The disk of tests may be nearly full.
        groups['all-guests'] = {'keep-free': '16M'}
        for group, keys in config.items():
            groups.setdefault(group, {}).update(keys)
        with open(self.path('conf'), 'w', encoding='utf-8') as f:
            for group, keys in groups.items():
                f.write(f'[{group}]\n')
                f.writelines(f'{k}={v}\n' for k, v in keys.items())

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def start(self):
        with open(self.log, 'ab') as log:
            self.process = qemu.spawn([binary(), '--config',
                                       self.path('conf'), *self.options],
                                      stdin=subprocess.DEVNULL, stdout=log,
                                      stderr=log,
                                      env=hold.env(self.path('hold'))
                                      if self.slow else None)
        wait_until(lambda: self.process.poll() is not None or
                   self.listens(), f'backtraild listens: {self.output()}')
        if self.process.poll() is not None:
            raise qemu.QemuError(f'backtraild: {self.output()}')

    def listens(self):
        """Is the socket that of a process that has begun?"""
        with open(f'/proc/net/unix', encoding='utf-8') as f:
            return any(line.endswith(f' {self.socket}\n') and
                       line.split()[3] == '00010000' for line in f)

    def held(self):
        """A context in which its disk takes for ever"""
        return hold.held(self.path('hold'))

    def kill(self):
        """End it as a crash would."""
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()
        self.process = None

    def stop(self, timeout=60):
        """End it in order; its exit status"""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout)

    def leave(self, timeout=60):
        """End it as for a restart; its exit status"""
        self.process.send_signal(signal.SIGUSR2)
        return self.process.wait(timeout)

    def reload(self):
        before = self.output().count('read again')
        self.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.output().count('read again') > before,
                   'the configuration is read')

    def state(self):
        """What it would know of its sessions if it was started again"""
        sessions = []
        for name in sorted(glob.glob(self.path('state', 'sessions',
                                               '*.json'))):
            with contextlib.suppress(FileNotFoundError), \
                    open(name, encoding='utf-8') as f:
                sessions.append(json.load(f))
        return sessions

    def output(self):
        with open(self.log, encoding='utf-8', errors='replace') as f:
            return f.read()


class Refused(Exception):
    """The service has refused a command."""


class Guest(qemu.Qemu):
    """A guest whose device knows the service."""

    def __init__(self, service, *words, name='vm', uuid=None, smp=1,
                 memory='192', initrd=None, args=(), **kwargs):
        share = ['-object', f'memory-backend-memfd,id=ram,size={memory}M,'
                 'share=on', '-machine', 'memory-backend=ram'] \
            if '-machine' not in args else []
        kind = ['-accel', 'tcg', '-smp', str(smp), '-device', 'vmcoreinfo',
                *share, *guest.args(*words, memory=memory),
                *(['-initrd', initrd] if initrd else [])]
        self.like = ['-device', 'branch-trace', *kind]
        super().__init__(['-name', name, *(['-uuid', uuid] if uuid else []),
                          '-device', f'branch-trace,agent={service.socket}',
                          *kind, *args],
                         **kwargs)

    def start_booted(self, until='^BT: beat'):
        """Start it where another one of its kind was when it first beat, or had
        written something else.

        A kind is of one kernel, initrd, memory and vCPUs; args may change no
        device.
        """
        booted.start(self, until, self.like)

    def ask(self, do, **members):
        """Have a command done by the service; a stop to its end."""
        command = {'do': do}
        command.update((k.replace('_', '-'), v) for k, v in members.items())
        try:
            result = self.qmp.command('branch-trace-agent',
                                      {'command': command}, timeout=60)
        except qemu.QmpError as e:
            raise Refused(e.desc) from None
        # It says so when the disk is busy.
        if do == 'dump' and result['state'] == 'writing':
            return self.wait_dump(result['session'], result['file'])
        if do == 'stop' and result['state'] == 'ending':
            return self.wait_state(result['session'], 'ended', 240)
        return result

    def session(self, name):
        """Its status"""
        return self.ask('status', session=name)['sessions'][-1]

    def wait_dump(self, session, file, timeout=240):
        """What has become of a dump that is being written"""
        def dump():
            found = [d for d in self.ask('status', session=session)['dumps']
                     if d['file'] == file]
            return found[-1]

        wait_until(lambda: dump()['state'] != 'writing',
                   f'{file} is written', timeout)
        result = dump()
        if result['state'] == 'failed':
            raise Refused(result['why'])
        return result

    def wait_state(self, name, state, timeout=60):
        wait_until(lambda: self.session(name)['state'] == state,
                   lambda: f'session {name} is {state}: '
                   f'{self.session(name)}', timeout)
        return self.session(name)

    def wait_records(self, name, n=1, timeout=60):
        """Wait until this many more records are there."""
        want = self.session(name)['records'] + n
        wait_until(lambda: self.session(name)['records'] >= want,
                   lambda: f'more records: {self.session(name)}', timeout)


def wait_until(condition, what, timeout=60):
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what() if callable(what) else what)
        time.sleep(0.05)

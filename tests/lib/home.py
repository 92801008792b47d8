# SPDX-License-Identifier: GPL-2.0-or-later
"""A user whose own service traces guests that libvirt does not run."""

import json
import os
import shutil
import signal
import tempfile

import backtrail
import booted
import guest
import qemu
from service import wait_until

OK, FAILED, USAGE, DAMAGED = range(4)
WORDS = ('bt.workload=sorter,beat', 'bt.end=stay', 'no_timer_check')


class Home:
    """Folders of a user, who has nothing yet, and the service in there"""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix='backtrail-home-')
        self.env = {**os.environ, 'HOME': self.dir,
                    'XDG_RUNTIME_DIR': self.path('run'),
                    'XDG_STATE_HOME': self.path('state'),
                    'XDG_CONFIG_HOME': self.path('config')}
        self.socket = self.path('run', 'backtrail', 'agent.sock')
        self.traces = self.path('state', 'backtrail', 'traces')
        os.makedirs(self.path('config', 'backtrail'))
        # The disk of tests may be nearly full.
        with open(self.path('config', 'backtrail', 'backtraild.conf'), 'w',
                  encoding='ascii') as f:
            f.write('[all-guests]\nkeep-free=16M\n')

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def services(self):
        """The processes of the user's service"""
        found = []
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{pid}/cmdline', 'rb') as f:
                    if self.socket.encode() in f.read().split(b'\0'):
                        found.append(int(pid))
            except OSError:
                pass
        return found

    def close(self):
        for pid in self.services():
            os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not self.services(), 'the service ends')
        shutil.rmtree(self.dir)

    def run(self, *args, code=OK, **kwargs):
        """backtrail with these arguments: what it prints, all of it"""
        result = backtrail.run(*args, check=False, env=self.env, text=True,
                               **kwargs)
        if result.returncode != code:
            raise AssertionError((args, result))
        return result.stdout + result.stderr

    def json(self, *args, **kwargs):
        return json.loads(self.run(*args, '--json', **kwargs))


class Guest(qemu.Qemu):
    """A guest with a monitor; device is what its device is given."""

    def __init__(self, name='vm', device='', **kwargs):
        kind = ['-accel', 'tcg', '-device', 'vmcoreinfo',
                '-object', 'memory-backend-memfd,id=ram,size=192M,share=on',
                '-machine', 'memory-backend=ram',
                *guest.args(*WORDS, memory='192')]
        self.like = ['-device', 'branch-trace', *kind]
        super().__init__(['-name', name, '-device',
                          f'branch-trace{device}', *kind], qmp_sockets=2,
                         **kwargs)

    def start_booted(self):
        booted.start(self, '^BT: beat', self.like)

    @property
    def way(self):
        return '--qmp', self.qmp_paths[1]

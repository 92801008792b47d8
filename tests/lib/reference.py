# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording replayed by QEMU alone: what backtrail rr is compared with."""

import hashlib
import json
import os
import re
import shutil
import tempfile
import time

import qemu


def registers(text):
    """{name: number} from QEMU's "info registers" """
    found = {}
    for name, value in re.findall(r'\b([A-Z][A-Z0-9]*) *='
                                  r'([0-9a-f]{8,16}(?: [0-9a-f]+)*)\b', text):
        groups = value.split()
        # Of the x87's, sign and exponent are last.
        if len(groups) == 2 and len(groups[1]) == 4:
            groups.reverse()
        found[name.lower()] = int(''.join(groups), 16)
    return found


def state(monitor, folder, megabytes):
    """What the guest behind a monitor is like: registers, interrupt
    controllers, memory; folder is for a file of the memory's size"""
    path = os.path.join(folder, 'memory')
    monitor.command('pmemsave', {'val': 0, 'size': megabytes << 20,
                                 'filename': path}, timeout=120)
    with open(path, 'rb') as f:
        memory = hashlib.file_digest(f, 'sha256').hexdigest()
    os.unlink(path)
    return [monitor.hmp(f'info {what}')
            for what in ('registers -a', 'lapic', 'pic')] + [memory]


def with_overlays(manifest):
    """QEMU's arguments, with what disks had when the recording begins"""
    arguments = manifest['arguments']
    for f in manifest['files']:
        if 'overlay' in f:
            arguments = [a.replace(
                f'file=recording/{f["name"]},format=raw',
                'driver=qcow2,file.driver=file,file.filename=recording/'
                f'{f["overlay"]},backing.driver=raw,backing.file.driver=file,'
                f'backing.file.filename=recording/{f["name"]}')
                for a in arguments]
    return arguments


class Reference:
    """A replay by QEMU alone, which only goes forward"""

    def __init__(self, folder):
        with open(os.path.join(folder, 'recording.json'),
                  encoding='utf-8') as f:
            manifest = json.load(f)
        self.dir = tempfile.mkdtemp(prefix='backtrail-')
        os.symlink(folder, os.path.join(self.dir, 'recording'))
        arguments = with_overlays(manifest)
        base = (manifest['begin']['base'] if 'begin' in manifest else
                'files/base' if manifest['version'] == 2 else None)
        self.serial = os.path.join(self.dir, 'serial')
        if '-serial' in arguments:
            arguments[arguments.index('-serial') + 1] = f'file:{self.serial}'
        self.process = qemu.spawn(
            [qemu.patched(), *arguments, '-S',
             *(('-incoming', f'file:recording/{base}') if base else ()),
             '-icount',
             manifest['qemu']['icount'] +
             ',rr=replay,rrfile=recording/replay.log',
             '-qmp', 'unix:qmp,server=on,wait=off'], cwd=self.dir)
        self.qmp = qemu.Qmp(os.path.join(self.dir, 'qmp'))
        while self.qmp.command('query-status')['status'] == 'inmigrate':
            time.sleep(0.01)

    def goto(self, icount):
        self.qmp.events.clear()
        self.qmp.command('replay-break', {'icount': icount})
        self.qmp.command('cont')
        self.qmp.wait_event('STOP', 240)

    def registers(self, icount):
        self.goto(icount)
        return registers(self.qmp.hmp('info registers'))

    def close(self):
        self.qmp.close()
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir)

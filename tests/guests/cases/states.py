# SPDX-License-Identifier: GPL-2.0-or-later
"""a guest sleeps, hibernates, goes back to a snapshot, moves to another QEMU"""

import os
import subprocess
import time

import guest
import qemu

KERNEL = '6.12-cloud'
CASES = {'S3': {'what': 'sleep'}, 'loadvm': {'what': 'loadvm'},
         'migrated': {'what': 'migrate'}, 'hibernate': {'what': 'hibernate'},
         # Traces that do not say which kernel runs, nor which task
         'S3-unsaid': {'what': 'sleep', 'less': {}},
         'loadvm-unsaid': {'what': 'loadvm', 'less': {}},
         'hibernate-unsaid': {'what': 'hibernate', 'less': {}}}


def run(lab, what, **options):
    {'sleep': sleep, 'loadvm': loadvm, 'migrate': migrate,
     'hibernate': hibernate}[what](lab, **options)


def sleep(lab, less=None):
    """Suspended to RAM, and woken up, in the middle of a trace"""
    with lab.guest() as g:
        with g.traced('sleep.btrail', less=less) as trace:
            g.run('spin 200')
            number = g.begin('echo mem >/sys/power/state')
            g.vm.qmp.wait_event('SUSPEND', 60)
            g.vm.qmp.command('system_wakeup')
            g.end(number)
            woken = time.monotonic()
            g.run('counted')
            g.run('spin 200')
        told = g.tell()
    lab.sound(trace)
    lab.judge(trace, [told], programs=lab.programs(), kernel=0.05,
              task=max(0.05, lab.unnamed(less)))
    lab.judge(trace, [told], 'woken', start=woken, programs=lab.programs(),
              task=lab.unnamed(less))


def loadvm(lab, less=None):
    """Back to a snapshot in the middle of a trace"""
    image = os.path.join(lab.folder, 'states.qcow2')
    subprocess.run([os.path.join(os.path.dirname(qemu.patched()), 'qemu-img'),
                    'create', '-q', '-f', 'qcow2', image, '1G'], check=True)
    with lab.guest(more=['-drive', f'file={image},if=none,id=states'],
                   memory=256) as g:
        with g.traced('loadvm.btrail', less=less) as trace:
            g.run('spin 200')
            g.vm.qmp.hmp('savevm here')
            number = g.commands
            g.run('counted')
            first = g.tell()
            g.vm.qmp.hmp('loadvm here')
            g.commands = number
            back = time.monotonic()
            # What is new has the PIDs of what was there.
            g.run('spin 300')
            g.run('seq 1000 | sort -n | md5sum')
        second = g.tell()
    lab.sound(trace)
    lab.judge(trace, [first], 'before', end=back - 0.5,
              programs=lab.programs(), task=lab.unnamed(less))
    lab.judge(trace, [second], 'after', start=back, programs=lab.programs(),
              task=lab.unnamed(less))


def migrate(lab):
    """Two traces: of the guest before it moves, and after"""
    state = os.path.join(lab.folder, 'state')
    with lab.guest(memory=256) as g:
        before = g.tell()
        trace = os.path.join(lab.folder, 'before.btrail')
        with g.recorded(trace) as record:
            time.sleep(guest.NAMED_S)
            g.run('spin 200')
            first = g.tell(symbols=before)
            g.vm.qmp.command('migrate', {'uri': f'file:{state}'})
            g.vm.qmp.wait_migrated()
            lab.check('record', record.wait() == 0 and
                      'migrated' in record.output(), record.output())
        lab.sound(trace)
        lab.judge(trace, [first], 'before', programs=lab.programs())
        g.move(state)
        with g.traced('after.btrail') as trace:
            g.run('counted')
            g.run('spin 200')
        second = g.tell()
    lab.sound(trace)
    lab.judge(trace, [second], 'after', programs=lab.programs())


def hibernate(lab, less=None):
    """Suspended to a disk; the kernel that boots then hands over to the one
    that it finds there, in the middle of a trace"""
    disk = os.path.join(lab.folder, 'disk')
    with open(disk, 'wb') as f:
        f.truncate(512 << 20)
    with lab.guest(modules=('virtio_blk',), memory=256, more=[
            '-drive', f'file={disk},format=raw,if=virtio']) as g:
        g.run('modprobe virtio_blk; mkswap /dev/vda; swapon /dev/vda; '
              'echo shutdown >/sys/power/disk')
        number = g.begin('echo disk >/sys/power/state')
        g.vm.wait(120)
        g.restart()
        boots = g.tell()
        with g.traced('hibernate.btrail', less=less) as trace:
            g.run('spin 200')
            first = g.tell(symbols=boots)
            leaves = time.monotonic()
            g.begin('modprobe virtio_blk; cat /sys/block/vda/dev '
                    '>/sys/power/resume')
            g.end(number)
            g.commands = number
            resumed = time.monotonic()
            time.sleep(guest.NAMED_S)
            named = time.monotonic()
            g.run('counted')
            g.run('spin 200')
        told = g.tell()
    lab.sound(trace)
    programs = lab.programs()
    lab.judge(trace, [first], 'boots', end=leaves, programs=programs,
              task=lab.unnamed(less))
    lab.judge(trace, [told], 'resumed', start=resumed, kernel=1, task=1,
              programs=programs)
    lab.judge(trace, [told], 'after', start=named, programs=programs,
              task=lab.unnamed(less))

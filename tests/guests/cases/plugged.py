# SPDX-License-Identifier: GPL-2.0-or-later
"""memory is plugged in, before the trace or while it runs"""

import os
import tempfile

KERNEL = '6.12-cloud'
CASES = {'plugged-before': {'during': False}, 'plugged-during': {'during': True}}
MEMORY = 256                    # MiB; as much is plugged in
# What is left of the first memory is filled, so that tasks live in the new one.
FILL = ('mount -o remount,size=100% /tmp; free=$(sed -n "s/^MemFree: *\\([0-9]*\\) .*/\\1/p" /proc/meminfo); '
        'dd if=/dev/zero of=/tmp/fill bs=1k count=$((free - 20000)) '
        '2>/dev/null')
ONLINE = ('for m in /sys/devices/system/memory/memory*/state; do '
          'grep -q online $m || echo online >$m; done; '
          'sed -n "s/^MemTotal: *\\([0-9]*\\) .*/\\1/p" /proc/meminfo')


def plug(lab, g):
    file = tempfile.NamedTemporaryFile(prefix='backtrail-', dir=os.path.dirname(
        g.ram[0].name))
    g.ram.append(file)
    g.vm.qmp.command('object-add', {
        'qom-type': 'memory-backend-file', 'id': 'more', 'share': True,
        'size': MEMORY << 20, 'mem-path': file.name})
    g.vm.qmp.command('device_add', {'driver': 'pc-dimm', 'id': 'dimm',
                                    'memdev': 'more'})
    total = int(g.run(f'sleep 1; {ONLINE}').split()[-1])
    lab.check('memory', total > MEMORY * 1024 * 3 // 2,
              f'the guest has {total} KiB')


def run(lab, during):
    with lab.guest(memory=MEMORY, maximal=(2, 2 * MEMORY)) as g:
        g.run(FILL)
        if not during:
            plug(lab, g)
        with g.traced('plugged.btrail') as trace:
            if during:
                plug(lab, g)
            # New tasks, most of which are in new memory
            g.run('for i in 1 2 3 4 5 6 7 8; do sleep 4 & done; counted; '
                  'spin 200; wait')
        g.run('rm /tmp/fill')
        told = g.tell()
    lab.sound(trace)
    lab.judge(trace, [told], programs=lab.programs())
